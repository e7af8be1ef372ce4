//! Waits that go by the caller's clock and need no runtime: they may be polled by one runtime and
//! then by another, also when the first has ended.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::{Alarm, Instant, now};

/// Waits until a time; for ever without a time.
pub async fn wait_until(at: Option<Instant>) {
    let mut alarm = Alarm::default();
    poll_fn(|cx| alarm.poll(cx, at)).await;
}

/// Sleeps until a time.
pub async fn sleep_until(at: Instant) {
    wait_until(Some(at)).await;
}

/// Sleeps for a time; for ever if that is beyond the clock's range.
pub async fn sleep(time: Duration) {
    wait_until(now().checked_add(time)).await;
}

/// The time of some work was over before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time was over first")]
pub struct Late;

/// Does some work, until `at` at most.
///
/// # Errors
/// [`Late`] if it was not done by then.
pub fn timeout_at<T>(at: Instant, work: impl Future<Output = T>) -> impl Future<Output = Result<T, Late>> {
    limited(Some(at), work)
}

/// Does some work, for `time` at most.
///
/// # Errors
/// [`Late`] if it was not done by then.
pub fn timeout<T>(time: Duration, work: impl Future<Output = T>) -> impl Future<Output = Result<T, Late>> {
    limited(now().checked_add(time), work)
}

async fn limited<T>(at: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Late> {
    match select(pin!(work), pin!(wait_until(at))).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(Late),
    }
}
