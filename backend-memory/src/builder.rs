//! Options of a store.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::observe::events::SLOW_WAIT;

use crate::MemoryStore;
use crate::limiter::ManualClock;
use crate::namespaces::States;

/// The longest retention. Of a time that the clock cannot express nothing would be kept.
const LONGEST_RETENTION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Builds a [`MemoryStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder {
    pub(crate) clock: Option<ManualClock>,
    pub(crate) retention: Duration,
    pub(crate) slow_wait: Duration,
}

impl MemoryStoreBuilder {
    /// Sets the clock of limiters, instead of the store's.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets how long what an unused name has stored is kept ([C25]): limits, quotas, outcomes of wait groups. Default 1 h; more than
    /// 366 days count as 366 days.
    ///
    /// [C25]: stanchion_core::contract#c25
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention.min(LONGEST_RETENTION);
        self
    }

    /// Sets from which length on a wait for a hold is told at `info`, with its name and how it ended, when it has (default 1 s). Any time
    /// is legal: zero tells every acquisition that had to wait, `Duration::MAX` none.
    pub fn slow_wait(mut self, time: Duration) -> Self {
        self.slow_wait = time;
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::over(Arc::new(States::new(self)))
    }
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { clock: None, retention: Duration::from_secs(60 * 60), slow_wait: SLOW_WAIT }
    }
}
