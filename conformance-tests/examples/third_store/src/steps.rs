//! The steps: each locks the server once for a whole batch.
//!
//! Nothing here waits for other callers, retries, renews or sleeps: the engine does all that.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew, refused,
};
use stanchion_core::{Inspection, Result, Ttl};

use crate::client::Client;
use crate::moment::Moment;
use crate::record::Record;
use crate::server::Server;

/// The steps of one process.
#[derive(Clone, Debug)]
pub(crate) struct ThirdSteps {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
}

impl ThirdSteps {
    /// Returns the time limit of a request: the client's, or a third of the shortest lease in it
    /// (C17).
    fn limit(&self, leases: impl Iterator<Item = Ttl>) -> Duration {
        leases.map(Ttl::renewal).fold(self.client.request_timeout, Duration::min)
    }

    /// Executes a batch, one entry after the other, with one answer for each.
    async fn each<E: Sync, T: Send>(
        &self,
        batch: &[E],
        limit: Duration,
        object: fn(&E) -> &Object,
        run: fn(&mut Record, &E, &mut Moment<'_>) -> Result<T>,
    ) -> Answers<T> {
        let mut step = match self.server.enter(self.client, limit).await {
            Ok(step) => step,
            Err(error) => return refused(batch.len(), &error),
        };
        let answers = batch.iter().map(|entry| step.on(object(entry), |record, at| run(record, entry, at)));
        let answers = answers.collect();
        step.wake();
        answers
    }

    /// Executes a request of one name.
    async fn one<T>(&self, object: &Object, run: impl FnOnce(&mut Record, &Moment<'_>) -> T) -> Result<T> {
        let mut step = self.server.enter(self.client, self.client.request_timeout).await?;
        let answer = step.on(object, |record, at| run(record, at));
        step.wake();
        Ok(answer)
    }
}

#[async_trait]
impl PermitSteps for ThirdSteps {
    /// One lane: with one server, steps on any names can share a request.
    fn lane(&self, _: &Object) -> usize {
        0
    }

    /// Returns `None`: a running step has the whole server locked, so no request waits there with a
    /// lock of its own.
    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        None
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        // Here each caller has its own time limit, which the engine enforces.
        self.each(batch, self.client.request_timeout, |ask| &ask.object, Record::acquire).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let limit = self.limit(batch.iter().map(|ask| ask.lease));
        self.each(batch, limit, |ask| &ask.object, |record, ask, at| Ok(record.renew(ask, at))).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let limit = self.client.request_timeout;
        self.each(batch, limit, |ask| &ask.object, |record, ask, at| Ok(record.release(ask, at))).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let limit = self.client.request_timeout;
        self.each(
            batch,
            limit,
            |ask| &ask.object,
            |record, ask, at| {
                record.cancel(ask, at);
                Ok(())
            },
        )
        .await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let limit = self.client.request_timeout;
        self.each(batch, limit, |object| object, |record, _, at| Ok(record.poll(at))).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.one(&attach.object, |record, at| record.attach(attach, at)).await
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.one(object, |record, at| record.inspect(at)).await
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.one(object, |record, at| record.resize(limit, at)).await
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.one(object, |record, at| record.force(force, at)).await
    }

    async fn ping(&self) -> Result<()> {
        self.server.enter(self.client, self.client.request_timeout).await.map(drop)
    }
}
