//! The limiter: core's exact bucket behind a lock and a clock.

mod entry;
mod handle;
mod manual_clock;
mod reservation;
mod time;

pub(crate) use entry::LimiterEntry;
pub(crate) use handle::MemoryLimiter;
pub use manual_clock::ManualClock;
pub(crate) use time::LimiterClock;
