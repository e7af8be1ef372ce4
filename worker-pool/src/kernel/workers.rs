//! The workers, each in a slot of its own.

use std::sync::Arc;

use super::{Stop, StopFlag};

/// The current activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It was woken or started, and will ask the kernel for work by itself.
    Awake,
    Idle,
    /// It waits for a permit from the store, or for the rate limiter.
    Seeking,
    Running {
        id: u64,
        stoppable: bool,
    },
}

#[derive(Debug)]
struct WorkerSlot<W> {
    doing: Doing,
    waker: Option<W>,
    stop: Arc<StopFlag>,
}

/// All workers. A worker's number is used again once the worker has left.
#[derive(Debug)]
pub(crate) struct Workers<W> {
    slots: Vec<Option<WorkerSlot<W>>>,
    /// Numbers of the idle workers. The last to become idle is woken first, because its memory is
    /// warm.
    idle: Vec<usize>,
    /// Numbers of the empty slots.
    free: Vec<usize>,
    seeking: usize,
    running: usize,
}

impl<W: Clone> Workers<W> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), idle: Vec::new(), free: Vec::new(), seeking: 0, running: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn seeking(&self) -> usize {
        self.seeking
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn add(&mut self) -> (usize, Arc<StopFlag>) {
        let stop = Arc::<StopFlag>::default();
        let slot = Some(WorkerSlot { doing: Doing::Awake, waker: None, stop: Arc::clone(&stop) });
        if let Some(index) = self.free.pop() {
            self.slots[index] = slot;
            return (index, stop);
        }
        self.slots.push(slot);
        (self.slots.len() - 1, stop)
    }

    /// Removes a worker, and returns the job that it was running.
    pub(crate) fn remove(&mut self, worker: usize) -> Option<u64> {
        let was_running = self.set_awake(worker);
        if self.slots.get_mut(worker).and_then(Option::take).is_some() {
            self.free.push(worker);
        }
        was_running
    }

    pub(crate) fn register(&mut self, worker: usize, waker: W) {
        if let Some(slot) = self.slots.get_mut(worker).and_then(Option::as_mut) {
            slot.waker = Some(waker);
        }
    }

    /// Marks a worker as free to ask for work by itself, and returns the job that it was running.
    pub(crate) fn set_awake(&mut self, worker: usize) -> Option<u64> {
        match self.change(worker, Doing::Awake) {
            Some(Doing::Running { id, .. }) => Some(id),
            _ => None,
        }
    }

    pub(crate) fn set_idle(&mut self, worker: usize) {
        self.change(worker, Doing::Idle);
    }

    pub(crate) fn set_seeking(&mut self, worker: usize) {
        self.change(worker, Doing::Seeking);
    }

    pub(crate) fn is_seeking(&self, worker: usize) -> bool {
        self.get(worker).is_some_and(|slot| slot.doing == Doing::Seeking)
    }

    pub(crate) fn set_running(&mut self, worker: usize, id: u64, stoppable: bool) {
        self.change(worker, Doing::Running { id, stoppable });
    }

    /// Marks one idle worker as awake, if there is one, and returns its waker.
    pub(crate) fn wake_idle(&mut self) -> Option<W> {
        let worker = self.idle.pop()?;
        let slot = self.slots.get_mut(worker).and_then(Option::as_mut)?;
        slot.doing = Doing::Awake;
        slot.waker.clone()
    }

    /// Returns the waker of the seeking worker with the highest number.
    pub(crate) fn last_seeker(&self) -> Option<W> {
        let seeker = self.slots.iter().rev().flatten().find(|slot| slot.doing == Doing::Seeking)?;
        seeker.waker.clone()
    }

    pub(crate) fn seekers(&self) -> impl Iterator<Item = W> {
        let seekers = self.slots.iter().flatten().filter(|slot| slot.doing == Doing::Seeking);
        seekers.filter_map(|slot| slot.waker.clone())
    }

    /// Lets the worker of this job stop it, and returns its waker.
    pub(crate) fn stop(&self, id: u64) -> Option<W> {
        let runs =
            |slot: &&WorkerSlot<W>| matches!(slot.doing, Doing::Running { id: running, .. } if running == id);
        let slot = self.slots.iter().flatten().find(runs)?;
        slot.stop.set(Stop::Cancel);
        slot.waker.clone()
    }

    /// Stops every job that can be stopped. Shutdown reports the other jobs as still running.
    pub(crate) fn abort(&self) -> impl Iterator<Item = W> {
        let stoppable = |slot: &&WorkerSlot<W>| matches!(slot.doing, Doing::Running { stoppable: true, .. });
        self.slots.iter().flatten().filter(stoppable).filter_map(|slot| {
            slot.stop.set(Stop::Abort);
            slot.waker.clone()
        })
    }

    /// Lists the running jobs, each with whether it can be stopped.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u64, bool)> {
        self.slots.iter().flatten().filter_map(|slot| match slot.doing {
            Doing::Running { id, stoppable } => Some((id, stoppable)),
            _ => None,
        })
    }

    fn get(&self, worker: usize) -> Option<&WorkerSlot<W>> {
        self.slots.get(worker).and_then(Option::as_ref)
    }

    /// Sets a worker's activity, and returns its activity before.
    fn change(&mut self, index: usize, doing: Doing) -> Option<Doing> {
        let slot = self.slots.get_mut(index).and_then(Option::as_mut)?;
        let before = std::mem::replace(&mut slot.doing, doing);
        match before {
            Doing::Awake => {}
            Doing::Idle => self.idle.retain(|idle| *idle != index),
            Doing::Seeking => self.seeking -= 1,
            Doing::Running { .. } => {
                slot.stop.clear();
                self.running -= 1;
            }
        }
        match doing {
            Doing::Awake => {}
            Doing::Idle => self.idle.push(index),
            Doing::Seeking => self.seeking += 1,
            Doing::Running { .. } => self.running += 1,
        }
        Some(before)
    }
}
