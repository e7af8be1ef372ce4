//! The requests about mutexes in lease mode, semaphores and the members of wait groups.

use sqlx::postgres::PgRow;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, Kept, Object, Polled, Purpose,
    Release, Renew, Usage, inspect_in_parts, refused,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result, Ttl};

use super::PostgresSteps;
use super::batch::Batch;
use super::call::{StatementArguments, column, uuid};
use super::locked::patience;
use super::reply;
use crate::context::micros;
use crate::error;
use crate::schema::Statement;

/// Number of holds that one statement of an inspection tells, and a few more: it takes some
/// milliseconds (C27).
const MOST_HOLDS: i32 = 2_000;

fn lease_of(lease: Ttl) -> i64 {
    micros(lease.get())
}

/// Sorts the answers to a batch into the order of its entries.
fn answers<T, A>(batch: &Batch<'_, T>, answers: Result<Vec<A>>) -> Answers<A> {
    match answers {
        Ok(answers) => batch.restore(answers).into_iter().map(Ok).collect(),
        Err(error) => refused(batch.len(), &error),
    }
}

/// Returns the error of a step of which a part was executed.
pub(super) fn in_part(error: Error) -> Error {
    Error::new(ErrorKind::Unknown, "a part of it was executed").with_source(error)
}

impl PostgresSteps {
    /// Returns the first arguments of a step that writes, up to the objects.
    fn write_arguments(&self) -> StatementArguments {
        StatementArguments::default()
            .with(&*self.context.namespace)
            .with(micros(self.context.retention.tokens))
    }

    /// Returns the first arguments of a step for waiters, up to the objects.
    fn wait_arguments(&self) -> StatementArguments {
        let context = &self.context;
        StatementArguments::default()
            .with(&*context.namespace)
            .with(uuid(context.process))
            .with(micros(context.retention.tokens))
            .with(micros(context.retention.state))
    }

    async fn acquire_all(&self, batch: &[Acquire], end: Instant) -> Answers<Acquired> {
        let check = |entry: &Acquire| match entry.purpose {
            _ if self.are_places => "s",
            Purpose::Transaction => "t",
            _ => entry.check.letter(),
        };
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.wait_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| i64::from(entry.weight)))
            .with(batch.each(|entry| lease_of(entry.lease)))
            .with(batch.each(|entry| i64::from(entry.limit)))
            .with(batch.each(check))
            .with(batch.each(|entry| entry.queue))
            .with(batch.each(|entry| entry.max_waiters.map(i64::from)))
            .with(batch.each(|entry| entry.label.as_deref()));
        self.batch(&self.statements.acquire, &batch, arguments, end, reply::acquired).await
    }

    async fn renew_all(&self, batch: &[Renew], end: Instant) -> Answers<Kept> {
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| lease_of(entry.lease)));
        self.batch(&self.statements.renew, &batch, arguments, end, reply::kept).await
    }

    async fn release_all(&self, batch: &[Release], end: Instant) -> Answers<Kept> {
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| entry.tombstone.map_or(0, lease_of)))
            .with(batch.each(|entry| entry.ending == Ending::Finished))
            .with(batch.each(|entry| entry.call.map(uuid)));
        self.batch(&self.statements.release, &batch, arguments, end, reply::kept).await
    }

    async fn cancel_all(&self, batch: &[Cancel], end: Instant) -> Answers<()> {
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| entry.tombstone.map_or(0, lease_of)));
        self.batch(&self.statements.cancel, &batch, arguments, end, |_, size| Ok(vec![(); size])).await
    }

    async fn poll_all(&self, batch: &[Object], end: Instant) -> Answers<Polled> {
        let batch = Batch::new(batch, |object| (object, None));
        let kinds = batch.each(|object| object.kind.letter().to_string());
        let arguments = self.wait_arguments().with(kinds).with(batch.each(|object| object.name.as_str()));
        self.batch(&self.statements.poll, &batch, arguments, end, reply::polled).await
    }

    /// Asks for a part of an inspection: about `most` holds whose leases end after a time.
    async fn inspected(&self, object: &Object, after: i64, most: i32, end: Instant) -> Result<Vec<PgRow>> {
        let context = &self.context;
        loop {
            let arguments =
                StatementArguments::default().with(&*context.namespace).with(micros(context.retention.state));
            let arguments = one(arguments, object).with(after).with(most);
            let rows = self.run(&self.statements.inspect_part, arguments, end).await;
            let is_untidy = rows.as_ref().is_err_and(error::is_untidy);
            if !is_untidy || !self.tidy(vec![object], end).await?.is_empty() {
                return rows;
            }
        }
    }

    /// Runs the step of a batch and reads its only row.
    async fn batch<T, A>(
        &self,
        statement: &Statement,
        batch: &Batch<'_, T>,
        arguments: StatementArguments,
        end: Instant,
        read: fn(&PgRow, usize) -> Result<Vec<A>>,
    ) -> Answers<A>
    where
        T: Sync,
    {
        let row = self.row(statement, arguments, end).await;
        answers(batch, row.and_then(|row| read(&row, batch.len())))
    }
}

fn one(arguments: StatementArguments, object: &Object) -> StatementArguments {
    arguments.with(object.kind.letter().to_string()).with(object.name.as_str())
}

fn many<T>(arguments: StatementArguments, batch: &Batch<'_, T>) -> StatementArguments {
    arguments.with(&batch.kinds).with(&batch.names).with(&batch.counts)
}

impl PostgresSteps {
    pub(crate) async fn acquire(&self, batch: &[Acquire], end: Instant) -> Answers<Acquired> {
        self.around_locked(
            batch,
            |entry| &entry.object,
            end,
            move |steps, batch| Box::pin(steps.acquire_all(batch, end)),
        )
        .await
    }

    pub(crate) async fn renew(&self, batch: &[Renew], end: Instant) -> Answers<Kept> {
        self.around_locked(
            batch,
            |entry| &entry.object,
            end,
            move |steps, batch| Box::pin(steps.renew_all(batch, end)),
        )
        .await
    }

    pub(crate) async fn release(&self, batch: &[Release], end: Instant) -> Answers<Kept> {
        let is_waited_for = batch.iter().any(|entry| entry.ending == Ending::Finished);
        let until = if is_waited_for { end } else { patience(end) };
        self.around_locked(
            batch,
            |entry| &entry.object,
            until,
            move |steps, batch| Box::pin(steps.release_all(batch, end)),
        )
        .await
    }

    pub(crate) async fn cancel(&self, batch: &[Cancel], end: Instant) -> Answers<()> {
        self.around_locked(
            batch,
            |entry| &entry.object,
            patience(end),
            move |steps, batch| Box::pin(steps.cancel_all(batch, end)),
        )
        .await
    }

    pub(crate) async fn poll(&self, batch: &[Object], end: Instant) -> Answers<Polled> {
        self.around_locked(
            batch,
            |object| object,
            patience(end),
            move |steps, batch| Box::pin(steps.poll_all(batch, end)),
        )
        .await
    }

    /// One note for all names.
    pub(crate) async fn keep_places(&self, batch: &[Object], end: Instant) -> Answers<Option<Polled>> {
        let arguments =
            StatementArguments::default().with(&*self.context.namespace).with(uuid(self.context.process));
        let row = self.row(&self.statements.keep_places, arguments, end).await;
        match row.and_then(|row| column(&row, 0)) {
            Ok(true) => batch.iter().map(|_| Ok(None)).collect(),
            Ok(false) => self.poll(batch, end).await.into_iter().map(|answer| answer.map(Some)).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }

    pub(super) async fn attach(&self, attach: &Attach, end: Instant) -> Result<Option<Attached>> {
        let arguments = one(self.write_arguments(), &attach.object)
            .with(uuid(attach.from))
            .with(uuid(attach.to))
            .with(lease_of(attach.lease))
            .with(attach.label.as_deref());
        reply::attached(&self.row_of_one(&self.statements.attach, arguments, end).await?)
    }

    pub(crate) async fn inspect(&self, object: &Object, end: Instant) -> Result<Inspection> {
        let ask = async |after: Option<i64>| {
            reply::inspected(&self.inspected(object, after.unwrap_or(0), MOST_HOLDS, end).await?)
        };
        inspect_in_parts(end, ask).await
    }

    pub(super) async fn usage(&self, object: &Object, end: Instant) -> Result<Usage> {
        reply::usage(&self.inspected(object, 0, 0, end).await?)
    }

    pub(super) async fn resize(&self, object: &Object, limit: u32, end: Instant) -> Result<()> {
        let arguments = one(self.write_arguments(), object).with(i64::from(limit));
        self.row_of_one(&self.statements.resize, arguments, end).await.map(drop)
    }

    pub(crate) async fn force(&self, object: &Object, force: Force, end: Instant) -> Result<u32> {
        let ticket = match force {
            Force::All => None,
            Force::One(ticket) => Some(uuid(ticket)),
        };
        let (mut before, mut next, mut freed) = (None::<i64>, Some(0), 0_u32);
        while let Some(after) = next {
            let arguments = one(self.write_arguments(), object).with(ticket).with(before).with(after);
            let row = self.row_of_one(&self.statements.force, arguments, end).await;
            let row = if freed > 0 { row.map_err(in_part)? } else { row? };
            freed = freed.saturating_add(column::<i32>(&row, 0)?.unsigned_abs());
            (before, next) = (column(&row, 1)?, column::<Option<i64>>(&row, 2)?);
        }
        Ok(freed)
    }

    pub(super) async fn ping(&self, end: Instant) -> Result<()> {
        self.row(&self.statements.ping, StatementArguments::default(), end).await.map(drop)
    }
}
