//! Intervals and pauses that several parts of the engine agree on.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Ttl;

/// How often a process with waiters is heard by the store; a third of what makes it silent there.
pub(crate) const POLL: Duration = Duration::from_millis(300);
/// How much later than a lease's end its waiters ask.
pub(crate) const AFTER_EXPIRY: Duration = Duration::from_millis(10);
/// A request at its time limit gets so much longer for its answer, before the outcome is called unknown.
pub(crate) const LAST_WORD: Duration = Duration::from_millis(200);
/// Between the first two attempts while the store is away; it doubles up to the last.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const LAST_PAUSE: Duration = Duration::from_millis(400);

/// A third of the lease, up to a tenth sooner, so that processes started together do not renew together.
pub(crate) fn jittered(lease: Ttl) -> Duration {
    lease.renewal().mul_f64(rand::random_range(0.9..=1.0))
}

/// Sleeps until a moment; for ever where there is none.
pub(crate) async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
