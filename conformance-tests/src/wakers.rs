//! Wakers of executors that do more than to wake: what one does is its own affair.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// A call as a task has it.
pub type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A call that belongs to its waker, as a task of an executor that has ended: woken, it is dropped.
#[derive(Default)]
pub struct Owner {
    call: Mutex<Option<Call>>,
    is_woken: AtomicBool,
}

impl Owner {
    fn drop_call(&self) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(call);
    }

    /// Returns whether the call was dropped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.call.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.drop_call();
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("is_woken", &self.is_woken).finish_non_exhaustive()
    }
}

/// Gives a call that waits to its waker.
///
/// # Panics
/// If the call ends.
#[must_use]
pub fn owned(mut call: Call) -> Arc<Owner> {
    let owner = Arc::new(Owner::default());
    let waker = Waker::from(Arc::clone(&owner));
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it waits");
    *owner.call.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    if owner.is_woken.load(Ordering::Acquire) {
        owner.drop_call();
    }
    owner
}

/// Returns a waker that panics.
#[must_use]
pub fn panicking() -> Waker {
    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            // Without the hook, which reads all symbols for a backtrace: that takes longer than a
            // lease.
            resume_unwind(Box::new("this waker panics"));
        }
    }

    Waker::from(Arc::new(Panicking))
}
