//! A job's link to its group.

use std::sync::Arc;

use crate::JobError;

/// The view of a group that its jobs have.
pub(crate) trait FailureListener: Send + Sync {
    /// Tells the group that the job at this position, in the order of submission, has failed.
    fn fail(&self, index: usize);
}

/// A job's link to its group.
pub(crate) struct Membership<R> {
    group: Arc<dyn FailureListener>,
    index: usize,
    failure: fn(&Result<R, JobError>) -> bool,
}

impl<R> Membership<R> {
    /// Links the job at this position to its group. `failure` returns whether a result makes the group fail.
    pub(crate) fn new(
        group: Arc<dyn FailureListener>,
        index: usize,
        failure: fn(&Result<R, JobError>) -> bool,
    ) -> Self {
        Self { group, index, failure }
    }

    pub(crate) fn is_failure(&self, result: &Result<R, JobError>) -> bool {
        (self.failure)(result)
    }

    pub(crate) fn fail(&self) {
        self.group.fail(self.index);
    }
}
