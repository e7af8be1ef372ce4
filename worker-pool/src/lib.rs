#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder;
mod cell;
mod control;
mod error;
mod gate;
mod group;
mod handle;
mod job;
mod kernel;
mod pool;
mod report;
mod shared;
mod stats;
mod token;
mod turn;
mod worker;

pub use builder::{MAX_WORKERS, PoolBuilder};
pub use error::{ConfigError, GroupError, JobError, Panic, Refusal, SubmitError};
pub use group::Group;
pub use handle::{JobHandle, JobId};
pub use job::Job;
pub use pool::{Entered, WorkerPool};
pub use report::{ReturnedJob, Shutdown};
pub use stats::PoolStats;
pub use token::fencing_token;
