//! A signal to all who wait.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::contain_wake;

/// A signal to all who wait for it at the moment, each of whom is woken by itself: a waker that
/// panics, or drops the task that it belongs to, keeps it from none of the others ([C27]). (The
/// signals of tokio wake nobody behind a waker that panics.)
///
/// [C27]: crate::contract#c27
#[derive(Debug, Default)]
pub struct Broadcast(Mutex<Listeners>);

#[derive(Debug, Default)]
struct Listeners {
    /// Number of signals so far.
    signals: u64,
    /// Those who wait for the next signal.
    wakers: Slab<Waker>,
}

impl Broadcast {
    /// Makes a signal that nobody waits for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all who wait. Call it with no lock held.
    pub fn notify_waiters(&self) {
        let mut listeners = self.listeners();
        listeners.signals += 1;
        let wakers = std::mem::take(&mut listeners.wakers);
        drop(listeners);
        wakers.into_iter().for_each(|(_, waker)| contain_wake(|| waker.wake()));
    }

    /// Returns a future that resolves at the first signal from now on.
    pub fn notified(&self) -> Notified<'_> {
        Notified { broadcast: self, signals: self.listeners().signals, place: None }
    }
}

/// Resolves at the first signal since it was made. Dropping it ends the waiting.
#[derive(Debug)]
pub struct Notified<'a> {
    broadcast: &'a Broadcast,
    /// Number of signals when it was made.
    signals: u64,
    place: Option<usize>,
}

impl Notified<'_> {
    /// Returns whether the signal has come. There is nothing to enable: it waits since it was made.
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.broadcast.listeners().signals != self.signals
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut listeners = this.broadcast.listeners();
        if listeners.signals != this.signals {
            this.place = None;
            return Poll::Ready(());
        }
        let before = match this.place.and_then(|place| listeners.wakers.get_mut(place)) {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            Some(waker) => Some(std::mem::replace(waker, cx.waker().clone())),
            None => {
                this.place = Some(listeners.wakers.insert(cx.waker().clone()));
                None
            }
        };
        drop(listeners);
        // Only here: dropping a waker may drop a task.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut listeners = self.broadcast.listeners();
        let waker = (listeners.signals == self.signals).then(|| listeners.wakers.remove(place));
        drop(listeners);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("this waker panics");
        }
    }

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn c27_a_waker_that_panics_keeps_the_signal_from_no_other() {
        let broadcast = Broadcast::new();
        let (panicking, counting) = (Waker::from(Arc::new(Panicking)), Arc::new(Counting::default()));
        let counted = Waker::from(Arc::clone(&counting));
        let (mut first, mut second) = (pin!(broadcast.notified()), pin!(broadcast.notified()));
        assert!(first.as_mut().poll(&mut Context::from_waker(&panicking)).is_pending());
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(second.as_mut().poll(&mut Context::from_waker(&counted)).is_pending());
        drop(broadcast.notified());
        broadcast.notify_waiters();
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        for notified in [&mut first, &mut second] {
            assert!(notified.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        assert!(pin!(broadcast.notified()).poll(&mut Context::from_waker(&counted)).is_pending());
    }

    #[test]
    fn whoever_waited_when_it_came_has_heard_it() {
        let broadcast = Broadcast::new();
        let mut notified = pin!(broadcast.notified());
        assert!(!notified.as_mut().enable());
        broadcast.notify_waiters();
        assert!(notified.as_mut().enable());
        assert!(notified.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(broadcast.listeners().wakers.len(), 0);
    }
}
