//! What the log says of one acquisition: how long it took, and how it ended.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use crate::Result;
use crate::clock::now;
use crate::engine::retrying::WaitLimit;
use crate::engine::shared::EngineHandle;
use crate::observe::events::{EndedWait, WaitOutcome};
use crate::spi::Object;

/// An acquisition under way. One that is dropped was cancelled.
#[derive(Debug)]
pub(crate) struct WaitRecord<'a> {
    engine: &'a EngineHandle,
    object: &'a Object,
    operation: &'static str,
    wait_limit: WaitLimit,
    began: Instant,
    /// The span of the acquisition.
    span: Span,
    outcome: WaitOutcome,
}

impl<'a> WaitRecord<'a> {
    pub(crate) fn begin(
        engine: &'a EngineHandle,
        object: &'a Object,
        operation: &'static str,
        wait_limit: WaitLimit,
        span: Span,
    ) -> Self {
        Self { engine, object, operation, wait_limit, began: now(), span, outcome: WaitOutcome::Cancelled }
    }

    /// Records how the acquisition ended; returns how long it took.
    pub(crate) fn end<T>(mut self, acquired: &Result<Option<T>>) -> Duration {
        self.outcome = match acquired {
            Ok(Some(_)) => WaitOutcome::Granted,
            Ok(None) if matches!(self.wait_limit, WaitLimit::None) => WaitOutcome::Refused,
            Ok(None) => WaitOutcome::TimedOut,
            Err(error) => WaitOutcome::Failed(error.kind()),
        };
        self.began.elapsed()
    }
}

impl Drop for WaitRecord<'_> {
    fn drop(&mut self) {
        let (shared, object) = (&self.engine.shared, self.object);
        let ended = EndedWait {
            store: shared.store(),
            namespace: &shared.namespace,
            kind: object.kind,
            name: &object.name,
            operation: self.operation,
            waited: self.began.elapsed(),
            outcome: self.outcome,
        };
        self.span.record("stanchion.outcome", self.outcome.as_str());
        if let Some(error) = self.outcome.error_type() {
            self.span.record("error.type", error);
        }
        ended.record(self.engine.slow_wait);
    }
}
