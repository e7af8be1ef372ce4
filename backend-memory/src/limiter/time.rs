//! The clock by which buckets fill.

use std::pin::pin;
use std::time::Duration;

use stanchion_core::clock::{Instant, wait_until};

use super::ManualClock;
use crate::clock::{Moment, StoreClock};

/// The store's clock, or a clock that a test moves.
#[derive(Clone, Debug)]
pub(crate) enum LimiterClock {
    Store(StoreClock),
    Manual(ManualClock),
}

impl LimiterClock {
    #[inline]
    pub(crate) fn read(&self) -> Moment {
        match self {
            Self::Store(clock) => clock.read(),
            Self::Manual(clock) => {
                let micros = clock.micros();
                Moment { now: clock.instant(micros), micros }
            }
        }
    }

    /// Returns the time `wait` µs after a reading of this clock.
    pub(crate) fn after(&self, at: Moment, wait: u64) -> Instant {
        match self {
            Self::Store(_) => at.now.checked_add(Duration::from_micros(wait)).unwrap_or(at.now),
            Self::Manual(clock) => clock.instant(at.micros.saturating_add(wait)),
        }
    }

    pub(crate) fn is_past(&self, time: Instant) -> bool {
        self.read().now >= time
    }

    /// Sleeps until a time of this clock.
    pub(crate) async fn sleep_until(&self, time: Instant) {
        match self {
            Self::Store(_) => wait_until(Some(time)).await,
            Self::Manual(clock) => loop {
                let mut moved = pin!(clock.moved().notified());
                moved.as_mut().enable();
                if self.is_past(time) {
                    return;
                }
                moved.await;
            },
        }
    }
}
