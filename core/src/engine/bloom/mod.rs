//! Bloom filters: what hashes, joins, retries and remembers which record was seen, written once for all networked
//! stores.

mod flight;
mod handle;
mod whole;

use std::sync::Arc;

use self::flight::Flights;
pub(super) use self::handle::Filter;
use super::joint::Joint;
use super::steps::BloomSteps;

/// What all filters of one store object share.
#[derive(Debug)]
pub(crate) struct Filtering {
    /// The steps over the callers' connection.
    steps: Arc<dyn BloomSteps>,
    flights: Joint<Flights>,
}

impl Filtering {
    pub(crate) fn new(steps: Arc<dyn BloomSteps>) -> Self {
        Self { flights: Joint::new(Flights(Arc::clone(&steps))), steps }
    }
}
