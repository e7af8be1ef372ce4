//! The contract of the `stanchion` coordination library as tests, for the stores of this workspace and for anybody's own.
//!
//! A store brings a [`Harness`]; [`suite!`] makes one `#[test]` of each case. A case is named after the clauses of the
//! contract that it asserts. What a lease store's steps must do below the engine is in [`steps`]. The repository has a
//! complete small store to be copied, with its harnesses, in `conformance-tests/examples/third_store`.
//!
//! ```ignore
//! // tests/conformance.rs of a store
//! stanchion_conformance::suite!(MyHarness::start().await);
//! ```

mod cases;
pub mod faulty;
pub mod gaps;
mod harness;
pub mod steps;
pub mod stopwatch;
pub mod suite;
pub mod support;

pub use cases::CASES;
pub use harness::Harness;
pub use stopwatch::EPSILON;
