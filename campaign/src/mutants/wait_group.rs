//! A wait group with a bug.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Detached, ErrorKind, Inspection, Member, Outcome, Result, Ticket, WaitGroup};

use super::Bug;

#[derive(Debug)]
pub(super) struct MutantWaitGroup {
    inner: Arc<dyn WaitGroup>,
    bug: Option<Bug>,
}

impl MutantWaitGroup {
    pub(super) fn new(inner: Arc<dyn WaitGroup>, bug: Option<Bug>) -> Self {
        Self { inner, bug }
    }

    /// Replaces an error of that kind by a success, if that is the bug.
    fn swallow<T>(&self, bug: Bug, kind: ErrorKind, result: Result<T>, instead: T) -> Result<T> {
        match result {
            Err(error) if self.bug == Some(bug) && error.kind() == kind => Ok(instead),
            result => result,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WaitGroup for MutantWaitGroup {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn add(&self) -> Result<Member> {
        self.inner.add().await
    }

    async fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        self.inner.add_many(count).await
    }

    async fn try_add(&self) -> Result<Option<Member>> {
        self.inner.try_add().await
    }

    async fn add_for(&self, limit: Duration) -> Result<Option<Member>> {
        self.inner.add_for(limit).await
    }

    async fn attach(&self, detached: &Detached) -> Result<Member> {
        self.inner.attach(detached).await
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        let done = self.inner.done(ticket).await;
        self.swallow(Bug::UnknownDoneIsFine, ErrorKind::Lost, done, ())
    }

    async fn wait(&self) -> Result<Outcome> {
        let outcome = self.inner.wait().await;
        self.swallow(Bug::AbsentIsZero, ErrorKind::StateLost, outcome, Outcome::default())
    }

    async fn wait_for(&self, limit: Duration) -> Result<Option<Outcome>> {
        let outcome = self.inner.wait_for(limit).await;
        self.swallow(Bug::AbsentIsZero, ErrorKind::StateLost, outcome, Some(Outcome::default()))
    }

    async fn count(&self) -> Result<u64> {
        let count = self.inner.count().await;
        self.swallow(Bug::AbsentIsZero, ErrorKind::StateLost, count, 0)
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.inner.inspect().await
    }
}
