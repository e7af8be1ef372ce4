//! The steps of mutexes in lease mode, semaphores and the members of wait groups.

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use stanchion_core::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, Kept, LimitCheck, Object,
    PermitSteps, Polled, Release, Renew, refused,
};
use stanchion_core::{Inspection, OnMismatch, Result, Ttl};

use super::PostgresSteps;
use super::batch::Batch;
use super::call::{Given, column, uuid};
use super::reply;
use crate::context::micros;
use crate::schema::Statement;

fn lease_of(lease: Ttl) -> i64 {
    micros(lease.get())
}

fn check_of(check: LimitCheck) -> &'static str {
    match check {
        LimitCheck::First(OnMismatch::Refuse) => "r",
        LimitCheck::First(OnMismatch::Replace) => "p",
        LimitCheck::First(OnMismatch::Adopt) | LimitCheck::Follow => "a",
    }
}

/// The answers to a batch, in the order in which it was asked.
fn answers<T, A>(batch: &Batch<'_, T>, answers: Result<Vec<A>>) -> Answers<A> {
    match answers {
        Ok(answers) => batch.restore(answers).into_iter().map(Ok).collect(),
        Err(error) => refused(batch.len(), &error),
    }
}

impl PostgresSteps {
    /// The arguments of every step that writes, up to the objects.
    fn kept(&self) -> Given {
        Given::default().with(&*self.context.namespace).with(micros(self.context.retention.tokens))
    }

    /// The same for steps of waiters.
    fn heard(&self) -> Given {
        let context = &self.context;
        Given::default()
            .with(&*context.namespace)
            .with(uuid(context.process))
            .with(micros(context.retention.tokens))
            .with(micros(context.retention.state))
    }

    /// The one row of a batch's answers.
    async fn batch<T, A>(
        &self,
        statement: &Statement,
        batch: &Batch<'_, T>,
        given: Given,
        lease: Option<Ttl>,
        read: fn(&PgRow, usize) -> Result<Vec<A>>,
    ) -> Answers<A>
    where
        T: Sync,
    {
        let row = self.row(statement, given, lease).await;
        answers(batch, row.and_then(|row| read(&row, batch.len())))
    }
}

fn one(given: Given, object: &Object) -> Given {
    given.with(object.kind.letter().to_string()).with(object.name.as_str())
}

fn many<T>(given: Given, batch: &Batch<'_, T>) -> Given {
    given.with(&batch.kinds).with(&batch.names).with(&batch.counts)
}

#[async_trait]
impl PermitSteps for PostgresSteps {
    /// One call takes any objects.
    fn lane(&self, _: &Object) -> usize {
        0
    }

    /// Each locks the rows of the objects that it is about.
    fn excludes(&self, _: usize) -> bool {
        true
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        // Each caller has a time limit of its own; a short one is not the others'.
        let lease = batch.iter().map(|entry| entry.lease).max();
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let given = many(self.heard(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| i64::from(entry.weight)))
            .with(batch.each(|entry| lease_of(entry.lease)))
            .with(batch.each(|entry| i64::from(entry.limit)))
            .with(batch.each(|entry| check_of(entry.check)))
            .with(batch.each(|entry| entry.queue))
            .with(batch.each(|entry| entry.max_waiters.map(i64::from)))
            .with(batch.each(|entry| entry.label.as_deref()));
        self.batch(&self.statements.acquire, &batch, given, lease, reply::acquired).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        // The engine puts together what has about as much time.
        let lease = batch.iter().map(|entry| entry.lease).min();
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let given = many(self.kept(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| lease_of(entry.lease)));
        self.batch(&self.statements.renew, &batch, given, lease, reply::kept).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let given = many(self.kept(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| entry.tombstone.map_or(0, lease_of)))
            .with(batch.each(|entry| entry.ending == Ending::Finished))
            .with(batch.each(|entry| entry.call.map(uuid)));
        self.batch(&self.statements.release, &batch, given, None, reply::kept).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        // No caller waits: a short lease must not cut the others' time.
        let batch = Batch::new(batch, |entry| (&entry.object, Some(entry.ticket)));
        let given = many(self.kept(), &batch)
            .with(batch.each(|entry| uuid(entry.ticket)))
            .with(batch.each(|entry| lease_of(entry.lease)));
        self.batch(&self.statements.cancel, &batch, given, None, |_, size| Ok(vec![(); size])).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let batch = Batch::new(batch, |object| (object, None));
        let kinds = batch.each(|object| object.kind.letter().to_string());
        let given = self.heard().with(kinds).with(batch.each(|object| object.name.as_str()));
        self.batch(&self.statements.poll, &batch, given, None, reply::polled).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let given = one(self.kept(), &attach.object)
            .with(uuid(attach.from))
            .with(uuid(attach.to))
            .with(lease_of(attach.lease))
            .with(attach.label.as_deref());
        reply::attached(&self.row(&self.statements.attach, given, Some(attach.lease)).await?)
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let context = &self.context;
        let given = Given::default().with(&*context.namespace).with(micros(context.retention.state));
        reply::inspection(&self.run(&self.statements.inspect, one(given, object), None).await?)
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        let given = one(self.kept(), object).with(i64::from(limit));
        self.row(&self.statements.resize, given, None).await.map(drop)
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        let ticket = match force {
            Force::All => None,
            Force::One(ticket) => Some(uuid(ticket)),
        };
        let given = one(self.kept(), object).with(ticket);
        let freed: i32 = column(&self.row(&self.statements.force, given, None).await?, 0)?;
        Ok(freed.unsigned_abs())
    }

    async fn ping(&self) -> Result<()> {
        self.row(&self.statements.ping, Given::default(), None).await.map(drop)
    }
}
