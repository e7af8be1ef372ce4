//! A third store: mutexes and semaphores in a map, behind stanchion's engine.
//!
//! It is meant to be copied. [`Server`] stands for the server of another store: a map, a clock, and
//! a mailbox for each process. A request to that server is a method here. Read in this order:
//!
//! | file | what is in it | in your store |
//! | --- | --- | --- |
//! | `store.rs` | the store: an engine over the steps | the same, with a URL and a connection |
//! | `steps.rs` | one method for all requests: lock, read the clock, go through the batch | your requests to the server |
//! | `record.rs` | what each step does to a name | your scripts, functions or transactions |
//! | `queue.rs` | the waiters, and which of them may be granted | the same |
//! | `liveness.rs` | which waiting processes are still live | the same |
//! | `client.rs`, `moment.rs` | the settings of a process; the time and the client of a step | the same |
//! | `server.rs`, `wake.rs` | the map and its clock; the mailboxes | your server; its way to push |
//!
//! Wait groups, limiters and Bloom filters are declared absent. `tests/it` has the two harnesses,
//! the suites, and a test that breaks one rule at a time.

mod client;
mod liveness;
mod mistake;
mod moment;
mod queue;
mod record;
mod server;
mod steps;
mod store;
mod wake;

pub use client::{Client, Retention};
pub use mistake::Mistake;
pub use record::{Hold, QueuedWaiter, Record, Tombstone};
pub use server::{Server, State};
pub use store::ThirdStore;
