//! The one way to acquire: ask, and while the store says to wait, wait to be woken and ask again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::EngineHandle;
use super::board::{Bell, Queued};
use super::hold::{LeaseHold, sleep_until_some};
use super::keeper::LeaseKeeper;
use super::outbox::Message;
use super::steps::{Acquire, Acquired, Ending, LimitCheck, NO_LIMIT, Object, Release};
use crate::clock::{now, sleep};
use crate::{Error, ErrorKind, FencingToken, Hold, HoldOptions, Result, Ticket, Ttl};

/// How long an acquisition may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// One attempt, no queueing.
    None,
    /// Until then.
    Until(Instant),
    /// For as long as it takes.
    Forever,
}

impl Patience {
    /// At most this long; zero is one attempt, and what is longer than the clock reaches is for ever.
    pub(crate) fn at_most(limit: Duration) -> Self {
        if limit.is_zero() {
            return Self::None;
        }
        now().checked_add(limit).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Self::Until(end) => Some(end),
            Self::None | Self::Forever => None,
        }
    }

    /// When a request is over that could run until `limit`.
    pub(crate) fn request_end(self, limit: Instant) -> Instant {
        self.end().map_or(limit, |end| limit.min(end + LAST_WORD))
    }

    /// Waits a little while the store is away, or ends with its error.
    pub(crate) async fn ride_out(self, error: Error, pause: &mut Duration) -> Result<()> {
        let over = match self {
            Self::None => true,
            Self::Until(end) => now() >= end,
            Self::Forever => false,
        };
        if over || error.kind().is_final() {
            return Err(error);
        }
        let jittered = pause.mul_f64(rand::random_range(0.5..=1.0));
        *pause = (*pause * 2).min(LAST_PAUSE);
        match self.end() {
            // At the end one more attempt would overrun: the error is the last word.
            Some(end) if now() + jittered >= end => {
                tokio::time::sleep_until(end).await;
                Err(error)
            }
            _ => {
                sleep(jittered).await;
                Ok(())
            }
        }
    }
}

/// A request at its time limit gets so much longer for its answer, before the outcome is called unknown.
pub(crate) const LAST_WORD: Duration = Duration::from_millis(200);
/// Between the first two attempts while the store is away; it doubles up to the last.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const LAST_PAUSE: Duration = Duration::from_millis(400);

/// An acquisition that may have left something at the store. Dropped in doubt, it queues the cancel (C4).
#[derive(Debug)]
pub(crate) struct Doubt {
    engine: Arc<EngineHandle>,
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Ttl,
    /// It takes a hold over that somebody had before: in doubt it is released, so that a member of a wait group does
    /// not end uncounted.
    moves: bool,
    /// On the board, as an acquisition that may queue.
    asks: bool,
    raised: bool,
}

impl Doubt {
    pub(crate) fn new(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        Self {
            engine: Arc::clone(engine),
            object: object.clone(),
            ticket,
            lease,
            moves: false,
            asks: false,
            raised: false,
        }
    }

    /// The doubt about a hold that is moved to a ticket.
    pub(crate) fn of_move(engine: &Arc<EngineHandle>, object: &Object, ticket: Ticket, lease: Ttl) -> Self {
        let mut doubt = Self::new(engine, object, ticket, lease);
        doubt.moves = true;
        doubt
    }

    /// A request is about to be sent.
    pub(crate) fn raise(&mut self) {
        self.raised = true;
    }

    /// Nothing is left at the store, or what is left has an owner.
    pub(crate) fn settle(&mut self) {
        self.raised = false;
    }

    /// The ticket queues at the store: its wake-ups arrive at the bell.
    fn join(&self, queued: Queued) -> Bell {
        self.engine.shared.board.join(&self.object, self.ticket, self.lease.get(), queued)
    }

    /// The acquisition may queue from now on.
    fn ask(&mut self) {
        self.asks = true;
        self.engine.shared.board.ask(self.ticket);
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        if self.asks {
            shared.board.leave(self.ticket);
        }
        if self.raised && self.moves {
            let object = self.object.clone();
            let lasting = self.lease.tombstone();
            let (ending, tombstone) = (Ending::Abandoned, Some(lasting));
            let release = Release { object, ticket: self.ticket, ending, tombstone, call: None };
            shared.outbox.push(Message::Release(release), now().checked_add(lasting.get()));
        } else if self.raised {
            shared.send_cancel(&self.object, self.ticket, self.lease);
        }
    }
}

/// A grant, before it is anybody's.
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    pub(crate) sent: Instant,
    pub(crate) ambiguous: bool,
    /// Names the life of a wait group's record.
    pub(crate) born: u64,
}

/// Runs one acquisition. `learn` is told the limit in force with every answer that has one.
pub(crate) struct Acquisition<'a> {
    pub(crate) engine: &'a Arc<EngineHandle>,
    pub(crate) request: Acquire,
    pub(crate) patience: Patience,
    pub(crate) learn: &'a (dyn Fn(u32) + Sync),
}

/// What one answer means for the waiting.
enum Next {
    Done(Option<Grant>),
    /// Wait in the queue.
    Wait(Queued),
    Again,
}

impl Acquisition<'_> {
    /// The grant and its doubt, which the caller settles once the hold has an owner; `None` for a definite no.
    pub(crate) async fn run(mut self) -> Result<Option<(Grant, Doubt)>> {
        let mut doubt =
            Doubt::new(self.engine, &self.request.object, self.request.ticket, self.request.lease);
        if self.request.queue {
            doubt.ask();
        }
        let mut bell: Option<Bell> = None;
        let mut ambiguous = false;
        let mut pause = FIRST_PAUSE;
        loop {
            self.engine.shared.check_open()?;
            let before = doubt.raised;
            doubt.raise();
            let sent = now();
            let error = match self.ask().await {
                Ok(answer) => match self.judge(answer, sent, ambiguous, &mut doubt)? {
                    Next::Done(None) => return Ok(None),
                    Next::Done(Some(grant)) => return Ok(Some((grant, doubt))),
                    Next::Again => continue,
                    Next::Wait(queued) => {
                        pause = FIRST_PAUSE;
                        let bell = bell.get_or_insert_with(|| doubt.join(queued));
                        if !self.wait(bell).await {
                            return Ok(None);
                        }
                        continue;
                    }
                },
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Unknown {
                ambiguous = true;
            } else if !before {
                doubt.settle();
            }
            self.patience.ride_out(error, &mut pause).await?;
        }
    }

    async fn ask(&self) -> Result<Acquired> {
        let shared = &self.engine.shared;
        let end = self.patience.request_end(shared.request_end(Some(self.request.lease)));
        shared.acquires.ask(self.request.clone(), end).await
    }

    fn judge(&mut self, answer: Acquired, sent: Instant, ambiguous: bool, doubt: &mut Doubt) -> Result<Next> {
        let waits = matches!(answer, Acquired::Waiting { .. }) && self.request.queue;
        if matches!(answer, Acquired::Granted { .. } | Acquired::Waiting { .. }) {
            // The limit was compared: a request that asks again follows what was changed since (C20).
            self.request.check = LimitCheck::Follow;
        }
        if !waits && !ambiguous && !matches!(answer, Acquired::Granted { .. }) {
            doubt.settle();
        }
        match answer {
            Acquired::Granted { token, limit, born } => {
                (self.learn)(limit);
                // Too old to hand out (C6): asked again, the same ticket gets a lease of full length.
                if now() > sent + self.request.lease.handout() {
                    return Ok(Next::Again);
                }
                Ok(Next::Done(Some(Grant { token, sent, ambiguous, born })))
            }
            Acquired::Waiting { limit, born } => {
                (self.learn)(limit);
                Ok(if self.request.queue { Next::Wait(Queued { sent, born }) } else { Next::Done(None) })
            }
            // By `close`, which overtook this request; nobody else knows the ticket.
            Acquired::Cancelled => Err(self.engine.shared.check_open().err().unwrap_or_else(Error::lost)),
            Acquired::Mismatch { stored } => Err(Error::new(
                ErrorKind::ConfigMismatch,
                format!("the store has {}, this handle {}", told(stored), told(self.request.limit)),
            )),
            Acquired::TooLarge { limit } => {
                (self.learn)(limit);
                Err(over_limit(self.request.weight, limit))
            }
            Acquired::Overloaded => Err(Error::new(ErrorKind::Overloaded, "the queue is at max_waiters")),
        }
    }

    /// `false` when the time is over.
    async fn wait(&self, bell: &Bell) -> bool {
        tokio::select! {
            biased;
            () = bell.notified() => true,
            () = sleep_until_some(self.patience.end()) => false,
        }
    }
}

/// What was asked for can never be had.
pub(crate) fn over_limit(weight: u32, limit: u32) -> Error {
    Error::invalid_argument(format!("{weight} at once is over the limit of {limit}"))
}

fn told(limit: u32) -> String {
    if limit == NO_LIMIT { "no limit".to_owned() } else { format!("a limit of {limit}") }
}

/// Makes the hold of a grant and gives it to the watchdog and a keeper.
///
/// # Errors
/// `Closed`; then `doubt` cancels the grant.
pub(crate) fn own(grant: &Grant, mut doubt: Doubt, options: &HoldOptions, weight: u32) -> Result<Hold> {
    let engine = Arc::clone(&doubt.engine);
    let mut hold = LeaseHold::new(doubt.object.clone(), doubt.ticket, doubt.lease, grant.sent);
    hold.ambiguous = grant.ambiguous;
    hold.renew_until = options.max_hold.and_then(|max_hold| grant.sent.checked_add(max_hold));
    let hold = Arc::new(hold);
    engine.shared.adopt(&hold, options.renew)?;
    doubt.settle();
    let keeper = LeaseKeeper { engine, hold };
    Ok(Hold::new(Arc::new(keeper), doubt.ticket, grant.token, weight))
}
