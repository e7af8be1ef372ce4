//! What the pool's handles, its jobs' handles and its workers share.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::JobError;
use crate::cell::Run;
use crate::gate::Gate;
use crate::kernel::{Kernel, StopFlag, Wakes};
use crate::worker::{Worker, end};

pub(crate) type Queued = Arc<dyn Run>;
pub(crate) type PoolKernel = Kernel<Queued, Waker>;

pub(crate) struct Shared {
    kernel: Mutex<PoolKernel>,
    /// Told when a job or a worker ends in a pool that takes no more.
    ending: Notify,
    pub(crate) gate: Option<Gate>,
    pub(crate) name: String,
    runtime: Handle,
}

impl Shared {
    pub(crate) fn new(name: String, queue: usize, gate: Option<Gate>, runtime: Handle) -> Arc<Self> {
        let kernel = Mutex::new(Kernel::new(queue));
        Arc::new(Self { kernel, ending: Notify::new(), gate, name, runtime })
    }

    /// Looks at the state or changes it, and wakes whom that concerns once the lock is free.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut PoolKernel, &mut Wakes<Waker>) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = change(&mut self.kernel.lock().unwrap_or_else(PoisonError::into_inner), &mut wakes);
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Starts the workers of seats that were just made.
    pub(crate) fn start(self: &Arc<Self>, seats: Vec<(usize, Arc<StopFlag>)>) {
        for (seat, stop) in seats {
            let worker = Worker::new(Arc::clone(self), seat, stop);
            drop(self.runtime.spawn(worker.work()));
        }
    }

    /// Cancels jobs, whether they wait or run.
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

    /// Lets those who wait for the pool's end look again.
    pub(crate) fn tell_if_ending(&self) {
        self.ending.notify_waiters();
    }

    /// Waits until something that ends makes the condition true.
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
