//! The contract of the `stanchion` coordination library as tests, for the stores of this workspace
//! and for any other store.
//!
//! A store provides a [`Harness`]; [`suite!`] makes one `#[test]` for each case. A case is named
//! after the clauses of the contract that it asserts. [`steps`] has the cases for the steps of a
//! lease store, below the engine. The repository has a complete small store to copy, with its
//! harnesses, in `conformance-tests/examples/third_store`.
//!
//! ```ignore
//! // tests/conformance.rs of a store
//! stanchion_conformance::suite!(MyHarness::start().await);
//! ```

mod case;
mod cases;
pub mod faulty;
pub mod gaps;
mod harness;
pub mod outages;
pub mod steps;
pub mod stopwatch;
pub mod suite;
pub mod support;
mod threads;
pub mod wakers;

pub use cases::CASES;
pub use harness::Harness;
pub use stopwatch::EPSILON;
pub use threads::BlockingFace;
