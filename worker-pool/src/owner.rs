//! State that all handles of a pool share.

use std::sync::Arc;

use crate::JobError;
use crate::job_run::end;
use crate::shared::Shared;

/// Closes the pool when it is dropped. Only handles of the pool share it; workers and handles of
/// jobs do not.
pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let unrun = self.shared.with(|kernel, wakes| {
            kernel.close(wakes);
            kernel.take_unrun()
        });
        unrun.into_iter().for_each(|(_, job)| end(job, JobError::NotRun));
    }
}
