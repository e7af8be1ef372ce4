//! Tests of the steps of a lease store: queue order, idempotence by ticket, tombstones, leases,
//! wait groups, and limiters to the microsecond.
//!
//! The suite for stores runs above the engine, which retries, waits and repairs. Here a case is the
//! only caller of the steps: it sees their answers, and can send requests that an engine sends only
//! after a fault. A store provides a [`StepHarness`], and runs one suite for each group of requests
//! that it knows:
//!
//! | suite | for a store with |
//! | --- | --- |
//! | [`permit_step_suite!`](crate::permit_step_suite!) | mutexes and semaphores |
//! | [`group_step_suite!`](crate::group_step_suite!) | wait groups as well |
//! | [`limit_step_suite!`](crate::limit_step_suite!) | limiters, by the store's own clock |
//! | [`list_step_suite!`](crate::list_step_suite!) | all three and listings |
//! | [`step_suite!`](crate::step_suite!) | all four |
//! | [`clock_suite!`](crate::clock_suite!) | limiters, and a [`ClockHarness`] that sets their clock |
//!
//! Each suite takes a list of known [gaps](crate::gaps), like the suite for stores. A store's own
//! tests may use [`drive`], too.

mod calls;
mod cases;
pub mod drive;
mod harness;
mod provided;
mod suite;

pub use self::calls::StepCalls;
pub use crate::case::Case;
pub use cases::{CLOCK_CASES, STEP_CASES};
pub use harness::{ClockHarness, Outages, Process, StepHarness, Tally};
pub use suite::{check_clock_gaps, check_gaps, run, run_by_clock, verdict};
