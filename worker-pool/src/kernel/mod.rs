//! The pool's plain state: no task, no clock, no lock of its own.
//!
//! `J` is a queued job and `W` what wakes somebody. Everything that has to be woken by a change is put into [`Wakes`],
//! for the caller to wake once its lock is free.

mod counts;
mod queue;
mod seats;
mod stop;
mod turns;
mod wakes;

use std::sync::Arc;

pub(crate) use counts::{Counts, End};
use queue::Queue;
use seats::Seats;
pub(crate) use stop::{Stop, StopFlag};
pub(crate) use turns::TurnState;
use turns::Turns;
pub(crate) use wakes::Wakes;

/// Whether the pool takes jobs, and whether it begins those it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    /// Takes none, begins all it has.
    Draining,
    /// Takes none and begins none.
    Closed,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    Full,
    Closed,
}

/// What a free worker does next.
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
    turns: Turns<W>,
    seats: Seats<W>,
    /// At most one for each worker: it leaves after that.
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
            turns: Turns::new(),
            seats: Seats::new(),
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
        self.seats.taken()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.live()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    pub(crate) fn seeking(&self) -> usize {
        self.seats.seeking()
    }

    pub(crate) fn running(&self) -> usize {
        self.seats.running()
    }

    /// The jobs that run, each with whether it can be stopped.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u64, bool)> {
        self.seats.jobs()
    }

    /// Whether a job can be [pushed](Self::push) now, without waiting.
    pub(crate) fn admit(&self) -> Result<(), NoPlace> {
        match self.mode {
            Mode::Open if self.has_room() && self.turns.waiting() == 0 => Ok(()),
            Mode::Open => Err(NoPlace::Full),
            Mode::Draining | Mode::Closed => Err(NoPlace::Closed),
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

    /// Waits for room, behind all who wait already.
    pub(crate) fn line_up(&mut self, waker: W) -> u64 {
        self.turns.line_up(waker)
    }

    /// Whether the turn has come. After `Admitted` the job must be pushed under the same lock.
    pub(crate) fn look(&mut self, turn: u64, waker: W) -> TurnState {
        self.turns.look(turn, waker)
    }

    /// Ends the wait of one who went away. A place promised to it goes to the next.
    pub(crate) fn forget(&mut self, turn: u64, wakes: &mut Wakes<W>) {
        if self.turns.forget(turn) {
            self.promise(wakes);
        }
    }

    /// Asks for so many workers; gives the seats of those that have to be started now.
    pub(crate) fn resize(&mut self, wanted: usize, wakes: &mut Wakes<W>) -> Vec<(usize, Arc<StopFlag>)> {
        self.wanted = wanted;
        if self.seats.taken() > wanted {
            self.wake_free(wakes);
        }
        (self.seats.taken()..wanted).map(|_| self.seats.add()).collect()
    }

    /// How the worker of that seat is woken. It holds from here on.
    pub(crate) fn register(&mut self, seat: usize, waker: W) {
        self.seats.register(seat, waker);
    }

    /// The next job, for a worker that may begin it at once.
    pub(crate) fn take(
        &mut self,
        seat: usize,
        stoppable: impl FnOnce(&J) -> bool,
        wakes: &mut Wakes<W>,
    ) -> Next<(u64, J)> {
        self.seats.rise(seat);
        if self.leaves(seat, wakes) {
            return Next::Leave;
        }
        let next = if self.paused { None } else { self.queue.pop() };
        let Some((id, job)) = next else {
            self.seats.rest(seat);
            return Next::Wait;
        };
        self.seats.run(seat, id, stoppable(&job));
        self.promise(wakes);
        self.dismiss_if_drained(wakes);
        Next::Go((id, job))
    }

    /// Whether the worker should ask the store on behalf of a job: never more of them than jobs wait.
    pub(crate) fn seek(&mut self, seat: usize, wakes: &mut Wakes<W>) -> Next<()> {
        self.seats.rise(seat);
        if self.leaves(seat, wakes) {
            return Next::Leave;
        }
        if self.paused || self.queue.live() <= self.seats.seeking() {
            self.seats.rest(seat);
            return Next::Wait;
        }
        self.seats.seek(seat);
        Next::Go(())
    }

    /// Whether the worker should go on asking; if not it is free again. Of several who are too many each wakes the next.
    pub(crate) fn keeps_seeking(&mut self, seat: usize, wakes: &mut Wakes<W>) -> bool {
        let keeps = self.seats.is_seeking(seat)
            && !self.paused
            && !self.must_leave()
            && self.queue.live() >= self.seats.seeking();
        if !keeps {
            self.seats.rise(seat);
            self.wake_if_too_many_seek(wakes);
        }
        keeps
    }

    fn wake_if_too_many_seek(&mut self, wakes: &mut Wakes<W>) {
        if self.queue.live() < self.seats.seeking() {
            self.seats.last_seeker().into_iter().for_each(|waker| wakes.push(waker));
        }
    }

    /// The worker's job has ended; its stop flag is clear again.
    pub(crate) fn finish(&mut self, seat: usize, end: End) {
        self.counts.add(end);
        let job = self.seats.rise(seat);
        if end == End::Aborted {
            self.aborted.extend(job);
        }
    }

    /// Takes a job that has not begun out of the queue; it is counted as cancelled.
    pub(crate) fn withdraw(&mut self, id: u64, wakes: &mut Wakes<W>) -> Option<J> {
        let job = self.queue.withdraw(id)?;
        self.counts.add(End::Cancelled);
        self.wake_if_too_many_seek(wakes);
        self.promise(wakes);
        self.dismiss_if_drained(wakes);
        Some(job)
    }

    /// Tells a job that runs to stop.
    pub(crate) fn stop(&mut self, id: u64, wakes: &mut Wakes<W>) {
        self.seats.stop(id).into_iter().for_each(|waker| wakes.push(waker));
    }

    /// Tells every job that runs to stop, if it can be stopped.
    pub(crate) fn abort(&mut self, wakes: &mut Wakes<W>) {
        self.seats.abort().for_each(|waker| wakes.push(waker));
    }

    pub(crate) fn pause(&mut self, wakes: &mut Wakes<W>) {
        self.paused = true;
        self.seats.seekers().for_each(|waker| wakes.push(waker));
    }

    pub(crate) fn resume(&mut self, wakes: &mut Wakes<W>) {
        self.paused = false;
        self.wake_free(wakes);
    }

    /// Takes no more jobs and begins all it has, also if it was paused.
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

    /// Whether it takes no more jobs.
    pub(crate) fn is_ending(&self) -> bool {
        self.mode != Mode::Open
    }

    /// Whether nothing runs and nothing will.
    pub(crate) fn is_quiet(&self) -> bool {
        self.seats.running() == 0
            && match self.mode {
                Mode::Open => false,
                Mode::Draining => self.queue.live() == 0,
                Mode::Closed => true,
            }
    }

    /// The jobs that a closed pool never began.
    pub(crate) fn take_unrun(&mut self) -> Vec<(u64, J)> {
        let unrun = if self.mode == Mode::Closed { self.queue.take_all() } else { Vec::new() };
        self.counts.not_run += unrun.len() as u64;
        unrun
    }

    /// The jobs that were aborted and not told of yet.
    pub(crate) fn take_aborted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.aborted)
    }

    /// The worker of that seat is gone, which it is once it was told to leave. A job in its hands is counted as aborted; where it was the last that a pool
    /// with jobs had, its runtime has ended, and the pool is closed.
    pub(crate) fn vacate(&mut self, seat: usize, wakes: &mut Wakes<W>) {
        if let Some(job) = self.seats.remove(seat) {
            self.counts.add(End::Aborted);
            self.aborted.push(job);
        }
        if self.seats.taken() == 0 && self.mode != Mode::Closed && !self.is_quiet() {
            self.close(wakes);
        }
        // The wake-up of a job that came may have been this worker's.
        if !self.paused && self.queue.live() > self.seats.seeking() {
            self.wake_idle(wakes);
        }
    }

    fn has_room(&self) -> bool {
        self.queue.live() + self.turns.promised() < self.capacity
    }

    fn promise(&mut self, wakes: &mut Wakes<W>) {
        while self.has_room() {
            let Some(waker) = self.turns.promise() else { break };
            wakes.push(waker);
        }
    }

    fn must_leave(&self) -> bool {
        let over = match self.mode {
            Mode::Open => false,
            Mode::Draining => self.queue.live() == 0,
            Mode::Closed => true,
        };
        over || self.seats.taken() > self.wanted
    }

    /// Empties the seat in the same step as it is found to be one too many.
    fn leaves(&mut self, seat: usize, wakes: &mut Wakes<W>) -> bool {
        let leaves = self.must_leave();
        if leaves {
            self.vacate(seat, wakes);
        }
        leaves
    }

    fn dismiss_if_drained(&mut self, wakes: &mut Wakes<W>) {
        if self.mode == Mode::Draining && self.queue.live() == 0 {
            self.wake_free(wakes);
        }
    }

    fn refuse_all(&mut self, wakes: &mut Wakes<W>) {
        self.turns.refuse_all().for_each(|waker| wakes.push(waker));
        self.wake_free(wakes);
    }

    fn wake_idle(&mut self, wakes: &mut Wakes<W>) {
        self.seats.wake_idle().into_iter().for_each(|waker| wakes.push(waker));
    }

    /// Wakes all workers without a job, so that each looks again.
    fn wake_free(&mut self, wakes: &mut Wakes<W>) {
        while let Some(waker) = self.seats.wake_idle() {
            wakes.push(waker);
        }
        self.seats.seekers().for_each(|waker| wakes.push(waker));
    }
}
