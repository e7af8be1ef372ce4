//! The requests about wait groups, except those about their members.

use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Look, Looked, Split, refused};

use super::PostgresSteps;
use super::batch::Batch;
use super::call::{StatementArguments, column, uuid};
use super::locked::patience;
use super::reply;
use crate::context::micros;

impl PostgresSteps {
    pub(super) async fn look(&self, batch: &[Look], end: Instant) -> Answers<Looked> {
        // The engine looks for all who wait for an end, one request after the other.
        let are_watches = batch.iter().all(|entry| entry.watch.is_some());
        let until = if are_watches { patience(end) } else { end };
        self.around_locked(
            batch,
            |entry| &entry.object,
            until,
            move |steps, batch| Box::pin(steps.look_all(batch, end)),
        )
        .await
    }

    pub(super) async fn split(&self, split: &Split, end: Instant) -> Result<bool> {
        let into: Vec<_> = split.into.iter().map(|ticket| uuid(*ticket)).collect();
        let arguments = StatementArguments::default()
            .with(&*self.context.namespace)
            .with(micros(self.context.retention.tokens))
            .with(split.object.kind.letter().to_string())
            .with(split.object.name.as_str())
            .with(uuid(split.from))
            .with(micros(split.lease.get()))
            .with(into);
        column(&self.row_of_one(&self.statements.split, arguments, end).await?, 0)
    }

    async fn look_all(&self, batch: &[Look], end: Instant) -> Answers<Looked> {
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
        let row = self.row(&self.statements.look, arguments, end).await;
        match row.and_then(|row| reply::looked(&row, batch.len())) {
            Ok(answers) => batch.restore(answers).into_iter().map(Ok).collect(),
            Err(error) => refused(batch.len(), &error),
        }
    }
}
