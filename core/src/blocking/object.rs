//! The common part of the objects of threads.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::waiting::wait_in;
use crate::Result;

/// An object of a store for threads: [`Mutex`](super::Mutex), [`Semaphore`](super::Semaphore),
/// [`WaitGroup`](super::WaitGroup), [`Limiter`](super::Limiter) and, with the feature `bloom`,
/// `BloomFilter` are this type over the traits of tasks. Clones are the same object. A call that
/// would have to wait inside of a polled task ends with `Unsupported`: see [where calls may be
/// made](crate::blocking#where-calls-may-be-made).
pub struct Object<T: ?Sized>(pub(super) Arc<T>);

/// The traits of tasks. Sealed: there are no others.
pub trait ObjectKind: sealed::Sealed {
    /// Returns the name.
    #[doc(hidden)]
    fn name_of(&self) -> &str;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! kinds {
    ($($(#[$feature:meta])? $kind:path;)+) => {$(
        $(#[$feature])?
        impl sealed::Sealed for dyn $kind {}

        $(#[$feature])?
        impl ObjectKind for dyn $kind {
            fn name_of(&self) -> &str {
                self.name()
            }
        }
    )+};
}

kinds! {
    crate::Mutex;
    crate::Semaphore;
    crate::WaitGroup;
    crate::Limiter;
    crate::BloomFilter;
}

impl<T: ObjectKind + ?Sized> Object<T> {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name_of()
    }

    /// Returns the same object for tasks.
    #[must_use]
    pub fn as_async(&self) -> &Arc<T> {
        &self.0
    }

    /// Blocks the thread until a call is done.
    pub(super) fn blocked<A>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<A>>,
    ) -> Result<A> {
        wait_in(operation, "blocking", self.name(), call)
    }
}

impl<T: ?Sized> Clone for Object<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ObjectKind + ?Sized> From<Arc<T>> for Object<T> {
    fn from(object: Arc<T>) -> Self {
        Self(object)
    }
}
