#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder;
mod cluster_limits;
mod control;
mod error;
mod group_results;
mod group_state;
mod group_submitter;
mod handle;
mod job;
mod job_context;
mod job_group;
mod job_run;
mod job_slot;
mod kernel;
mod membership;
mod owner;
mod pool;
mod report;
mod shared;
mod signal;
mod stats;
mod submission;
mod weak_pool;
mod worker;

pub use builder::PoolBuilder;
pub use error::{ConfigError, DrainError, GroupError, JobError, MAX_WORKERS, Panic, Refusal, SubmitError};
pub use group_submitter::GroupSubmitter;
pub use handle::{JobHandle, JobId};
pub use job::Job;
pub use job_context::fencing_token;
pub use job_group::JobGroup;
pub use pool::{Submitted, WorkerPool};
pub use report::{ReturnedJob, Shutdown};
pub use stats::PoolStats;
pub use weak_pool::WeakPool;
