#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder;
mod cluster_limits;
mod control;
mod error;
mod group_state;
mod handle;
mod job;
mod job_group;
mod job_run;
mod job_slot;
mod kernel;
mod membership;
mod pool;
mod report;
mod shared;
mod stats;
mod submission;
mod token;
mod worker;

pub use builder::PoolBuilder;
pub use error::{ConfigError, GroupError, JobError, MAX_WORKERS, Panic, Refusal, SubmitError};
pub use handle::{JobHandle, JobId};
pub use job::Job;
pub use job_group::JobGroup;
pub use pool::{Submitted, WorkerPool};
pub use report::{ReturnedJob, Shutdown};
pub use stats::PoolStats;
pub use token::fencing_token;
