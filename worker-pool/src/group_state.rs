//! The state that a group shares with its jobs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::membership::FailureListener;
use crate::shared::Shared;

/// The jobs of a group that are not taken yet, and which of its jobs failed first.
pub(crate) struct GroupState {
    shared: Arc<Shared>,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    /// Ids of the jobs whose results were not taken yet.
    ids: VecDeque<u64>,
    failed: Option<usize>,
    /// Waker of the group's owner, which either submits or waits for a result.
    waker: Option<Waker>,
}

impl GroupState {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, members: Mutex::default() }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position of the job that failed first. If none failed, the waker is called when one does.
    pub(crate) fn failed(&self, waker: &Waker) -> Option<usize> {
        let mut members = self.members();
        if members.failed.is_none() && members.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            members.waker = Some(waker.clone());
        }
        members.failed
    }

    pub(crate) fn has_failed(&self, waker: &Waker) -> bool {
        self.failed(waker).is_some()
    }

    pub(crate) fn add(&self, id: u64) {
        let failed = {
            let mut members = self.members();
            members.ids.push_back(id);
            members.failed.is_some()
        };
        // The job was queued while another one failed.
        if failed {
            self.cancel_all();
        }
    }

    pub(crate) fn forget_first(&self) {
        self.members().ids.pop_front();
    }

    pub(crate) fn cancel_all(&self) {
        let ids = std::mem::take(&mut self.members().ids);
        ids.into_iter().for_each(|id| self.shared.cancel(id));
    }
}

impl FailureListener for GroupState {
    fn fail(&self, index: usize) {
        let waker = {
            let mut members = self.members();
            if members.failed.is_some() {
                return;
            }
            members.failed = Some(index);
            members.waker.take()
        };
        tracing::debug!(pool = %self.shared.name, index, "a job of a group failed; the rest is cancelled");
        self.cancel_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
