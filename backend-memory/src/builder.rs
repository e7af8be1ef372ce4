//! Options of a store.

use std::time::Duration;

use stanchion_core::observe::events::SLOW_WAIT;

use crate::limiter::ManualClock;

/// Maximum retention: a time that the clock cannot express would be none.
const MAXIMUM_RETENTION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Builds a [`MemoryStore`](crate::MemoryStore).
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

    /// Sets the retention of an unused name ([C25]): for how long its limit, its quota or the
    /// outcome of its wait group stays. Default 1 h; more than 366 days count as 366 days.
    ///
    /// [C25]: stanchion_core::contract#c25
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention.min(MAXIMUM_RETENTION);
        self
    }

    /// Sets the duration from which a finished wait for a hold is logged at `info`, with its name
    /// and how it ended (default 1 s). Zero logs every wait, `Duration::MAX` none.
    pub fn slow_wait(mut self, time: Duration) -> Self {
        self.slow_wait = time;
        self
    }
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { clock: None, retention: Duration::from_secs(60 * 60), slow_wait: SLOW_WAIT }
    }
}
