//! Wakes callers once the state of the sessions is unlocked: a waker may poll or drop a call, which
//! can take the same lock, and one that panics keeps none from the others (C27).

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use stanchion_core::runtime::contain_wake;

thread_local! {
    /// The wakers to call once this thread has unlocked the state; `None` while it has not locked
    /// it.
    static DEFERRED: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Does work that locks the state and unlocks it; then calls the wakers of callers that it woke.
pub(super) fn with_deferred_wakers<R>(work: impl FnOnce() -> R) -> R {
    /// Also where the work panics.
    struct Rest;

    impl Drop for Rest {
        fn drop(&mut self) {
            let deferred = DEFERRED.take();
            deferred.into_iter().flatten().for_each(|waker| contain_wake(|| waker.wake()));
        }
    }

    DEFERRED.set(Some(Vec::new()));
    let _rest = Rest;
    work()
}

/// A caller's waker.
struct CallerWaker(Waker);

impl Wake for CallerWaker {
    fn wake(self: Arc<Self>) {
        let deferred = DEFERRED.with_borrow_mut(|deferred| {
            let is_deferred = deferred.is_some();
            deferred.iter_mut().for_each(|deferred| deferred.push(self.0.clone()));
            is_deferred
        });
        if !deferred {
            contain_wake(|| self.0.wake_by_ref());
        }
    }
}

/// Does a caller's work so that its waker is called while the state is not locked.
pub(super) async fn woken_unlocked<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(CallerWaker(cx.waker().clone())));
        work.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::oneshot;

    use super::*;

    /// Counts the wake-ups that found the lock free.
    struct Locking(Arc<Mutex<u32>>);

    impl Wake for Locking {
        fn wake(self: Arc<Self>) {
            *self.0.try_lock().expect("it is unlocked") += 1;
        }
    }

    #[test]
    fn c27_a_caller_is_woken_once_the_state_is_unlocked() {
        let count = Arc::new(Mutex::new(0));
        let waker = Waker::from(Arc::new(Locking(Arc::clone(&count))));
        for deferred in [true, false] {
            let (reply, answer) = oneshot::channel();
            let mut call = pin!(woken_unlocked(answer));
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            if deferred {
                with_deferred_wakers(|| {
                    let count = count.lock().unwrap();
                    reply.send(()).unwrap();
                    assert_eq!(*count, 0);
                });
            } else {
                reply.send(()).unwrap();
            }
            assert_eq!(*count.lock().unwrap(), if deferred { 1 } else { 2 });
        }
    }
}
