//! A wake-up time that may change.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use stanchion_core::clock::{self, Instant};
use tokio::time::Sleep;

/// A sleep that is created at its first use: a wait without a timeout or a lease needs no timer.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Polls the sleep: ready once the time `at` has come, pending for ever without a time.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else {
            self.0 = None;
            return Poll::Pending;
        };
        let sleep =
            self.0.get_or_insert_with(|| Box::pin(clock::sleep(at.saturating_duration_since(clock::now()))));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx)
    }
}

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
