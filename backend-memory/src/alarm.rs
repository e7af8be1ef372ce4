//! A wait for a signal or a time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use stanchion_core::clock::{Alarm, Instant};

/// Waits for a signal, at most until a time.
pub(crate) async fn wait_for_signal(
    mut signal: Pin<&mut (impl Future<Output = ()> + Send)>,
    at: Option<Instant>,
) {
    let mut alarm = Alarm::default();
    poll_fn(|cx| match signal.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => alarm.poll(cx, at),
    })
    .await;
}
