//! A step that carries many callers' requests at once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::exclusive_send::{ExclusiveSend, LaneKey};
use crate::steps::{Answers, RequestId};
use crate::{Error, ErrorKind};

/// A step that can send many callers' requests at once.
#[async_trait]
pub(crate) trait BatchedStep: fmt::Debug + Send + Sync + 'static {
    type Ask: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// Requests of one call at most, so that other clients of the store are not kept waiting for long.
    const BATCH: usize;
    /// A lane has one request under way at a time, however long it takes; only that of a caller who may not poll it is
    /// overtaken.
    const IN_TURN: bool;

    /// Requests of one lane can leave together.
    fn lane(&self, ask: &Self::Ask) -> usize;

    /// What the requests of that lane leave through, if there are others that they exclude at the store.
    fn exclusive(&self, _: LaneKey) -> Option<Arc<ExclusiveSend>> {
        None
    }

    /// One request for all; an answer for each, in order.
    async fn send(&self, context: BatchContext<'_>, asks: &[Self::Ask]) -> Answers<Self::Answer>;
}

/// What a step may know of one request.
pub(crate) struct BatchContext<'a> {
    /// Names it. The requests of one lane of that name do not overlap: one that overtakes begins another.
    pub(crate) request_id: RequestId,
    pub(super) waiting: &'a (dyn Fn(usize) -> bool + Send + Sync),
}

impl BatchContext<'_> {
    /// Whether the caller of that ask still waits for its answer.
    pub(crate) fn waits(&self, index: usize) -> bool {
        (self.waiting)(index)
    }
}

/// The error of an answer with fewer entries than the request.
pub(super) fn short() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answer was too short")
}
