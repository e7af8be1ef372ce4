#![doc = "Stores for threads that have no runtime."]

pub use stanchion_core::blocking::*;

/// Opens the store that a URL names, as [`stanchion::connect`](crate::connect), for threads.
///
/// # Errors
/// As [`stanchion::connect`](crate::connect); `Unsupported` inside of a polled task of tokio.
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
