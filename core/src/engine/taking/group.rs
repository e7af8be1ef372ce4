//! Wait groups of lease stores: a member is a hold; the engine's thread tells waiters of the end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::clock::now;
use crate::engine::keeping::lease_backend::release_with_retry;
use crate::engine::sending::batching::Batcher;
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::sending::step_batches::Looking;
use crate::engine::taking::acquire::{Grant, granted};
use crate::engine::taking::handle::ObjectHandle;
use crate::engine::taking::wait_limit::WaitLimit;
use crate::engine::timing::{FIRST_PAUSE, sleep_until_some};
use crate::engine::waiting::generation_end::End;
use crate::engine::waiting::group_waiters::Interest;
use crate::engine::waiting::record_seen::{RecordSeen, state_lost};
use crate::options::check_members;
use crate::steps::{Ending, GroupSteps, Kept, Look, Looked, Release, Split};
use crate::{Detached, Error, ErrorKind, Inspection, Member, Outcome, Result, Ticket, Ttl, WaitGroup};

/// A wait group as one caller uses it.
#[derive(Debug)]
pub(crate) struct WaitGroupHandle {
    handle: ObjectHandle,
    steps: Arc<dyn GroupSteps>,
    looks: Arc<Batcher<Looking>>,
    record_seen: RecordSeen,
}

impl WaitGroupHandle {
    /// # Errors
    /// `Unsupported` if the store has no steps of wait groups.
    pub(crate) fn new(handle: ObjectHandle) -> Result<Self> {
        let shared = &handle.engine.shared;
        let (Some(steps), Some(looks)) = (shared.steps.groups.clone(), shared.looks.clone()) else {
            return Err(Error::new(ErrorKind::Unsupported, "the store has no wait groups"));
        };
        Ok(Self { handle, steps, looks, record_seen: RecordSeen::default() })
    }

    async fn add_one(&self, operation: &'static str, wait_limit: WaitLimit) -> Result<Option<Member>> {
        let Some((grant, in_doubt)) = self.handle.acquire(operation, 1, wait_limit).await? else {
            return Ok(None);
        };
        self.record_seen.follow(grant.epoch);
        self.handle.make_hold(operation, &grant, in_doubt, 1).map(|hold| Some(Member::new(hold)))
    }

    /// Adds several members as one hold, which is one decision, and splits it.
    async fn add_all(&self, count: u32) -> Result<Vec<Member>> {
        check_members(count)?;
        loop {
            let acquired = self.handle.acquire("add_many", count, WaitLimit::Forever).await?;
            let (grant, in_doubt) = granted(acquired)?;
            self.record_seen.follow(grant.epoch);
            if count == 1 {
                return Ok(vec![Member::new(self.handle.make_hold("add_many", &grant, in_doubt, 1)?)]);
            }
            // Its lease ended before the split: no caller was told of it, so it is added again.
            if let Some(members) = self.split(&grant, in_doubt, count).await? {
                return Ok(members);
            }
        }
    }

    /// Splits a hold into members; `None` if it is gone. Members whose outcome is unknown are cancelled.
    async fn split(&self, grant: &Grant, mut whole: InDoubt, count: u32) -> Result<Option<Vec<Member>>> {
        let shared = &self.handle.engine.shared;
        let (object, lease) = (whole.object.clone(), whole.lease);
        let into: Vec<_> = (0..count).map(|_| Ticket::random()).collect();
        let in_doubt = |ticket: &Ticket| InDoubt::new(&self.handle.engine, &object, *ticket, lease);
        let mut parts: Vec<_> = into.iter().map(in_doubt).collect();
        let split = Split { object: object.clone(), from: whole.ticket, into, lease };
        let (mut ambiguous, mut pause) = (false, FIRST_PAUSE);
        loop {
            shared.check_open()?;
            parts.iter_mut().for_each(InDoubt::sent);
            let sent = now();
            match self.steps.split(&split).await {
                // Too old to hand out (C6): split again, the members get leases of full length.
                Ok(true) if now() > sent + lease.handout() => {
                    ambiguous = true;
                    let error = Error::too_slow(lease, sent.elapsed());
                    WaitLimit::Forever.ride_out(error, &mut pause).await?;
                }
                Ok(true) => {
                    whole.resolved();
                    let grant = Grant { token: grant.token, sent, ambiguous: false, epoch: grant.epoch };
                    let hold = |part| self.handle.make_hold("add_many", &grant, part, 1).map(Member::new);
                    return parts.into_iter().map(hold).collect::<Result<_>>().map(Some);
                }
                Ok(false) => {
                    if !ambiguous {
                        parts.iter_mut().for_each(InDoubt::resolved);
                    }
                    return Ok(None);
                }
                Err(error) => {
                    ambiguous |= error.kind() == ErrorKind::Unknown;
                    if !ambiguous {
                        parts.iter_mut().for_each(InDoubt::resolved);
                    }
                    WaitLimit::Forever.ride_out(error, &mut pause).await?;
                }
            }
        }
    }

    /// Looks at the group; also returns when the request was sent.
    async fn look(&self, look: &Look, wait_limit: WaitLimit) -> Result<(Looked, Instant)> {
        let shared = &self.handle.engine.shared;
        loop {
            shared.check_open()?;
            let sent = now();
            let end = wait_limit.request_end(shared.request_end(None));
            let looked = self.looks.ask(look.clone(), end).await?;
            if self.record_seen.check(&looked, sent)? {
                return Ok((looked, sent));
            }
        }
    }

    /// Waits for the end of the generation that is open now; `None` when the time is over.
    async fn wait_for_zero(&self, wait_limit: WaitLimit) -> Result<Option<Outcome>> {
        // Before a lock is taken, which a forked child must not do.
        self.handle.engine.shared.check_open()?;
        let mut interest = self.handle.engine.shared.group_waiters.join(&self.handle.object);
        let mut pause = FIRST_PAUSE;
        loop {
            let mut look = interest.look();
            look.watch = look.watch.filter(|_| !matches!(wait_limit, WaitLimit::None));
            match self.look(&look, wait_limit).await {
                Ok((Looked { ended: Some(outcome), .. }, _)) => return Ok(Some(outcome)),
                Ok(_) if matches!(wait_limit, WaitLimit::None) => return Ok(None),
                Ok((looked, sent)) => {
                    return self.wait_for_end(&mut interest, &looked, sent, wait_limit).await;
                }
                Err(error) => wait_limit.ride_out(error, &mut pause).await?,
            }
        }
    }

    /// Waits until the engine's thread tells the end.
    async fn wait_for_end(
        &self,
        interest: &mut Interest<'_>,
        looked: &Looked,
        sent: Instant,
        wait_limit: WaitLimit,
    ) -> Result<Option<Outcome>> {
        let end_of_generation = interest.watch(looked, sent);
        let end = tokio::select! {
            biased;
            end = end_of_generation.ended() => end,
            () = sleep_until_some(wait_limit.end()) => return end_of_generation.still_open().map(|()| None),
        };
        match end {
            End::Zero(outcome) => Ok(Some(*outcome)),
            End::Gone(looked, sent) => {
                // The handle follows the record that exists now; another waiter may have made it do so already.
                drop(self.record_seen.check(looked, *sent));
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
        match release_with_retry(shared, &release).await? {
            (Kept::Yes, _) => Ok(()),
            (Kept::No, _) => Err(Error::lost()),
        }
    }
}

#[async_trait]
impl WaitGroup for WaitGroupHandle {
    fn name(&self) -> &str {
        self.handle.object.name.as_str()
    }

    async fn add(&self) -> Result<Member> {
        self.add_one("add", WaitLimit::Forever).await.and_then(granted)
    }

    async fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        self.add_all(count).await.map_err(|error| self.handle.context("add_many", error))
    }

    async fn try_add_for(&self, limit: Duration) -> Result<Option<Member>> {
        self.add_one("try_add_for", WaitLimit::at_most(limit)).await
    }

    async fn attach(&self, detached: &Detached) -> Result<Member> {
        let (hold, epoch) = self.handle.take_over(detached).await?;
        self.record_seen.follow(epoch);
        Ok(Member::new(hold))
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        self.finish(ticket).await.map_err(|error| self.handle.context("done", error))
    }

    async fn wait(&self) -> Result<Outcome> {
        let waited = self.wait_for_zero(WaitLimit::Forever).await.and_then(granted);
        waited.map_err(|error| self.handle.context("wait", error))
    }

    async fn wait_for(&self, limit: Duration) -> Result<Option<Outcome>> {
        let waited = self.wait_for_zero(WaitLimit::at_most(limit)).await;
        waited.map_err(|error| self.handle.context("wait_for", error))
    }

    async fn count(&self) -> Result<u64> {
        let object = self.handle.object.clone();
        let hint = self.handle.engine.shared.group_waiters.hint(&object);
        let looked = self.look(&Look { object, watch: None, hint }, WaitLimit::None).await;
        looked.map(|(looked, _)| looked.count).map_err(|error| self.handle.context("count", error))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect("inspect").await
    }
}
