//! Acquisition: request the hold; while the store answers "waiting", wait for a wake-up and request
//! it again.

use std::sync::Arc;

use tokio::time::Instant;

use crate::clock::now;
use crate::clock::wait_until;
use crate::engine::agreed::Agreed;
use crate::engine::keeping::hold::LeaseHold;
use crate::engine::keeping::lease_backend::LeaseBackend;
use crate::engine::retrying::{Attempts, WaitLimit};
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::sending::leftover::{Left, Leftover};
use crate::engine::shared::EngineHandle;
use crate::engine::timing::ATTEMPTS;
use crate::engine::waiting::waiters::{Queued, WakeUp};
use crate::spi::{Acquire, Acquired, NO_LIMIT, Object, ParameterCheck};
use crate::{Error, ErrorKind, FencingToken, Hold, HoldOptions, Result, Ticket};

/// A grant that no [`Hold`] owns yet.
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    /// When the request that was granted was sent.
    pub(crate) sent: Instant,
    /// An earlier request of this ticket may still be under way.
    pub(crate) ambiguous: bool,
    /// The epoch of a wait group's record.
    pub(crate) epoch: u64,
}

/// One acquisition. `limit` is that of its handle.
pub(crate) struct Acquisition<'a> {
    pub(crate) engine: &'a Arc<EngineHandle>,
    pub(crate) request: Acquire,
    pub(crate) wait_limit: WaitLimit,
    pub(crate) limit: &'a Agreed<u32>,
}

/// What to do after an answer.
enum Next {
    Done(Option<Grant>),
    /// Wait in the queue.
    Wait(Queued),
    Again,
    /// The engine has taken the ticket over.
    TakenOver,
    /// Request anew, with another ticket.
    Anew,
}

impl Acquisition<'_> {
    /// Returns the grant, and the [`InDoubt`] that the caller resolves once the hold has an owner;
    /// `None` for a definite no.
    pub(crate) async fn run(mut self) -> Result<Option<(Grant, InDoubt)>> {
        self.engine.shared.check_open()?;
        wait_for_room(self.engine, &self.request.object, self.wait_limit).await?;
        let mut in_doubt = self.in_doubt();
        let mut wake_up: Option<WakeUp> = None;
        let mut ambiguous = false;
        let (mut late, mut cancelled) = (0, 0);
        let mut attempts = Attempts::within(self.wait_limit);
        let (mut is_again, mut unanswered) = (false, None);
        // The error of a call that makes one attempt, whose answer was lost within its time limit.
        let (mut lost, first_end) = (None, self.request_end());
        loop {
            if std::mem::replace(&mut is_again, true) {
                self.engine.shared.check_open()?;
            }
            let before = in_doubt.is_open();
            if !in_doubt.sent() {
                // Nobody polled this call, others waited for it, and so it was passed over (C6).
                match self.wait_limit {
                    WaitLimit::None => return Err(Error::passed_over()),
                    WaitLimit::Until(end) if now() >= end => return unanswered.map_or(Ok(None), Err),
                    _ => {}
                }
                self.request.ticket = Ticket::random();
                if wake_up.is_some() {
                    // It was let into the queue before.
                    self.request.max_waiters = None;
                }
                (in_doubt, wake_up, ambiguous) = (self.in_doubt(), None, false);
                continue;
            }
            let sent = now();
            let end = if lost.is_some() { first_end } else { self.request_end() };
            let answer = self.engine.shared.batcher.ask(self.request.clone(), end).await;
            unanswered = answer.as_ref().err().map(Error::replicate);
            match answer {
                Ok(answer) => match self.judge(answer, sent, ambiguous, &mut in_doubt)? {
                    Next::Done(granted) => return Ok(granted.map(|grant| (grant, in_doubt))),
                    Next::Again => {
                        late += 1;
                        if late % ATTEMPTS == 0 {
                            in_doubt.failed();
                            attempts.ride_out(Error::too_slow(self.request.lease, sent.elapsed())).await?;
                        }
                    }
                    Next::TakenOver => {}
                    Next::Anew => {
                        cancelled += 1;
                        if cancelled == ATTEMPTS {
                            return Err(Error::lost());
                        }
                        self.request.ticket = Ticket::random();
                        (in_doubt, wake_up, ambiguous) = (self.in_doubt(), None, false);
                    }
                    Next::Wait(queued) => {
                        attempts.answered();
                        let wake_up = wake_up.get_or_insert_with(|| in_doubt.join(queued));
                        if !self.wait(wake_up).await {
                            return Ok(None);
                        }
                    }
                },
                Err(error) => {
                    let is_unknown = error.kind() == ErrorKind::Unknown;
                    if is_unknown {
                        ambiguous = true;
                    } else if !before {
                        in_doubt.resolved();
                    }
                    in_doubt.failed();
                    if let (WaitLimit::None, Some(lost)) = (self.wait_limit, lost.take()) {
                        return Err(if is_unknown { error } else { lost });
                    }
                    if is_unknown && matches!(self.wait_limit, WaitLimit::None) && now() < first_end {
                        // The connection has ended. Another one tells what came of the attempt.
                        lost = Some(error);
                        continue;
                    }
                    attempts.ride_out(error).await?;
                }
            }
        }
    }

    /// Makes the ticket of the request one in doubt.
    fn in_doubt(&self) -> InDoubt {
        let Acquire { object, ticket, lease, queue, .. } = &self.request;
        InDoubt::new(self.engine, object, *ticket, *lease, if *queue { Left::Place } else { Left::Hold })
            .that_can_be_passed_over()
    }

    fn request_end(&self) -> Instant {
        self.wait_limit.request_end(self.engine.shared.request_end(Some(self.request.lease)))
    }

    fn judge(
        &mut self,
        answer: Acquired,
        sent: Instant,
        ambiguous: bool,
        in_doubt: &mut InDoubt,
    ) -> Result<Next> {
        let waits = matches!(answer, Acquired::Waiting { .. }) && self.request.queue;
        if matches!(answer, Acquired::Granted { .. } | Acquired::Waiting { .. }) {
            // The store has compared the limit: later requests of this acquisition follow its
            // changes (C20).
            self.request.check = ParameterCheck::Follow;
        }
        if waits {
            in_doubt.queued(!ambiguous);
        } else if !ambiguous && !matches!(answer, Acquired::Granted { .. }) {
            in_doubt.resolved();
        }
        match answer {
            Acquired::Granted { token, limit, epoch } => {
                self.limit.learn(limit);
                // Too old to hand out (C6): requested again, the same ticket gets a lease of full
                // length.
                if now() > sent + self.request.lease.handout() {
                    return Ok(Next::Again);
                }
                if !in_doubt.hand_out() {
                    return Ok(Next::TakenOver);
                }
                Ok(Next::Done(Some(Grant { token, sent, ambiguous, epoch })))
            }
            Acquired::Waiting { limit, epoch } => {
                self.limit.learn(limit);
                Ok(if self.request.queue { Next::Wait(Queued { sent, epoch }) } else { Next::Done(None) })
            }
            Acquired::Cancelled if in_doubt.is_taken_over() => Ok(Next::TakenOver),
            // `close` cancelled it before this request arrived, or a request whose answer was lost
            // was granted and released by force since.
            Acquired::Cancelled => {
                in_doubt.resolved();
                self.engine.shared.check_open().map(|()| Next::Anew)
            }
            Acquired::Mismatch { stored } => {
                let [given, stored] =
                    [self.request.limit, stored].map(|limit| (limit != NO_LIMIT).then_some(limit));
                Err(Error::limit_mismatch(self.request.object.kind, given, stored))
            }
            Acquired::TooLarge { limit } => {
                self.limit.learn(limit);
                Err(Error::over_limit(self.request.weight, limit))
            }
            Acquired::Overloaded => Err(Error::queue_full()),
        }
    }

    /// Waits for a wake-up; `false` when the time is over.
    async fn wait(&self, wake_up: &WakeUp) -> bool {
        tokio::select! {
            biased;
            () = wake_up.notified() => true,
            () = wait_until(self.wait_limit.end()) => false,
        }
    }
}

/// Waits, within the call's time limit, until the process has room for another call in doubt about
/// that object (C28).
///
/// # Errors
/// `Overloaded` if there is none in time; `Closed`.
pub(crate) async fn wait_for_room(
    engine: &Arc<EngineHandle>,
    object: &Object,
    wait_limit: WaitLimit,
) -> Result<()> {
    let (shared, mut attempts) = (&engine.shared, Attempts::within(wait_limit));
    while shared.is_full(object) {
        let no_room = Error::new(ErrorKind::Unavailable, "no room");
        attempts.ride_out(no_room).await.map_err(|_| Error::too_many_in_doubt())?;
        shared.check_open()?;
    }
    Ok(())
}

/// The result of a call without a time limit, which has no definite no.
pub(crate) fn granted<T>(granted: Option<T>) -> Result<T> {
    granted.ok_or_else(Error::lost)
}

/// Makes the hold of a grant, and registers it for renewal.
///
/// # Errors
/// `Closed`; then `in_doubt` cancels the grant.
pub(crate) fn into_hold(
    grant: &Grant,
    mut in_doubt: InDoubt,
    options: &HoldOptions,
    weight: u32,
) -> Result<Hold> {
    let engine = Arc::clone(in_doubt.engine());
    let Leftover { object, ticket, lease, .. } = in_doubt.leftover.clone();
    let mut hold = LeaseHold::new(object, ticket, lease, grant.sent);
    hold.store = engine.shared.store();
    hold.namespace = Some(Arc::clone(&engine.shared.namespace));
    hold.ambiguous = grant.ambiguous;
    hold.label.clone_from(&options.label);
    hold.renew_until = options.max_hold.and_then(|max_hold| grant.sent.checked_add(max_hold));
    let hold = Arc::new(hold);
    engine.shared.adopt(&hold, options.renew)?;
    in_doubt.resolved();
    let backend = LeaseBackend { engine, hold };
    Ok(Hold::new(Arc::new(backend), ticket, grant.token, weight))
}
