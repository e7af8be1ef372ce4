//! A job's link to its group.

use std::sync::{Arc, OnceLock};

use crate::JobError;

/// The view of a group that its jobs have. `R` is the output of each job.
pub(crate) trait GroupMembers<R>: Send + Sync {
    /// Adds a job that was just queued under this number, and returns its position in the order of
    /// submission, from 0. Called under the lock of the pool's state: must not call the pool.
    fn add(&self, id: u64) -> usize;

    /// Takes the result of the job at this position.
    fn end(&self, index: usize, result: Result<R, JobError>);
}

/// A job's link to its group.
pub(crate) struct Membership<R> {
    group: Arc<dyn GroupMembers<R>>,
    /// Position of the job in the order of submission, once it is queued.
    index: OnceLock<usize>,
}

impl<R> Membership<R> {
    pub(crate) fn new(group: Arc<dyn GroupMembers<R>>) -> Self {
        Self { group, index: OnceLock::new() }
    }

    /// Adds the job to its group. Called once, under the lock of the pool's state, so that it has a
    /// position before it begins.
    pub(crate) fn queued(&self, id: u64) {
        // A job is queued once, so that no position was set before.
        let _ = self.index.set(self.group.add(id));
    }

    /// Gives the job's result to its group.
    pub(crate) fn end(&self, result: Result<R, JobError>) {
        if let Some(index) = self.index.get() {
            self.group.end(*index, result);
        }
    }
}
