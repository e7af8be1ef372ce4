//! What the Bloom filters of one store object share.

use std::sync::Arc;

use super::batches::BloomBatches;
use crate::engine::sending::batching::Batcher;
use crate::spi::BloomSteps;

/// The steps, and the batcher in front of them.
#[derive(Debug)]
pub(in crate::engine) struct Filtering {
    /// The steps over the callers' connection.
    pub(super) steps: Arc<dyn BloomSteps>,
    pub(super) batches: Batcher<BloomBatches>,
}

impl Filtering {
    pub(in crate::engine) fn new(steps: Arc<dyn BloomSteps>) -> Self {
        Self { batches: Batcher::new(BloomBatches(Arc::clone(&steps))), steps }
    }
}
