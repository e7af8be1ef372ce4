//! The requests about limiters.

mod batch;
#[cfg(test)]
mod clocked;
mod refunds;
#[cfg(test)]
mod tests;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::Uuid;
use sqlx::{Arguments, Decode, Postgres, Row, Type};
use stanchion_core::clock::Instant;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{Answers, Decide, Limited, Object, Refund, Reset, SetQuota, refused};
use stanchion_core::{Error, ErrorKind, Result, Ticket};

use super::PostgresSteps;
use super::locked::patience;
use super::permits::in_part;
use crate::context::micros;
use crate::error::unexpected;

impl PostgresSteps {
    pub(super) async fn decide(&self, calls: &[Decide], end: Instant) -> Answers<Limited> {
        // The id of a batch is kept for each limiter: a part of a batch that was not executed may
        // have it, too.
        self.around_locked(
            calls,
            |call| &call.object,
            end,
            move |steps, calls| Box::pin(steps.decide_all(calls, end)),
        )
        .await
    }

    pub(super) async fn refund(&self, batch: &[Refund], end: Instant) -> Answers<u64> {
        self.around_locked(
            batch,
            |entry| &entry.object,
            patience(end),
            move |steps, batch| Box::pin(steps.refund_all(batch, end)),
        )
        .await
    }

    pub(super) async fn set_quota(&self, SetQuota { object, quota }: &SetQuota, end: Instant) -> Result<()> {
        self.on_one(include_str!("../../sql/limit_set_quota.sql"), object, Some(*quota), end).await.map(drop)
    }

    pub(super) async fn reset(&self, reset: &Reset, end: Instant) -> Result<()> {
        let statement = include_str!("../../sql/limit_reset.sql");
        let mut is_full = only::<bool>(self.on_one(statement, &reset.object, None, end).await?)?;
        while !is_full {
            let next = self.on_one(statement, &reset.object, None, end).await.map_err(in_part)?;
            is_full = only(next)?;
        }
        Ok(())
    }

    /// Runs a step for one limiter, with a quota if one is given.
    async fn on_one(
        &self,
        sql: &'static str,
        object: &Object,
        quota: Option<ExactQuota>,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let objects = std::slice::from_ref(object);
        let mut answers = self
            .around_locked(
                objects,
                |object| object,
                end,
                move |steps, objects| {
                    Box::pin(async move {
                        let add = |arguments: &mut PgArguments| {
                            arguments.add(objects[0].name.as_str())?;
                            let parts = |quota: ExactQuota| [quota.amount(), quota.period(), quota.burst()];
                            quota.into_iter().flat_map(parts).try_for_each(|part| arguments.add(number(part)))
                        };
                        vec![steps.run_on_limiters(sql, add, end).await]
                    })
                },
            )
            .await;
        answers.pop().unwrap_or_else(|| Err(unexpected()))
    }

    async fn decide_all(&self, calls: &[Decide], end: Instant) -> Answers<Limited> {
        let batches = batch::by_name(calls);
        let add = |arguments: &mut PgArguments| batch::encode(arguments, &batches);
        match self
            .run_on_limiters(include_str!("../../sql/limit_decide.sql"), add, end)
            .await
            .and_then(only::<Vec<_>>)
        {
            Ok(texts) => batch::decode(&batches, &texts, calls.len()),
            Err(error) => refused(calls.len(), &error),
        }
    }

    async fn refund_all(&self, batch: &[Refund], end: Instant) -> Answers<u64> {
        let order = refunds::by_name(batch);
        let add = |arguments: &mut PgArguments| refunds::encode(arguments, &order);
        match self.run_on_limiters(include_str!("../../sql/limit_refund.sql"), add, end).await.and_then(only)
        {
            Ok(refunded) => refunds::decode(&order, refunded),
            Err(error) => refused(batch.len(), &error),
        }
    }

    /// Runs a step of limiters. Its first two arguments are the namespace and the retention.
    async fn run_on_limiters(
        &self,
        sql: &'static str,
        add: impl FnOnce(&mut PgArguments) -> std::result::Result<(), BoxDynError> + Send,
        end: Instant,
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
        self.pool.rows_of_call(&self.context.schema.statement(sql), arguments, end).await
    }
}

/// Returns the only value of an answer.
fn only<T: for<'r> Decode<'r, Postgres> + Type<Postgres>>(rows: Vec<PgRow>) -> Result<T> {
    rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(unexpected)
}

/// Converts a number for the SQL functions. A number that does not fit becomes one that is larger
/// than all numbers that the functions compare it with.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn uuid(ticket: Ticket) -> Uuid {
    Uuid::from_u128(ticket.as_u128())
}
