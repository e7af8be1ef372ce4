//! The engine under a model checker: leases, the queue of releases, and the thread that serves
//! both.

mod ending;
mod lease;
mod outbox;
mod store;
