//! Instants that two processes of a machine share.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use stanchion::spi::clock;

/// An instant of `CLOCK_MONOTONIC`, in ns.
///
/// `Instant`, by which the library counts deadlines, is a reading of this clock on Linux. The clock
/// is one for all processes of a machine, so a deadline can be passed on as it is, and does not
/// depend on when the message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Self(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default())
    }

    /// Converts an instant of this process. Never late: the shared clock is read first.
    pub(crate) fn of(instant: Instant) -> Self {
        let (shared, own) = (Self::now(), clock::real().into_std());
        match instant.checked_duration_since(own) {
            Some(ahead) => shared.after(ahead),
            None => shared.before(own.duration_since(instant)),
        }
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }

    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }

    /// Returns the time from now until this instant; zero if it is past.
    pub(crate) fn left(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(Self::now().0))
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

/// Converts the time limit of a `poll`.
pub(crate) fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_converted_and_never_late() {
        let ahead = Duration::from_secs(5);
        let own = clock::real().into_std() + ahead;
        let converted = Moment::of(own);
        let (left, own_left) = (converted.left(), own.duration_since(clock::real().into_std()));
        assert!(left <= own_left + Duration::from_millis(1), "{left:?} {own_left:?}");
        assert!(converted < Moment::now().after(ahead));
        assert!(Moment::of(clock::real().into_std()) <= Moment::now());
    }
}
