//! Intervals and pauses that several parts of the engine agree on.

use std::time::Duration;

use crate::Ttl;
use crate::connect::LATE_ANSWER;

/// Returns the time of the engine's runtime, also to a caller whose runtime has a clock of its own.
/// Where the engine polls, it is that of [`now`](crate::clock::now).
#[cfg(not(test))]
pub(crate) use crate::clock::real as engine_now;

/// The engine's own tests have one clock, which they move.
#[cfg(test)]
pub(crate) use crate::clock::now as engine_now;

/// Time after which a store that has not heard a process calls it silent, and puts its waiters
/// aside until its next poll. It is also the minimum for which the place of a waiter is kept,
/// however short its lease. Stores have it too: as `LIVENESS` in the Lua scripts and the step
/// cases, and as `liveness` in the SQL functions.
pub(crate) const LIVENESS: Duration = Duration::from_secs(1);
/// Interval at which a process with waiters polls the store: less than a third of [`LIVENESS`].
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Interval at which it polls about an object whose queue has another process in front: the poll
/// floor is 1 s (C14).
pub(crate) const FAR_POLL_INTERVAL: Duration = Duration::from_millis(900);
/// Delay between the end of a lease and the poll that notices it.
pub(crate) const AFTER_EXPIRY: Duration = Duration::from_millis(10);
/// Extra time for the answer to a request that is under way when its caller's time is over, before
/// the outcome is unknown.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_millis(200);
/// Time after which an answer that a policy can stand in for is late: the server is asked whether
/// it answers.
pub(crate) const LATE: Duration = LATE_ANSWER;
/// Time limit of that question. A server that has not answered by then is away (C28).
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of attempts of a call that makes a bounded number of them.
pub(crate) const ATTEMPTS: u32 = 3;
/// Pause between the first two attempts while the store is away. It doubles up to
/// [`MAXIMUM_PAUSE`].
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Maximum pause between two attempts while the store is away.
pub(crate) const MAXIMUM_PAUSE: Duration = Duration::from_millis(400);

/// Returns the interval until the next renewal: a third of the lease, up to a tenth less, so that
/// processes that started together do not renew together.
pub(crate) fn renewal_interval(lease: Ttl) -> Duration {
    lease.renewal().mul_f64(rand::random_range(0.9..=1.0))
}
