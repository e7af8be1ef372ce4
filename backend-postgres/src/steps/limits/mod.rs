//! The steps of limiters.

mod batch;
#[cfg(test)]
mod clocked;
mod refunds;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::Uuid;
use sqlx::{Arguments, Decode, Postgres, Row, Type};
use stanchion_core::clock::now;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::steps::{Answers, LimitCall, LimitSteps, Limited, Object, Refund, RequestId, refused};
use stanchion_core::{Error, ErrorKind, Result, Ticket};

use super::PostgresSteps;
use crate::context::micros;
use crate::error::unexpected;

#[async_trait]
impl LimitSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }

    async fn decide(&self, id: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
        let batches = batch::by_name(calls);
        let add = |arguments: &mut PgArguments| batch::encode(arguments, id, &batches);
        match self
            .run_on_limiters(include_str!("../../sql/limit_decide.sql"), add)
            .await
            .and_then(only::<Vec<_>>)
        {
            Ok(texts) => batch::decode(&batches, &texts, calls.len()),
            Err(error) => refused(calls.len(), &error),
        }
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        let order = refunds::by_name(batch);
        let add = |arguments: &mut PgArguments| refunds::encode(arguments, &order);
        match self.run_on_limiters(include_str!("../../sql/limit_refund.sql"), add).await.and_then(only) {
            Ok(refunded) => refunds::decode(&order, refunded),
            Err(error) => refused(batch.len(), &error),
        }
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        let add = |arguments: &mut PgArguments| {
            arguments.add(object.name.as_str())?;
            arguments.add(number(quota.amount()))?;
            arguments.add(number(quota.period()))?;
            arguments.add(number(quota.burst()))
        };
        self.run_on_limiters(include_str!("../../sql/limit_set_quota.sql"), add).await.map(drop)
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        let add = |arguments: &mut PgArguments| arguments.add(object.name.as_str());
        self.run_on_limiters(include_str!("../../sql/limit_reset.sql"), add).await.map(drop)
    }
}

impl PostgresSteps {
    /// Runs a step of limiters. Its first two arguments are the namespace and the retention.
    async fn run_on_limiters(
        &self,
        sql: &'static str,
        add: impl FnOnce(&mut PgArguments) -> std::result::Result<(), BoxDynError> + Send,
    ) -> Result<Vec<PgRow>> {
        let mut arguments = PgArguments::default();
        let added = arguments
            .add(&*self.context.namespace)
            .and_then(|()| arguments.add(micros(self.context.retention.state)))
            .and_then(|()| add(&mut arguments));
        if let Err(error) = added {
            let detail = format!("the request could not be encoded: {error}");
            return Err(Error::new(ErrorKind::Unavailable, detail));
        }
        let end = now() + self.link.request_timeout();
        self.link.rows_of_call(&self.context.schema.statement(sql), arguments, end).await
    }
}

/// Returns the only value of an answer.
fn only<T: for<'r> Decode<'r, Postgres> + Type<Postgres>>(rows: Vec<PgRow>) -> Result<T> {
    rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(unexpected)
}

/// Converts a number for the SQL functions. A number that does not fit becomes one that is larger than all numbers that
/// the functions compare it with.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn uuid(ticket: Ticket) -> Uuid {
    Uuid::from_u128(ticket.as_u128())
}
