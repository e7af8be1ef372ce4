//! The intervals of session mode.

use std::time::Duration;

use stanchion_core::Ttl;

/// How much longer than the TTL the server keeps a silent session. A claim is answered from memory
/// only while the last statement is younger than this.
pub(super) const IDLE_TIMEOUT_MARGIN: Duration = Duration::from_millis(10);
/// Maximum interval between two probes of a session with holds, so that its end is noticed soon.
const HOLDER_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// How long an idle session without holds stays open.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two attempts to open a session after a failure (C28).
pub(super) const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Returns how long the server keeps a silent session.
pub(super) fn idle_session_timeout(ttl: Ttl) -> Duration {
    ttl.get() + IDLE_TIMEOUT_MARGIN
}

/// Returns the interval between two probes of a session.
pub(super) fn probe_interval(ttl: Ttl, has_holds: bool) -> Duration {
    let interval = ttl.renewal();
    if has_holds { interval.min(HOLDER_PROBE_INTERVAL) } else { interval }
}
