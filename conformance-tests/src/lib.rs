//! The contract of the `stanchion` coordination library as tests, for the stores of this workspace and for anybody's own.
//!
//! A store brings a [`Harness`]; [`suite!`] makes one `#[test]` of each case. A case is named after the clauses of the
//! contract that it asserts. The suite is itself tested: [`plant`] has stores with planted bugs, each of which a named
//! case catches. What a lease store's steps must do below the engine is in [`steps`].
//!
//! ```ignore
//! // tests/conformance.rs of a store
//! stanchion_conformance::suite!(MyHarness::start().await);
//! ```

pub mod awaits;
pub mod campaign;
mod cases;
pub mod faults;
pub mod gaps;
mod harness;
pub mod history;
pub mod plant;
mod quiet;
pub mod servers;
pub mod steps;
pub mod suite;

pub use cases::CASES;
pub use harness::Harness;
