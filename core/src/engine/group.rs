//! Wait groups of lease stores: members are holds, and those who wait are told of the end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout_at};

use super::acquire::{Doubt, FIRST_PAUSE, Grant, Patience};
use super::handle::Handle;
use super::hold::sleep_until_some;
use super::joint::{Joint, Passage, Vessel};
use super::keeper::insist;
use super::permits::granted;
use super::point::End;
use super::seen::{Seen, state_lost};
use super::steps::{Answers, Ending, GroupSteps, Kept, Look, Looked, Release, Split};
use super::watch::Interest;
use crate::clock::now;
use crate::{Error, ErrorKind, Inspection, Member, Outcome, Result, Ticket, Ttl, WaitGroup};

/// Looks that leave together.
#[derive(Debug)]
pub(crate) struct Looking(pub(crate) Arc<dyn GroupSteps>);

#[async_trait]
impl Vessel for Looking {
    type Ask = Look;
    type Answer = Looked;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Look) -> usize {
        self.0.lane(&ask.object)
    }

    async fn carry(&self, _: Passage<'_>, asks: &[Look]) -> Answers<Looked> {
        self.0.look(asks).await
    }
}

/// A wait group of one caller.
#[derive(Debug)]
pub(crate) struct Group {
    handle: Handle,
    steps: Arc<dyn GroupSteps>,
    looks: Arc<Joint<Looking>>,
    seen: Seen,
}

impl Group {
    /// # Errors
    /// `Unsupported` if the store has no steps of wait groups.
    pub(crate) fn new(handle: Handle) -> Result<Self> {
        let shared = &handle.engine.shared;
        let (Some(steps), Some(looks)) = (shared.steps.groups.clone(), shared.looks.clone()) else {
            return Err(Error::new(ErrorKind::Unsupported, "the store has no wait groups"));
        };
        Ok(Self { handle, steps, looks, seen: Seen::default() })
    }

    async fn add_one(&self, operation: &'static str, patience: Patience) -> Result<Option<Member>> {
        let Some((grant, doubt)) = self.handle.acquire(operation, 1, patience).await? else {
            return Ok(None);
        };
        self.seen.follow(grant.born);
        self.handle.own(operation, &grant, doubt, 1).map(|hold| Some(Member::new(hold)))
    }

    /// Adds several as one hold, which is one decision, and splits it.
    async fn add_all(&self, count: u32) -> Result<Vec<Member>> {
        loop {
            let acquired = self.handle.acquire("add_many", count, Patience::Forever).await?;
            let (grant, doubt) = granted(acquired)?;
            self.seen.follow(grant.born);
            if count == 1 {
                return Ok(vec![Member::new(self.handle.own("add_many", &grant, doubt, 1)?)]);
            }
            // If its lease ended before the store could be asked to split it, nobody has been told of it.
            if let Some(members) = self.split(&grant, doubt, count).await? {
                return Ok(members);
            }
        }
    }

    /// The members that a hold is split into; `None` if it is gone. What is in doubt is cancelled.
    async fn split(&self, grant: &Grant, mut whole: Doubt, count: u32) -> Result<Option<Vec<Member>>> {
        let shared = &self.handle.engine.shared;
        let (object, lease) = (whole.object.clone(), whole.lease);
        let into: Vec<_> = (0..count).map(|_| Ticket::random()).collect();
        let doubt = |ticket: &Ticket| Doubt::new(&self.handle.engine, &object, *ticket, lease);
        let mut parts: Vec<_> = into.iter().map(doubt).collect();
        let split = Split { object: object.clone(), from: whole.ticket, into, lease };
        let (mut ambiguous, mut pause) = (false, FIRST_PAUSE);
        loop {
            shared.check_open()?;
            parts.iter_mut().for_each(Doubt::raise);
            let sent = now();
            let answer = timeout_at(shared.request_end(Some(lease)), self.steps.split(&split)).await;
            match answer.unwrap_or_else(|_| Err(unanswered())) {
                // Too old to hand out (C6): asked again, the members get leases of full length.
                Ok(true) if now() > sent + lease.handout() => {}
                Ok(true) => {
                    whole.settle();
                    let grant = Grant { token: grant.token, sent, ambiguous: false, born: grant.born };
                    let own = |part| self.handle.own("add_many", &grant, part, 1).map(Member::new);
                    return parts.into_iter().map(own).collect::<Result<_>>().map(Some);
                }
                Ok(false) => {
                    if !ambiguous {
                        parts.iter_mut().for_each(Doubt::settle);
                    }
                    return Ok(None);
                }
                Err(error) => {
                    ambiguous |= error.kind() == ErrorKind::Unknown;
                    Patience::Forever.ride_out(error, &mut pause).await?;
                }
            }
        }
    }

    /// Asks how the group stands, and when that was sent.
    async fn look(&self, look: &Look, patience: Patience) -> Result<(Looked, Instant)> {
        let shared = &self.handle.engine.shared;
        loop {
            shared.check_open()?;
            let sent = now();
            let end = patience.request_end(shared.request_end(None));
            let looked = self.looks.ask(look.clone(), end).await?;
            if self.seen.judge(&looked, sent)? {
                return Ok((looked, sent));
            }
        }
    }

    /// Waits for the end of the generation that is open now; `None` when the time is over.
    async fn zero(&self, patience: Patience) -> Result<Option<Outcome>> {
        let mut interest = self.handle.engine.shared.watches.join(&self.handle.object);
        let mut pause = FIRST_PAUSE;
        loop {
            let mut look = interest.look();
            look.watch = look.watch.filter(|_| !matches!(patience, Patience::None));
            match self.look(&look, patience).await {
                Ok((Looked { ended: Some(outcome), .. }, _)) => return Ok(Some(outcome)),
                Ok(_) if matches!(patience, Patience::None) => return Ok(None),
                Ok((looked, sent)) => return self.attend(&mut interest, &looked, sent, patience).await,
                Err(error) => patience.ride_out(error, &mut pause).await?,
            }
        }
    }

    /// Waits until the engine's thread tells of the end.
    async fn attend(
        &self,
        interest: &mut Interest<'_>,
        looked: &Looked,
        sent: Instant,
        patience: Patience,
    ) -> Result<Option<Outcome>> {
        let point = interest.attend(looked, sent);
        let end = tokio::select! {
            biased;
            end = point.ended() => end,
            () = sleep_until_some(patience.end()) => return point.still_open().map(|()| None),
        };
        match end {
            End::Zero(outcome) => Ok(Some(*outcome)),
            End::Gone(looked, sent) => {
                // The handle follows what is there now; another waiter of it may have told it already.
                drop(self.seen.judge(looked, *sent));
                Err(state_lost())
            }
            End::Refused(error) => Err(error.replicate()),
            End::Closed => Err(Error::closed()),
        }
    }

    async fn finish(&self, ticket: Ticket) -> Result<()> {
        let shared = &self.handle.engine.shared;
        shared.check_open()?;
        let release = Release {
            object: self.handle.object.clone(),
            ticket,
            ending: Ending::Finished,
            tombstone: Some(Ttl::DEFAULT),
            call: Some(Ticket::random()),
        };
        match insist(shared, &release).await? {
            (Kept::Yes, _) => Ok(()),
            (Kept::No, _) => Err(Error::lost()),
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

#[async_trait]
impl WaitGroup for Group {
    fn name(&self) -> &str {
        self.handle.object.name.as_str()
    }

    async fn add(&self) -> Result<Member> {
        self.add_one("add", Patience::Forever).await.and_then(granted)
    }

    async fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        self.add_all(count).await.map_err(|error| self.handle.context("add_many", error))
    }

    async fn try_add_for(&self, limit: Duration) -> Result<Option<Member>> {
        self.add_one("try_add_for", Patience::at_most(limit)).await
    }

    async fn attach(&self, ticket: Ticket) -> Result<Member> {
        let (hold, born) = self.handle.take_over(ticket).await?;
        self.seen.follow(born);
        Ok(Member::new(hold))
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        self.finish(ticket).await.map_err(|error| self.handle.context("done", error))
    }

    async fn wait(&self) -> Result<Outcome> {
        let waited = self.zero(Patience::Forever).await.and_then(granted);
        waited.map_err(|error| self.handle.context("wait", error))
    }

    async fn wait_for(&self, limit: Duration) -> Result<Option<Outcome>> {
        let waited = self.zero(Patience::at_most(limit)).await;
        waited.map_err(|error| self.handle.context("wait_for", error))
    }

    async fn count(&self) -> Result<u64> {
        let object = self.handle.object.clone();
        let hint = self.handle.engine.shared.watches.hint(&object);
        let looked = self.look(&Look { object, watch: None, hint }, Patience::None).await;
        looked.map(|(looked, _)| looked.count).map_err(|error| self.handle.context("count", error))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect("inspect").await
    }
}
