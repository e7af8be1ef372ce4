//! The steps of wait groups, except the steps of their members.

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::spi::{Answers, GroupSteps, Look, Looked, Object, Split, refused};

use super::PostgresSteps;
use super::batch::Batch;
use super::call::{StatementArguments, column, uuid};
use super::reply;
use crate::context::micros;

#[async_trait]
impl GroupSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        // The engine looks for all who wait for an end, one request after the other.
        let are_watches = batch.iter().all(|entry| entry.watch.is_some());
        let time = if are_watches { self.patience() } else { self.time_limit(None) };
        self.around_locked(batch, |entry| &entry.object, time, |steps, batch| Box::pin(steps.look_all(batch)))
            .await
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        let into: Vec<_> = split.into.iter().map(|ticket| uuid(*ticket)).collect();
        let arguments = StatementArguments::default()
            .with(&*self.context.namespace)
            .with(micros(self.context.retention.tokens))
            .with(split.object.kind.letter().to_string())
            .with(split.object.name.as_str())
            .with(uuid(split.from))
            .with(micros(split.lease.get()))
            .with(into);
        column(&self.row_of_one(&self.statements.split, arguments, Some(split.lease)).await?, 0)
    }
}

impl PostgresSteps {
    async fn look_all(&self, batch: &[Look]) -> Answers<Looked> {
        let context = &self.context;
        let batch = Batch::new(batch, |entry| (&entry.object, None));
        // A generation is a count, far below 2^63.
        let watch = |entry: &Look| entry.watch.map(|watch| i64::try_from(watch).unwrap_or(i64::MAX));
        let arguments = StatementArguments::default()
            .with(&*context.namespace)
            .with(uuid(context.process))
            .with(micros(context.retention.tokens))
            .with(&batch.names)
            .with(&batch.counts)
            .with(batch.each(watch))
            .with(batch.each(|entry| uuid(entry.hint)));
        let row = self.row(&self.statements.look, arguments, None).await;
        match row.and_then(|row| reply::looked(&row, batch.len())) {
            Ok(answers) => batch.restore(answers).into_iter().map(Ok).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }
}
