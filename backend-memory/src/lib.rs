//! In-process store of the `stanchion` coordination library: mutexes, semaphores, wait groups,
//! limiters and, with the feature `bloom`, Bloom filters by name, under the same contract as the
//! networked stores.
//!
//! It is the embedded default, and the reference with which the other stores are compared. Users
//! reach it through the facade `stanchion`.
//!
//! # What it costs
//! An uncontended operation is one boxed future, one reading of the clock and one lock held for
//! nanoseconds: no task, no timer, no thread. A release hands the hold to the first waiter and
//! wakes it ([C14], [C16]). A waiter needs a timer only where a lease or a timeout can end the
//! wait; everything else runs on any executor. A name costs nothing once no handle uses it ([C25]).
//!
//! # Time
//! The store's clock is the wall clock at its creation plus the monotonic time since. It therefore
//! never goes back, and fencing tokens grow from one run of the process to the next ([M3]). It
//! follows `tokio::time::pause`. Limiters can be given a [`ManualClock`].
//!
//! # Leases
//! A guard cannot lose contact with a store in its own process, so a hold has no lease unless its
//! options ask for one, and a renewed lease never ends while the guard lives. `ttl` with
//! `renew(false)`, `max_hold` and `detach` give a hold an end, which is enforced as on every other
//! store ([C8], [C10]). Without a `ttl`, `renew(false)` has no effect here: the default lease of 30
//! s is one of the networked stores.
//!
//! # Examples
//! ```
//! use stanchion_core::{MutexOptions, Store};
//! use stanchion_memory::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> stanchion_core::Result<()> {
//! let store = MemoryStore::new();
//! let mutex = store.mutex("invoices/42", MutexOptions::default())?;
//! let guard = mutex.lock().await?;
//! assert!(mutex.try_lock().await?.is_none());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [C14]: stanchion_core::contract#c14
//! [C16]: stanchion_core::contract#c16
//! [C25]: stanchion_core::contract#c25
//! [M3]: stanchion_core::contract#m3
//! [C8]: stanchion_core::contract#c8
//! [C10]: stanchion_core::contract#c10
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod alarm;
#[cfg(feature = "bloom")]
mod bloom;
mod builder;
mod clock;
mod entry;
mod kernel;
mod limiter;
mod listing;
#[cfg(test)]
mod model_tests;
mod mutex;
mod name_handle;
mod names;
mod namespaces;
mod semaphore;
mod session;
mod session_id;
mod sessions;
mod state;
mod store;
mod sync;
mod wait_group;

pub use builder::MemoryStoreBuilder;
pub use limiter::ManualClock;
pub use store::MemoryStore;

/// The name of this store in errors and capabilities.
const STORE: &str = "memory";
