//! The steps of mutexes in lease mode, semaphores and the members of wait groups.

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, Kept, Object, PermitSteps, Polled,
    Purpose, Release, Renew, Usage, inspect_in_parts, refused,
};
use stanchion_core::{Inspection, Result, Ttl};

use super::PostgresSteps;
use super::batch::Batch;
use super::call::{StatementArguments, column, uuid};
use super::reply;
use crate::context::micros;
use crate::schema::Statement;

/// Number of holds that one statement of an inspection tells, and a few more: it takes some milliseconds (C27).
const MOST_HOLDS: i32 = 2_000;

/// Each caller has a time limit of its own: a short one must not limit the others.
fn longest(batch: &[Acquire]) -> Option<Ttl> {
    batch.iter().map(|entry| entry.lease).max()
}

/// The engine sends renewals together that have about the same time left.
fn shortest(batch: &[Renew]) -> Option<Ttl> {
    batch.iter().map(|entry| entry.lease).min()
}

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

    async fn acquire_all(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let lease = longest(batch);
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
        self.batch(&self.statements.acquire, &batch, arguments, lease, reply::acquired).await
    }

    async fn renew_all(&self, batch: &[Renew]) -> Answers<Kept> {
        let lease = shortest(batch);
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| lease_of(entry.lease)));
        self.batch(&self.statements.renew, &batch, arguments, lease, reply::kept).await
    }

    async fn release_all(&self, batch: &[Release]) -> Answers<Kept> {
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| entry.tombstone.map_or(0, lease_of)))
            .with(batch.each(|entry| entry.ending == Ending::Finished))
            .with(batch.each(|entry| entry.call.map(uuid)));
        self.batch(&self.statements.release, &batch, arguments, None, reply::kept).await
    }

    async fn cancel_all(&self, batch: &[Cancel]) -> Answers<()> {
        // No caller waits for a cancel: a short lease must not shorten the time of the others.
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let arguments = many(self.write_arguments(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| lease_of(entry.lease)));
        self.batch(&self.statements.cancel, &batch, arguments, None, |_, size| Ok(vec![(); size])).await
    }

    async fn poll_all(&self, batch: &[Object]) -> Answers<Polled> {
        let batch = Batch::new(batch, |object| (object, None));
        let kinds = batch.each(|object| object.kind.letter().to_string());
        let arguments = self.wait_arguments().with(kinds).with(batch.each(|object| object.name.as_str()));
        self.batch(&self.statements.poll, &batch, arguments, None, reply::polled).await
    }

    /// Asks for a part of an inspection: about `most` holds whose leases end after a time.
    async fn inspected(&self, object: &Object, after: i64, most: i32) -> Result<Vec<PgRow>> {
        let context = &self.context;
        let arguments =
            StatementArguments::default().with(&*context.namespace).with(micros(context.retention.state));
        let arguments = one(arguments, object).with(after).with(most);
        self.run(&self.statements.inspect_part, arguments, None).await
    }

    /// Runs the step of a batch and reads its only row.
    async fn batch<T, A>(
        &self,
        statement: &Statement,
        batch: &Batch<'_, T>,
        arguments: StatementArguments,
        lease: Option<Ttl>,
        read: fn(&PgRow, usize) -> Result<Vec<A>>,
    ) -> Answers<A>
    where
        T: Sync,
    {
        let row = self.row(statement, arguments, lease).await;
        answers(batch, row.and_then(|row| read(&row, batch.len())))
    }
}

fn one(arguments: StatementArguments, object: &Object) -> StatementArguments {
    arguments.with(object.kind.letter().to_string()).with(object.name.as_str())
}

fn many<T>(arguments: StatementArguments, batch: &Batch<'_, T>) -> StatementArguments {
    arguments.with(&batch.kinds).with(&batch.names).with(&batch.counts)
}

#[async_trait]
impl PermitSteps for PostgresSteps {
    /// One request may contain any objects.
    fn lane(&self, _: &Object) -> usize {
        0
    }

    /// A row that somebody else has locked holds up an acquire, but no release that came with it, and the reverse.
    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        None
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let lease = longest(batch);
        self.around_locked(
            batch,
            |entry| &entry.object,
            self.time_limit(lease),
            |steps, batch| Box::pin(steps.acquire_all(batch)),
        )
        .await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let lease = shortest(batch);
        self.around_locked(
            batch,
            |entry| &entry.object,
            self.time_limit(lease),
            |steps, batch| Box::pin(steps.renew_all(batch)),
        )
        .await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let is_waited_for = batch.iter().any(|entry| entry.ending == Ending::Finished);
        let time = if is_waited_for { self.time_limit(None) } else { self.patience() };
        self.around_locked(
            batch,
            |entry| &entry.object,
            time,
            |steps, batch| Box::pin(steps.release_all(batch)),
        )
        .await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        self.around_locked(
            batch,
            |entry| &entry.object,
            self.patience(),
            |steps, batch| Box::pin(steps.cancel_all(batch)),
        )
        .await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        self.around_locked(
            batch,
            |object| object,
            self.patience(),
            |steps, batch| Box::pin(steps.poll_all(batch)),
        )
        .await
    }

    /// One note for all names.
    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        let arguments =
            StatementArguments::default().with(&*self.context.namespace).with(uuid(self.context.process));
        let row = self.row(&self.statements.keep_places, arguments, None).await;
        match row.and_then(|row| column(&row, 0)) {
            Ok(true) => batch.iter().map(|_| Ok(None)).collect(),
            Ok(false) => self.poll(batch).await.into_iter().map(|answer| answer.map(Some)).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let arguments = one(self.write_arguments(), &attach.object)
            .with(uuid(attach.from))
            .with(uuid(attach.to))
            .with(lease_of(attach.lease))
            .with(attach.label.as_deref());
        reply::attached(&self.row_of_one(&self.statements.attach, arguments, Some(attach.lease)).await?)
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let ask = async |after: Option<i64>| {
            reply::inspected(&self.inspected(object, after.unwrap_or(0), MOST_HOLDS).await?)
        };
        inspect_in_parts(self.time_limit(None), ask).await
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        reply::usage(&self.inspected(object, 0, 0).await?)
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        let arguments = one(self.write_arguments(), object).with(i64::from(limit));
        self.row_of_one(&self.statements.resize, arguments, None).await.map(drop)
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        let ticket = match force {
            Force::All => None,
            Force::One(ticket) => Some(uuid(ticket)),
        };
        let arguments = one(self.write_arguments(), object).with(ticket);
        let freed: i32 = column(&self.row_of_one(&self.statements.force, arguments, None).await?, 0)?;
        Ok(freed.unsigned_abs())
    }

    async fn ping(&self) -> Result<()> {
        self.row(&self.statements.ping, StatementArguments::default(), None).await.map(drop)
    }
}
