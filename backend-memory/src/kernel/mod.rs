//! The state of one name, without a lock, a clock or a task. Mutexes, semaphores and wait groups
//! share it.

mod claim;
mod generations;
mod holds;
mod inspected;
mod permits;
mod queue;
mod terms;
mod transfer;
mod transition;

#[cfg(test)]
mod model_tests;

pub(crate) use claim::Claim;
pub(crate) use generations::{Cause, End, Generation, Generations};
pub(crate) use permits::{Limit, Permits, Progress};
pub(crate) use queue::{Arrival, Refusal, Waiter};
pub(crate) use terms::Terms;
pub(crate) use transition::{Loss, Transition};
