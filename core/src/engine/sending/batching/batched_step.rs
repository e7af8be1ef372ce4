//! A step that carries many callers' requests at once.

use std::fmt;

use async_trait::async_trait;

use crate::spi::{Answers, RequestId};

/// A step that sends many callers' requests at once.
#[async_trait]
pub(crate) trait BatchedStep: fmt::Debug + Send + Sync + 'static {
    type Ask: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// Maximum number of calls in one request, so that other clients of the store do not wait long for it.
    const BATCH: usize;
    /// A lane has one request under way at a time, however long it takes. Only a request that its own caller polls can be
    /// overtaken.
    const IN_TURN: bool;

    /// Returns the lane of a call: calls of one lane can leave together.
    fn lane(&self, ask: &Self::Ask) -> usize;

    /// Sends one request for all calls; returns an answer for each, in order.
    async fn send(&self, context: BatchContext<'_>, asks: &[Self::Ask]) -> Answers<Self::Answer>;
}

/// What a step is told about one request.
pub(crate) struct BatchContext<'a> {
    /// Identifies the request. Requests with one `lane` in their id do not overlap: a request that overtakes begins another
    /// `lane`.
    pub(crate) request_id: RequestId,
    pub(crate) waiting: &'a (dyn Fn(usize) -> bool + Send + Sync),
}

impl BatchContext<'_> {
    /// Whether the caller of the call at `index` still waits for its answer.
    pub(crate) fn waits(&self, index: usize) -> bool {
        (self.waiting)(index)
    }
}
