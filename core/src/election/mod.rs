//! Leader election: the holder of a mutex leads. Jobs that the leader runs once in each period.

mod candidate;
mod handle;
mod job_result;
mod observer;
mod options;
mod periodic;

pub use candidate::Election;
pub use handle::ElectionHandle;
pub use job_result::JobResult;
pub use observer::{ElectionObserver, Leader, LeaderChanges};
pub use options::ElectionOptions;
pub use periodic::PeriodicJob;
