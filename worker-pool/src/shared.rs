//! State shared by the pool's handles, its jobs' handles and its workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::runtime::Handle;

use crate::JobError;
use crate::cluster_limits::ClusterLimits;
use crate::job_context::JobContext;
use crate::job_run::end;
use crate::job_slot::Queued;
use crate::kernel::{Kernel, Wakes};
use crate::signal::Signal;

pub(crate) type PoolKernel = Kernel<Queued, Waker>;

/// Identifies a pool in this process. No two pools have the same id, also if one of them has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolId(u64);

impl PoolId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) struct Shared {
    pub(crate) id: PoolId,
    kernel: Mutex<PoolKernel>,
    /// Notified when a job or a worker of a closed pool ends.
    ending: Signal,
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
        Arc::new(Self { id: PoolId::next(), kernel, ending: Signal::default(), limits, name, runtime })
    }

    /// Reads or changes the state under its lock, and calls the wakers that the change concerns
    /// once the lock is free.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut PoolKernel, &mut Wakes<Waker>) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = change(&mut self.kernel.lock().unwrap_or_else(PoisonError::into_inner), &mut wakes);
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Returns whether the caller is a job of this pool. Such a caller keeps a worker busy while it
    /// waits, so that the awaited job may never get one.
    pub(crate) fn runs_caller(&self) -> bool {
        JobContext::current().is_some_and(|context| context.pool == self.id)
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
        self.ending.tell();
    }

    /// Waits until the condition is true; checks it again whenever a job or a worker ends.
    pub(crate) async fn until(&self, condition: impl Fn(&PoolKernel) -> bool) {
        let holds = move || self.with(|kernel, _| condition(kernel)).then_some(());
        self.ending.until(holds).await;
    }
}
