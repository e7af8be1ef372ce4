//! Clients that are not all alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Store;

use crate::harness::Harness;
use crate::suite::Case;

/// A harness whose clients are by turns those of several others of one state: the first client is one of the first
/// harness, and after the last one it begins anew. All else is the first one's.
#[derive(Debug)]
pub struct Turns<H> {
    harnesses: Vec<H>,
    turn: AtomicUsize,
}

impl<H: Harness> Turns<H> {
    /// By turns of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(harnesses: Vec<H>) -> Self {
        assert!(!harnesses.is_empty(), "clients are of some harness");
        Self { harnesses, turn: AtomicUsize::new(0) }
    }

    fn next(&self) -> &H {
        &self.harnesses[self.turn.fetch_add(1, Ordering::Relaxed) % self.harnesses.len()]
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Harness for Turns<H> {
    async fn store(&self) -> Arc<dyn Store> {
        self.next().store().await
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        self.next().forgetful_store(retention).await
    }

    async fn leftover(&self) -> Option<usize> {
        self.harnesses[0].leftover().await
    }

    fn ttl(&self) -> Duration {
        self.harnesses[0].ttl()
    }

    async fn lose_data(&self) -> bool {
        self.harnesses[0].lose_data().await
    }

    fn gap(&self, case: &Case) -> Option<String> {
        self.harnesses[0].gap(case)
    }
}
