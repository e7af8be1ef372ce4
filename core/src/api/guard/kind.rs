//! The kinds of objects that guards are of.

use std::fmt::Debug;

use crate::Kind;

/// The kind of object that a [`Guard`](crate::Guard) is of: [`OfMutex`], [`OfSemaphore`] or
/// [`OfWaitGroup`]. Sealed: there are no others.
pub trait GuardKind: sealed::Sealed + Debug + Send + Sync + Unpin + 'static {
    /// The kind.
    const KIND: Kind;
}

mod sealed {
    pub trait Sealed {}
}

/// The kind of [`MutexGuard`](crate::MutexGuard). It has no values.
#[derive(Clone, Copy, Debug)]
pub enum OfMutex {}

/// The kind of [`Permit`](crate::Permit). It has no values.
#[derive(Clone, Copy, Debug)]
pub enum OfSemaphore {}

/// The kind of [`Member`](crate::Member). It has no values.
#[derive(Clone, Copy, Debug)]
pub enum OfWaitGroup {}

impl sealed::Sealed for OfMutex {}
impl sealed::Sealed for OfSemaphore {}
impl sealed::Sealed for OfWaitGroup {}

impl GuardKind for OfMutex {
    const KIND: Kind = Kind::Mutex;
}

impl GuardKind for OfSemaphore {
    const KIND: Kind = Kind::Semaphore;
}

impl GuardKind for OfWaitGroup {
    const KIND: Kind = Kind::WaitGroup;
}
