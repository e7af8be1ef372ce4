//! The same stores for threads: every call blocks its thread, and no caller needs a runtime. Behind
//! the feature `blocking`.
//!
//! [`Store`], [`Mutex`] and the others are `Send`, `Sync` and cheap to clone; clones are the same
//! object. [`Store`] is a type here, and `stanchion::Store` a trait: write `blocking::Store` where
//! both are used.
//!
//! A call here is the call of the same name of the asynchronous traits, polled by the thread that
//! makes it, which is parked while it waits. So the contract is the same, and threads and tasks
//! that want one name queue in one order ([C16](crate::contract#c16)). Each waiting thread has a
//! flag of its own and is woken alone. On the memory store no other thread is involved, unless a
//! call has a time limit or a hold a lease: one thread of the process keeps those times. On Redis
//! and Postgres the engine's thread makes the requests.
//!
//! | instead of dropping a future | here |
//! | --- | --- |
//! | end a wait | a call with a time limit, such as [`Mutex::lock_for`] |
//! | [`Guard::run`](crate::Guard::run), [`MutexExt::run`](crate::MutexExt::run), which drop their future at the loss | [`Guard::run`], [`Mutex::run`], whose closure is given [`Lost`], to look at between its steps |
//!
//! The crate itself depends on tokio (`rt`, `sync`, `time`), whose clock and signals tasks use;
//! with the memory store no runtime is started, on Redis and Postgres one by the engine's thread.
//!
//! # Where calls may be made
//! On any thread that may block: plain threads, threads of `tokio::task::spawn_blocking`, and
//! inside of `block_in_place`. A call that would have to wait inside of a polled task of tokio ends
//! with `Unsupported`, since the holder may be a task that this thread should run. This check does
//! not work inside of `tokio::task::unconstrained`, nor in other executors: there the call blocks
//! the executor's thread.
//!
//! In the destructor of a thread-local variable, drop guards, which queues their releases: a call
//! that would have to wait there ends with `Unsupported` once tokio's own variables of the thread
//! are destroyed, and an acquisition on the memory store can panic.
//!
//! Guards are `Send` and may be dropped on any thread, in tasks, too. A thread's call does not
//! advance a paused clock: `lock_for` on the memory store returns only after the test has called
//! `advance`.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//!
//! use stanchion::MutexOptions;
//! use stanchion::blocking;
//!
//! fn main() -> stanchion::Result<()> {
//!     let store = blocking::connect("memory:")?;
//!     let mutex = store.mutex("invoices/42", MutexOptions::new())?;
//!     let Some(guard) = mutex.lock_for(Duration::from_secs(5))? else {
//!         return Ok(()); // another caller has it
//!     };
//!     guard.run(|lost| {
//!         for line in 1..=3 {
//!             if lost.is_lost() {
//!                 return; // stop: another caller may hold it now
//!             }
//!             println!("line {line}");
//!         }
//!     })?;
//!     guard.release()?; // or drop it
//!     store.close()
//! }
//! ```

mod bloom_filter;
mod guard;
mod limiter;
mod lost;
mod mutex;
mod object;
mod periodic;
mod semaphore;
mod store;
mod wait_group;
mod waiting;

pub use bloom_filter::BloomFilter;
pub use guard::{Guard, Member, MutexGuard, Permit};
pub use limiter::{Limiter, Reservation};
pub use lost::Lost;
pub use mutex::Mutex;
pub use object::{Object, ObjectKind};
pub use periodic::PeriodicJob;
pub use semaphore::Semaphore;
pub use store::Store;
pub use wait_group::WaitGroup;
pub use waiting::{is_refused, wait};
