//! Wait groups of lease stores: a member is a hold; the engine's thread wakes the waiters at the
//! end.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::api::options::check_members;
use crate::clock::now;
use crate::clock::wait_until;
use crate::engine::keeping::lease_backend::release_with_retry;
use crate::engine::retrying::{Attempts, WaitLimit};
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::sending::leftover::Left;
use crate::engine::taking::acquire::{Grant, granted};
use crate::engine::taking::handle::ObjectHandle;
use crate::engine::waiting::generation_end::End;
use crate::engine::waiting::group_waiters::Interest;
use crate::engine::waiting::record_seen::RecordSeen;
use crate::spi::{Ending, Kept, Look, Looked, MAX_SPLIT, Release, Split, StepsExt};
use crate::{Detached, Error, ErrorKind, Inspection, Member, Outcome, Result, Ticket, Ttl, WaitGroup};

/// A wait group as one caller uses it.
#[derive(Debug)]
pub(crate) struct WaitGroupHandle {
    handle: ObjectHandle,
    record_seen: RecordSeen,
}

impl WaitGroupHandle {
    /// # Errors
    /// `Unsupported` if the store has no steps of wait groups.
    pub(crate) fn new(handle: ObjectHandle) -> Result<Self> {
        if !handle.engine.shared.capabilities.wait_groups {
            return Err(Error::new(ErrorKind::Unsupported, "the store has no wait groups"));
        }
        Ok(Self { handle, record_seen: RecordSeen::default() })
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
            // Its lease ended before the split, and no caller has it: it is added again.
            if let Some(members) = self.split(&grant, in_doubt, count).await? {
                return Ok(members);
            }
        }
    }

    /// Splits a hold into members, a bounded number at a time (C27); `None` if it is gone. Members
    /// whose outcome is unknown are cancelled.
    async fn split(&self, grant: &Grant, mut whole: InDoubt, count: u32) -> Result<Option<Vec<Member>>> {
        let lease = whole.leftover.lease;
        let mut parts = Parts::new(&self.handle, &whole, count);
        let mut attempts = Attempts::within(WaitLimit::Forever);
        loop {
            let began = now();
            // What is too old to hand out (C6) is split off again, and its members get leases of
            // full length.
            let stale = parts.0.iter_mut().filter(|part| part.is_stale(lease));
            for split in join_all(stale.map(|part| self.split_off(part))).await {
                if !split? {
                    return Ok(None);
                }
            }
            if !parts.0.iter().any(|part| part.is_stale(lease)) {
                break;
            }
            attempts.ride_out(Error::too_slow(lease, began.elapsed())).await?;
        }
        whole.resolved();
        let mut members = Vec::with_capacity(count as usize);
        for Part { sent, in_doubt, .. } in parts.0 {
            let sent = sent.unwrap_or_else(now);
            let grant = Grant { token: grant.token, sent, ambiguous: false, epoch: grant.epoch };
            for member in in_doubt {
                members.push(Member::new(self.handle.make_hold("add_many", &grant, member, 1)?));
            }
        }
        Ok(Some(members))
    }

    /// Splits a part off; `false` if the hold is gone.
    async fn split_off(&self, part: &mut Part) -> Result<bool> {
        let mut attempts = Attempts::within(WaitLimit::Forever);
        loop {
            self.handle.engine.shared.check_open()?;
            for member in &mut part.in_doubt {
                member.sent();
            }
            let sent = now();
            let split = self.handle.engine.shared.steps.ask(part.split.clone()).await;
            match &split {
                Ok(true) => part.sent = Some(sent),
                Ok(false) => {}
                Err(error) => part.ambiguous |= error.kind() == ErrorKind::Unknown,
            }
            // Nothing of it is at the store.
            if part.sent.is_none() && !part.ambiguous {
                part.in_doubt.iter_mut().for_each(InDoubt::resolved);
            }
            match split {
                Ok(split) => return Ok(split),
                Err(error) => attempts.ride_out(error).await?,
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
            let looked = shared.batcher.ask(look.clone(), end).await?;
            if self.record_seen.check_answer(&looked, sent)? {
                return Ok((looked, sent));
            }
        }
    }

    /// Waits for the end of the generation that is open now; `None` when the time is over.
    async fn wait_for_zero(&self, wait_limit: WaitLimit) -> Result<Option<Outcome>> {
        // Before a lock is taken, which a forked child must not do.
        self.handle.engine.shared.check_open()?;
        let mut interest = self.handle.engine.shared.group_waiters.join(&self.handle.object);
        let mut attempts = Attempts::within(wait_limit);
        loop {
            let mut look = interest.look();
            look.watch = look.watch.filter(|_| !matches!(wait_limit, WaitLimit::None));
            match self.look(&look, wait_limit).await {
                Ok((Looked { ended: Some(outcome), .. }, _)) => return Ok(Some(outcome)),
                Ok(_) if matches!(wait_limit, WaitLimit::None) => return Ok(None),
                Ok((looked, sent)) => {
                    return self.wait_for_end(&mut interest, &looked, sent, wait_limit).await;
                }
                Err(error) => attempts.ride_out(error).await?,
            }
        }
    }

    /// Waits until the engine's thread sees the end.
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
            () = wait_until(wait_limit.end()) => return end_of_generation.still_open().map(|()| None),
        };
        match end {
            End::Zero(outcome) => Ok(Some(*outcome)),
            End::Gone(looked, sent) => {
                // The handle follows the record that exists now; another waiter may have made it do
                // so already.
                drop(self.record_seen.check_answer(looked, *sent));
                Err(RecordSeen::lost())
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

/// The parts of a hold that is split into members.
struct Parts(Vec<Part>);

struct Part {
    split: Split,
    /// Its members.
    in_doubt: Vec<InDoubt>,
    /// When the request that split it off was sent.
    sent: Option<Instant>,
    /// The outcome of a request is unknown.
    ambiguous: bool,
}

impl Part {
    /// Returns whether it has to be split off, or half of its lease is over.
    fn is_stale(&self, lease: Ttl) -> bool {
        self.sent.is_none_or(|sent| now() > sent + lease.handout())
    }
}

impl Parts {
    fn new(handle: &ObjectHandle, whole: &InDoubt, count: u32) -> Self {
        let (object, lease) = (&whole.leftover.object, whole.leftover.lease);
        let tickets: Vec<_> = (0..count).map(|_| Ticket::random()).collect();
        let part = |into: &[Ticket]| {
            let in_doubt = |ticket: &Ticket| InDoubt::new(&handle.engine, object, *ticket, lease, Left::Hold);
            Part {
                in_doubt: into.iter().map(in_doubt).collect(),
                split: Split {
                    object: object.clone(),
                    from: whole.leftover.ticket,
                    into: into.to_vec(),
                    lease,
                },
                sent: None,
                ambiguous: false,
            }
        };
        Self(tickets.chunks(MAX_SPLIT).map(part).collect())
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
        self.handle.on("add_many", self.add_all(count)).await
    }

    async fn try_add(&self) -> Result<Option<Member>> {
        self.add_one("try_add", WaitLimit::None).await
    }

    async fn add_for(&self, timeout: Duration) -> Result<Option<Member>> {
        self.add_one("add_for", WaitLimit::at_most(timeout)).await
    }

    async fn attach(&self, detached: &Detached) -> Result<Member> {
        let (hold, epoch) = self.handle.take_over(detached).await?;
        self.record_seen.follow(epoch);
        Ok(Member::new(hold))
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        self.handle.on("done", self.finish(ticket)).await
    }

    async fn wait(&self) -> Result<Outcome> {
        self.handle.on("wait", self.wait_for_zero(WaitLimit::Forever)).await.and_then(granted)
    }

    async fn wait_for(&self, timeout: Duration) -> Result<Option<Outcome>> {
        self.handle.on("wait_for", self.wait_for_zero(WaitLimit::at_most(timeout))).await
    }

    async fn count(&self) -> Result<u64> {
        let object = self.handle.object.clone();
        let hint = self.handle.engine.shared.group_waiters.hint(&object);
        let look = Look { object, watch: None, hint };
        let (looked, _) = self.handle.on("count", self.look(&look, WaitLimit::None)).await?;
        Ok(looked.count)
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect().await
    }
}
