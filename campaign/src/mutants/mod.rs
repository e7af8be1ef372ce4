//! Stores with planted bugs, which test the tests: a named case or checker must catch each bug.
//!
//! A [`MutantHarness`] wraps another harness, and [`mutate`] wraps one store. The wrappers forward
//! every call, except where the [`Bug`] is. Bugs on the server's side are planted from outside: the
//! test of the Redis store [rewrites](stanchion_testbed::faults::Proxy::rewrite) scripts on their
//! way, and the test of the Postgres store replaces functions of the schema. A bug is caught by a
//! case of the suite for [stores](mod@stanchion_conformance::suite) or for
//! [steps](stanchion_conformance::steps), or by a checker of [histories](crate::history) over one
//! of the [`scenarios`]. [`mutants!`](macro@crate::mutants) makes one test for each bug, and one
//! that runs them all and fails if a bug is missing.

mod bloom_filter;
mod bug;
mod guard;
mod harness;
mod ledger;
mod limiter;
mod mutex;
pub mod scenarios;
mod semaphore;
mod store;
mod suite;
mod wait_group;

pub use bug::{Bug, MutantTarget};
pub use harness::MutantHarness;
pub use store::mutate;
pub use suite::{Check, Detection, MutantSuite};
