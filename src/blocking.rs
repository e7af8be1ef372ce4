//! The same stores for threads that have no runtime: every call blocks its thread.
//!
//! Where calls may be made, what there is instead of a dropped future, and how all of it is used:
//! the guide's page [threads](crate::guide::threads). The methods of [`Mutex`], [`Semaphore`],
//! [`WaitGroup`] and [`Limiter`] are on the pages of these aliases and of [`Object`].

#[cfg(feature = "bloom")]
pub use stanchion_core::blocking::BloomFilter;
pub use stanchion_core::blocking::{
    Guard, Limiter, Lost, Member, Mutex, MutexGuard, Object, PeriodicJob, Permit, Reservation, Semaphore,
    Store, WaitGroup, wait,
};

/// Opens the store that a URL names, as [`stanchion::connect`](crate::connect), for threads.
///
/// # Errors
/// As [`stanchion::connect`](crate::connect); `Unsupported` if it would have to wait inside of a
/// polled task of tokio.
///
/// # Examples
/// ```
/// # fn main() -> stanchion::Result<()> {
/// let store = stanchion::blocking::connect("memory:")?;
/// assert_eq!(store.capabilities().store, "memory");
/// # Ok(())
/// # }
/// ```
pub fn connect(url: &str) -> crate::Result<Store> {
    wait(crate::connect(url)).map(Store::from)
}
