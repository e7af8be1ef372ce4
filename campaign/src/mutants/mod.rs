//! Stores with planted bugs, by which the tests are tested: each must be caught by what is named for it.
//!
//! A [`MutantHarness`] wraps another harness, and [`plant`] one store: what they give hands everything on to those of
//! the inner one, except where the [`Bug`] sits. Mistakes of the server's side are planted from outside: the test of a
//! store on Redis has its scripts [rewritten](stanchion_testbed::faults::Proxy::rewrite) on their way, that of one on Postgres
//! replaces functions of the schema. What catches a bug is a case of the suite for [stores](mod@stanchion_conformance::suite) or of
//! that for [steps](stanchion_conformance::steps), or a checker of [histories](crate::history) over one of the [`scenarios`]; [`planted!`]
//! makes a test of each bug, and one that says how many were caught and that none was forgotten.

mod bloom_filter;
mod bug;
mod guard;
mod harness;
mod ledger;
mod limiter;
mod mutex;
mod suite;
pub mod scenarios;
mod semaphore;
mod store;
mod wait_group;

pub use bug::{Bug, MutantTarget};
pub use harness::MutantHarness;
pub use suite::{Detection, Check, MutantSuite};
pub use store::mutate;

