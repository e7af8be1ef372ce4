//! State shared by the pool's handles, its jobs' handles and its workers.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::JobError;
use crate::cluster_limits::ClusterLimits;
use crate::job_run::end;
use crate::job_slot::Queued;
use crate::kernel::{Kernel, Wakes};

pub(crate) type PoolKernel = Kernel<Queued, Waker>;

pub(crate) struct Shared {
    kernel: Mutex<PoolKernel>,
    /// Notified when a job or a worker ends in a pool that takes no more jobs.
    ending: Notify,
    pub(crate) limits: Option<ClusterLimits>,
    pub(crate) name: String,
    pub(crate) runtime: Handle,
}

impl Shared {
    pub(crate) fn new(
        name: String,
        queue: usize,
        limits: Option<ClusterLimits>,
        runtime: Handle,
    ) -> Arc<Self> {
        let kernel = Mutex::new(Kernel::new(queue));
        Arc::new(Self { kernel, ending: Notify::new(), limits, name, runtime })
    }

    /// Reads or changes the state under its lock, and calls the wakers that the change concerns once the lock is free.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut PoolKernel, &mut Wakes<Waker>) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = change(&mut self.kernel.lock().unwrap_or_else(PoisonError::into_inner), &mut wakes);
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Cancels a job, whether it waits or runs.
    pub(crate) fn cancel(&self, id: u64) {
        let withdrawn = self.with(|kernel, wakes| {
            let withdrawn = kernel.withdraw(id, wakes);
            if withdrawn.is_none() {
                kernel.stop(id, wakes);
            }
            withdrawn
        });
        if let Some(job) = withdrawn {
            end(job, JobError::Cancelled);
            self.tell_if_ending();
        }
    }

    /// Wakes the callers of [`until`](Self::until), so that they check their condition again.
    pub(crate) fn tell_if_ending(&self) {
        self.ending.notify_waiters();
    }

    /// Waits until the condition is true; checks it again whenever a job or a worker ends.
    pub(crate) async fn until(&self, condition: impl Fn(&PoolKernel) -> bool) {
        loop {
            let told = self.ending.notified();
            let mut told = std::pin::pin!(told);
            told.as_mut().enable();
            if self.with(|kernel, _| condition(kernel)) {
                return;
            }
            told.await;
        }
    }
}
