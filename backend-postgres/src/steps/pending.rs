//! Stands in for steps that are not written yet.

use async_trait::async_trait;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, FlightId, Force, GroupSteps, Kept, LimitCall,
    LimitSteps, Limited, Look, Looked, Object, PermitSteps, Polled, Refund, Release, Renew, Split, refused,
};
use stanchion_core::limit::ExactQuota;
use stanchion_core::{Error, ErrorKind, Inspection, Result};

use super::PostgresSteps;

fn pending() -> Error {
    Error::new(ErrorKind::Unsupported, "not written yet")
}

#[async_trait]
impl PermitSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }
    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        refused(batch.len(), &pending())
    }
    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        refused(batch.len(), &pending())
    }
    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        refused(batch.len(), &pending())
    }
    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        refused(batch.len(), &pending())
    }
    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        refused(batch.len(), &pending())
    }
    async fn attach(&self, _: &Attach) -> Result<Option<Attached>> {
        Err(pending())
    }
    async fn inspect(&self, _: &Object) -> Result<Inspection> {
        Err(pending())
    }
    async fn resize(&self, _: &Object, _: u32) -> Result<()> {
        Err(pending())
    }
    async fn force(&self, _: &Object, _: Force) -> Result<u32> {
        Err(pending())
    }
    async fn ping(&self) -> Result<()> {
        let statement = self.context.schema.statement(include_str!("../sql/ping.sql"));
        self.link.rows(&statement, sqlx::postgres::PgArguments::default()).await.map(drop)
    }
}

#[async_trait]
impl GroupSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }
    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        refused(batch.len(), &pending())
    }
    async fn split(&self, _: &Split) -> Result<bool> {
        Err(pending())
    }
}

#[async_trait]
impl LimitSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }
    async fn decide(&self, _: FlightId, calls: &[LimitCall]) -> Answers<Limited> {
        refused(calls.len(), &pending())
    }
    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        refused(batch.len(), &pending())
    }
    async fn set_quota(&self, _: &Object, _: ExactQuota) -> Result<()> {
        Err(pending())
    }
    async fn reset(&self, _: &Object) -> Result<()> {
        Err(pending())
    }
}
