//! What the steps of a lease store must do, as tests: queue order, idempotence by ticket, tombstones, leases, wait
//! groups, and limiters to the microsecond.
//!
//! The suite for stores runs over the engine, which retries, waits and repairs; here a case is the only caller of the
//! steps, so that it sees what they answer and sends what an engine sends only after a fault. A store brings a
//! [`StepHarness`] for [`step_suite!`](crate::step_suite!), and a [`ClockHarness`] for
//! [`clock_suite!`](crate::clock_suite!); its own tests may use [`drive`], too.

mod case;
mod cases;
pub mod drive;
mod harness;

pub use case::{Case, run, run_by_clock, verdict};
pub use cases::{CLOCK_CASES, STEP_CASES};
pub use harness::{ClockHarness, LeaseSteps, Outages, Process, StepHarness, Tally};
