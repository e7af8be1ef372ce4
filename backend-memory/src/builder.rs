//! Options of a store.

use std::sync::Arc;
use std::time::Duration;

use crate::MemoryStore;
use crate::clock::StoreClock;
use crate::limiter::{LimiterClock, ManualClock};
use crate::state::State;

/// Builds a [`MemoryStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder {
    clock: Option<ManualClock>,
    retention: Duration,
}

impl MemoryStoreBuilder {
    /// Sets the clock of limiters, instead of the store's.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets how long the outcome of an unused wait group is kept ([C25]). Default 1 h.
    ///
    /// [C25]: stanchion_core::contract#c25
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::over(Arc::new(self.state()))
    }

    pub(crate) fn state(self) -> State {
        let clock = StoreClock::start();
        let limiter_clock = self.clock.map_or(LimiterClock::Store(clock), LimiterClock::Manual);
        State::new(clock, limiter_clock, self.retention)
    }
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { clock: None, retention: Duration::from_secs(60 * 60) }
    }
}
