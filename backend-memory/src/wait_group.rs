//! The wait group: its members are holds, its generations end at zero.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{self, Alarm, Instant};
use stanchion_core::engine::RecordSeen;
use stanchion_core::{
    Detached, Inspection, Kind, Member, Name, Outcome, Result, Ticket, WaitGroup, WaitGroupOptions,
    check_members,
};

use crate::kernel::{Cause, End, Generation};
use crate::name_handle::{Granted, NameHandle};
use crate::session::Session;

/// A wait group in this process.
#[derive(Debug)]
pub(crate) struct MemoryWaitGroup {
    handle: Arc<NameHandle>,
}

/// The count that `wait` finds first.
enum Count {
    Zero(Outcome),
    Live(Arc<Generation>),
}

impl MemoryWaitGroup {
    pub(crate) fn open(session: &Arc<Session>, name: Name, options: &WaitGroupOptions) -> Result<Self> {
        let WaitGroupOptions { limit, on_mismatch, hold, .. } = options;
        Ok(Self { handle: NameHandle::open(session, Kind::WaitGroup, name, hold, *limit, *on_mismatch)? })
    }

    fn member(&self, granted: Granted) -> Member {
        Member::new(self.handle.hold(granted, 1))
    }

    fn count_now(&self) -> Result<u64> {
        self.handle.with(|permits, _| {
            self.handle.check_record(permits)?;
            Ok(permits.used())
        })
    }

    fn look(&self) -> Result<Count> {
        self.handle.with(|permits, _| {
            self.handle.check_record(permits)?;
            let live = permits.used() > 0;
            Ok(match &mut permits.generations {
                Some(generations) if live => Count::Live(generations.watch()),
                Some(generations) => Count::Zero(generations.last()),
                None => Count::Zero(Outcome::default()),
            })
        })
    }

    /// Waits until the generation that is open now comes to zero, at most until a time.
    async fn wait_until(&self, until: Option<Instant>) -> Result<Option<Outcome>> {
        let generation = match self.look()? {
            Count::Zero(outcome) => return Ok(Some(outcome)),
            Count::Live(generation) => generation,
        };
        let mut closing = pin!(self.handle.session.closing.notified());
        closing.as_mut().enable();
        let mut alarm = Alarm::default();
        loop {
            let mut changed = pin!(generation.changed.notified());
            changed.as_mut().enable();
            // Ends expired members, which may end the generation.
            let next_end = self.handle.with(|permits, transition| Ok(permits.expect_end(transition)))?;
            match generation.end.get() {
                Some(End::Zero(outcome)) => return Ok(Some(*outcome)),
                Some(End::StateLost) => return Err(RecordSeen::lost()),
                None if until.is_some_and(|until| until <= clock::now()) => return Ok(None),
                None => {}
            }
            let at = until.into_iter().chain(next_end).min();
            poll_fn(|cx| {
                if changed.as_mut().poll(cx).is_ready() || closing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                alarm.poll(cx, at)
            })
            .await;
        }
    }
}

#[async_trait]
impl WaitGroup for MemoryWaitGroup {
    fn name(&self) -> &str {
        self.handle.name.as_str()
    }

    async fn add(&self) -> Result<Member> {
        let granted = self.handle.acquire("add", 1).await.map_err(self.handle.context("add"))?;
        Ok(self.member(granted))
    }

    async fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        check_members(count).map_err(self.handle.context("add_many"))?;
        loop {
            let whole =
                self.handle.acquire("add_many", count).await.map_err(self.handle.context("add_many"))?;
            // It ended before it was split, and no caller has it: it is added again.
            if let Some(parts) = self.handle.split(whole.ticket, count) {
                return Ok(parts.into_iter().map(|part| self.member(part)).collect());
            }
        }
    }

    async fn try_add(&self) -> Result<Option<Member>> {
        let granted = self.handle.try_hold("try_add", 1).map_err(self.handle.context("try_add"))?;
        Ok(granted.map(|granted| self.member(granted)))
    }

    async fn add_for(&self, timeout: Duration) -> Result<Option<Member>> {
        let granted =
            self.handle.acquire_for("add_for", 1, timeout).await.map_err(self.handle.context("add_for"))?;
        Ok(granted.map(|granted| self.member(granted)))
    }

    async fn attach(&self, detached: &Detached) -> Result<Member> {
        let (granted, _) = self.handle.attach(detached).map_err(self.handle.context("attach"))?;
        Ok(self.member(granted))
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        self.handle.end(ticket, Cause::Finished).map_err(self.handle.context("done"))
    }

    async fn wait(&self) -> Result<Outcome> {
        loop {
            if let Some(outcome) = self.wait_until(None).await.map_err(self.handle.context("wait"))? {
                return Ok(outcome);
            }
        }
    }

    async fn wait_for(&self, timeout: Duration) -> Result<Option<Outcome>> {
        let until = clock::now().checked_add(timeout);
        self.wait_until(until).await.map_err(self.handle.context("wait_for"))
    }

    async fn count(&self) -> Result<u64> {
        self.count_now().map_err(self.handle.context("count"))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.handle.inspect().map_err(self.handle.context("inspect"))
    }
}
