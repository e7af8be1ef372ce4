//! A time to be woken at.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Sleep;

use super::timers::WakeUp;
use super::{Instant, is_real, now};

/// A time that is so far away need not be met to the millisecond.
const FAR: Duration = Duration::from_secs(1);

/// A time to be woken at, which may change. It needs no runtime; where the runtime that polls it
/// has a clock of its own, as a test with paused time has, it goes by that. Nothing is made before
/// the first use.
#[derive(Debug, Default)]
pub struct Alarm(Option<Timer>);

#[derive(Debug)]
enum Timer {
    OnThread(WakeUp),
    OnRuntime(Id, Pin<Box<Sleep>>),
}

impl Alarm {
    /// Polls the alarm: ready once the time `at` has come, pending for ever without a time.
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else {
            self.0 = None;
            return Poll::Pending;
        };
        // Each time: a test can pause the clock between two polls.
        match Handle::try_current() {
            Ok(runtime) if !is_real() => self.poll_on(&runtime, cx, at),
            _ => self.poll_on_thread(cx, at),
        }
    }

    fn poll_on_thread(&mut self, cx: &Context<'_>, at: Instant) -> Poll<()> {
        let left = at.saturating_duration_since(now());
        if left.is_zero() {
            self.0 = None;
            return Poll::Ready(());
        }
        match &self.0 {
            Some(Timer::OnThread(wake_up)) if wake_up.time() == at.into_std() => {
                if !wake_up.set_waker(cx.waker()) {
                    // The time came meanwhile, and the waker before this one was woken.
                    return Poll::Ready(());
                }
            }
            _ => {
                let make = if left < FAR { WakeUp::at } else { WakeUp::about };
                self.0 = Some(Timer::OnThread(make(at.into_std(), cx.waker().clone())));
            }
        }
        Poll::Pending
    }

    fn poll_on(&mut self, runtime: &Handle, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        // The timer of a runtime that has ended must not be polled.
        let mut sleep = match self.0.take() {
            Some(Timer::OnRuntime(of, sleep)) if of == runtime.id() => sleep,
            _ => Box::pin(tokio::time::sleep_until(at)),
        };
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        let polled = sleep.as_mut().poll(cx);
        self.0 = Some(Timer::OnRuntime(runtime.id(), sleep));
        polled
    }
}
