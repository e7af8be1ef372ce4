//! The pool's plain state: no task, no clock, no lock of its own.
//!
//! `J` is a queued job and `W` a waker. A change puts every waker that it concerns into [`Wakes`];
//! the caller calls them once its lock is free.

mod counts;
mod queue;
mod stop;
mod submitters;
mod wakes;
mod workers;

use std::sync::Arc;

pub(crate) use counts::{Counts, End};
use queue::Queue;
pub(crate) use stop::{Stop, StopFlag};
pub(crate) use submitters::SubmitterState;
use submitters::Submitters;
pub(crate) use wakes::Wakes;
use workers::Workers;

/// Whether the pool takes new jobs, and whether it begins the queued ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    /// Takes no new job, begins every queued one.
    Draining,
    /// Takes no new job and begins none.
    Closed,
}

/// Why a job is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Full,
    Closed,
}

/// The next step of a free worker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    Go(T),
    Wait,
    Leave,
}

#[derive(Debug)]
pub(crate) struct Kernel<J, W> {
    mode: Mode,
    paused: bool,
    capacity: usize,
    wanted: usize,
    queue: Queue<J>,
    submitters: Submitters<W>,
    workers: Workers<W>,
    /// Aborted jobs not reported yet. At most one for each worker, which leaves after that.
    aborted: Vec<u64>,
    pub(crate) counts: Counts,
}

impl<J, W: Clone> Kernel<J, W> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            mode: Mode::Open,
            paused: false,
            capacity,
            wanted: 0,
            queue: Queue::new(),
            submitters: Submitters::new(),
            workers: Workers::new(),
            aborted: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.count()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.live()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.submitters.waiting()
    }

    pub(crate) fn seeking(&self) -> usize {
        self.workers.seeking()
    }

    pub(crate) fn running(&self) -> usize {
        self.workers.running()
    }

    /// Lists the running jobs, each with whether it can be stopped.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u64, bool)> {
        self.workers.jobs()
    }

    /// Checks that a job can be [pushed](Self::push) now, without waiting.
    pub(crate) fn admit(&self) -> Result<(), NoRoom> {
        match self.mode {
            Mode::Open if self.has_room() && self.submitters.waiting() == 0 => Ok(()),
            Mode::Open => Err(NoRoom::Full),
            Mode::Draining | Mode::Closed => Err(NoRoom::Closed),
        }
    }

    /// Queues a job that was admitted.
    pub(crate) fn push(&mut self, job: J, wakes: &mut Wakes<W>) -> u64 {
        self.counts.submitted += 1;
        let id = self.queue.push(job);
        if !self.paused {
            self.wake_idle(wakes);
        }
        id
    }

    /// Adds a submitter that waits for room, behind all others, and returns its number.
    pub(crate) fn add_submitter(&mut self, waker: W) -> u64 {
        self.submitters.add(waker)
    }

    /// Returns the state of a submitter. After `Admitted` the job must be pushed under the same
    /// lock.
    pub(crate) fn poll_submitter(&mut self, submitter: u64, waker: W) -> SubmitterState {
        self.submitters.poll(submitter, waker)
    }

    /// Removes a submitter that stopped waiting. A place promised to it goes to the next one.
    pub(crate) fn remove_submitter(&mut self, submitter: u64, wakes: &mut Wakes<W>) {
        if self.submitters.remove(submitter) {
            self.promise(wakes);
        }
    }

    /// Sets the number of workers, and returns the workers that the caller has to start.
    pub(crate) fn resize(&mut self, wanted: usize, wakes: &mut Wakes<W>) -> Vec<(usize, Arc<StopFlag>)> {
        self.wanted = wanted;
        if self.workers.count() > wanted {
            self.wake_free(wakes);
        }
        (self.workers.count()..wanted).map(|_| self.workers.add()).collect()
    }

    /// Stores the waker of a worker; it is used from here on.
    pub(crate) fn register(&mut self, worker: usize, waker: W) {
        self.workers.register(worker, waker);
    }

    /// Takes the next job, for a worker that may begin it at once.
    pub(crate) fn take(
        &mut self,
        worker: usize,
        stoppable: impl FnOnce(&J) -> bool,
        wakes: &mut Wakes<W>,
    ) -> Next<(u64, J)> {
        self.workers.set_awake(worker);
        if self.leaves(worker, wakes) {
            return Next::Leave;
        }
        let next = if self.paused { None } else { self.queue.pop() };
        let Some((id, job)) = next else {
            self.workers.set_idle(worker);
            return Next::Wait;
        };
        self.workers.set_running(worker, id, stoppable(&job));
        self.promise(wakes);
        self.dismiss_if_drained(wakes);
        Next::Go((id, job))
    }

    /// Decides whether the worker asks the store on behalf of a job. Never more workers ask than
    /// jobs wait.
    pub(crate) fn seek(&mut self, worker: usize, wakes: &mut Wakes<W>) -> Next<()> {
        self.workers.set_awake(worker);
        if self.leaves(worker, wakes) {
            return Next::Leave;
        }
        if self.paused || self.queue.live() <= self.workers.seeking() {
            self.workers.set_idle(worker);
            return Next::Wait;
        }
        self.workers.set_seeking(worker);
        Next::Go(())
    }

    /// Decides whether the worker goes on asking; if not, it is free again. If still too many
    /// workers ask, it wakes the next one.
    pub(crate) fn keeps_seeking(&mut self, worker: usize, wakes: &mut Wakes<W>) -> bool {
        let keeps = self.workers.is_seeking(worker)
            && !self.paused
            && !self.must_leave()
            && self.queue.live() >= self.workers.seeking();
        if !keeps {
            self.workers.set_awake(worker);
            self.wake_if_too_many_seek(wakes);
        }
        keeps
    }

    fn wake_if_too_many_seek(&mut self, wakes: &mut Wakes<W>) {
        if self.queue.live() < self.workers.seeking() {
            self.workers.last_seeker().into_iter().for_each(|waker| wakes.push(waker));
        }
    }

    /// Counts the end of the worker's job, and clears its stop flag.
    pub(crate) fn finish(&mut self, worker: usize, end: End) {
        self.counts.add(end);
        let job = self.workers.set_awake(worker);
        if end == End::Aborted {
            self.aborted.extend(job);
        }
    }

    /// Takes a job that has not begun out of the queue, and counts it as cancelled.
    pub(crate) fn withdraw(&mut self, id: u64, wakes: &mut Wakes<W>) -> Option<J> {
        let job = self.queue.withdraw(id)?;
        self.counts.add(End::Cancelled);
        self.wake_if_too_many_seek(wakes);
        self.promise(wakes);
        self.dismiss_if_drained(wakes);
        Some(job)
    }

    /// Stops a running job.
    pub(crate) fn stop(&mut self, id: u64, wakes: &mut Wakes<W>) {
        self.workers.stop(id).into_iter().for_each(|waker| wakes.push(waker));
    }

    /// Stops every running job that can be stopped.
    pub(crate) fn abort(&mut self, wakes: &mut Wakes<W>) {
        self.workers.abort().for_each(|waker| wakes.push(waker));
    }

    pub(crate) fn pause(&mut self, wakes: &mut Wakes<W>) {
        self.paused = true;
        self.workers.seekers().for_each(|waker| wakes.push(waker));
    }

    pub(crate) fn resume(&mut self, wakes: &mut Wakes<W>) {
        self.paused = false;
        self.wake_free(wakes);
    }

    /// Takes no more jobs and begins every queued one, also if the pool was paused.
    pub(crate) fn drain(&mut self, wakes: &mut Wakes<W>) {
        if self.mode == Mode::Open {
            self.mode = Mode::Draining;
        }
        self.paused = false;
        self.refuse_all(wakes);
    }

    /// Takes no more jobs and begins none.
    pub(crate) fn close(&mut self, wakes: &mut Wakes<W>) {
        self.mode = Mode::Closed;
        self.refuse_all(wakes);
    }

    /// Returns whether the pool takes no more jobs.
    pub(crate) fn is_ending(&self) -> bool {
        self.mode != Mode::Open
    }

    /// Returns whether no job runs and none will.
    pub(crate) fn is_quiet(&self) -> bool {
        self.workers.running() == 0
            && match self.mode {
                Mode::Open => false,
                Mode::Draining => self.queue.live() == 0,
                Mode::Closed => true,
            }
    }

    /// Takes the jobs that a closed pool never began.
    pub(crate) fn take_unrun(&mut self) -> Vec<(u64, J)> {
        let unrun = if self.mode == Mode::Closed { self.queue.take_all() } else { Vec::new() };
        self.counts.not_run += unrun.len() as u64;
        unrun
    }

    /// Takes the aborted jobs that were not reported yet.
    pub(crate) fn take_aborted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.aborted)
    }

    /// Removes a worker that is gone; a worker is gone once it was sent away. The job that it was
    /// running is counted as aborted. If a pool with jobs loses its last worker, the runtime has
    /// ended, and the pool is closed.
    pub(crate) fn remove_worker(&mut self, worker: usize, wakes: &mut Wakes<W>) {
        if let Some(job) = self.workers.remove(worker) {
            self.counts.add(End::Aborted);
            self.aborted.push(job);
        }
        if self.workers.count() == 0 && self.mode != Mode::Closed && !self.is_quiet() {
            self.close(wakes);
        }
        // The wake-up for a queued job may have gone to this worker.
        if !self.paused && self.queue.live() > self.workers.seeking() {
            self.wake_idle(wakes);
        }
    }

    fn has_room(&self) -> bool {
        self.queue.live() + self.submitters.promised() < self.capacity
    }

    fn promise(&mut self, wakes: &mut Wakes<W>) {
        while self.has_room() {
            let Some(waker) = self.submitters.promise() else { break };
            wakes.push(waker);
        }
    }

    fn must_leave(&self) -> bool {
        let over = match self.mode {
            Mode::Open => false,
            Mode::Draining => self.queue.live() == 0,
            Mode::Closed => true,
        };
        over || self.workers.count() > self.wanted
    }

    /// Removes the worker in the same step in which it is found to be surplus; returns whether it
    /// was.
    fn leaves(&mut self, worker: usize, wakes: &mut Wakes<W>) -> bool {
        let leaves = self.must_leave();
        if leaves {
            self.remove_worker(worker, wakes);
        }
        leaves
    }

    fn dismiss_if_drained(&mut self, wakes: &mut Wakes<W>) {
        if self.mode == Mode::Draining && self.queue.live() == 0 {
            self.wake_free(wakes);
        }
    }

    fn refuse_all(&mut self, wakes: &mut Wakes<W>) {
        self.submitters.refuse_all().for_each(|waker| wakes.push(waker));
        self.wake_free(wakes);
    }

    fn wake_idle(&mut self, wakes: &mut Wakes<W>) {
        self.workers.wake_idle().into_iter().for_each(|waker| wakes.push(waker));
    }

    /// Wakes all workers without a job, so that each checks again.
    fn wake_free(&mut self, wakes: &mut Wakes<W>) {
        while let Some(waker) = self.workers.wake_idle() {
            wakes.push(waker);
        }
        self.workers.seekers().for_each(|waker| wakes.push(waker));
    }
}
