//! The workers, each on a seat of its own.

use std::sync::Arc;

use super::{Stop, StopFlag};

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It has been woken or started, and will look by itself.
    Awake,
    Idle,
    /// It asks the store for a permit, or waits for its turn at the rate.
    Seeking,
    Running {
        id: u64,
        stoppable: bool,
    },
}

#[derive(Debug)]
struct Seat<W> {
    doing: Doing,
    waker: Option<W>,
    stop: Arc<StopFlag>,
}

/// All workers. A seat's number is used again once its worker has left.
#[derive(Debug)]
pub(crate) struct Seats<W> {
    seats: Vec<Option<Seat<W>>>,
    /// Numbers of idle seats; the last to become idle is woken first, since its memory is warm.
    idle: Vec<usize>,
    /// Numbers of empty seats.
    free: Vec<usize>,
    seeking: usize,
    running: usize,
}

impl<W: Clone> Seats<W> {
    pub(crate) fn new() -> Self {
        Self { seats: Vec::new(), idle: Vec::new(), free: Vec::new(), seeking: 0, running: 0 }
    }

    pub(crate) fn taken(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    pub(crate) fn seeking(&self) -> usize {
        self.seeking
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn add(&mut self) -> (usize, Arc<StopFlag>) {
        let stop = Arc::<StopFlag>::default();
        let seat = Some(Seat { doing: Doing::Awake, waker: None, stop: Arc::clone(&stop) });
        if let Some(index) = self.free.pop() {
            self.seats[index] = seat;
            return (index, stop);
        }
        self.seats.push(seat);
        (self.seats.len() - 1, stop)
    }

    /// Empties a seat; gives the job that its worker was in the middle of.
    pub(crate) fn remove(&mut self, seat: usize) -> Option<u64> {
        let was_running = self.rise(seat);
        if self.seats.get_mut(seat).and_then(Option::take).is_some() {
            self.free.push(seat);
        }
        was_running
    }

    pub(crate) fn register(&mut self, seat: usize, waker: W) {
        if let Some(seat) = self.seats.get_mut(seat).and_then(Option::as_mut) {
            seat.waker = Some(waker);
        }
    }

    /// The worker is free, and looks by itself; gives the job that it ran.
    pub(crate) fn rise(&mut self, seat: usize) -> Option<u64> {
        match self.change(seat, Doing::Awake) {
            Some(Doing::Running { id, .. }) => Some(id),
            _ => None,
        }
    }

    pub(crate) fn rest(&mut self, seat: usize) {
        self.change(seat, Doing::Idle);
    }

    pub(crate) fn seek(&mut self, seat: usize) {
        self.change(seat, Doing::Seeking);
    }

    pub(crate) fn is_seeking(&self, seat: usize) -> bool {
        self.get(seat).is_some_and(|seat| seat.doing == Doing::Seeking)
    }

    pub(crate) fn run(&mut self, seat: usize, id: u64, stoppable: bool) {
        self.change(seat, Doing::Running { id, stoppable });
    }

    /// Wakes one idle worker, if there is one.
    pub(crate) fn wake_idle(&mut self) -> Option<W> {
        let seat = self.idle.pop()?;
        let seat = self.seats.get_mut(seat).and_then(Option::as_mut)?;
        seat.doing = Doing::Awake;
        seat.waker.clone()
    }

    /// The waker of one that seeks, the last by number.
    pub(crate) fn last_seeker(&self) -> Option<W> {
        let seeker = self.seats.iter().rev().flatten().find(|seat| seat.doing == Doing::Seeking)?;
        seeker.waker.clone()
    }

    pub(crate) fn seekers(&self) -> impl Iterator<Item = W> {
        let seekers = self.seats.iter().flatten().filter(|seat| seat.doing == Doing::Seeking);
        seekers.filter_map(|seat| seat.waker.clone())
    }

    /// Tells the worker that runs this job to stop it.
    pub(crate) fn stop(&self, id: u64) -> Option<W> {
        let runs =
            |seat: &&Seat<W>| matches!(seat.doing, Doing::Running { id: running, .. } if running == id);
        let seat = self.seats.iter().flatten().find(runs)?;
        seat.stop.set(Stop::Cancel);
        seat.waker.clone()
    }

    /// Tells all of them that can be stopped; the others are reported as running on.
    pub(crate) fn abort(&self) -> impl Iterator<Item = W> {
        let stoppable = |seat: &&Seat<W>| matches!(seat.doing, Doing::Running { stoppable: true, .. });
        self.seats.iter().flatten().filter(stoppable).filter_map(|seat| {
            seat.stop.set(Stop::Abort);
            seat.waker.clone()
        })
    }

    /// The jobs that run, each with whether it can be stopped.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u64, bool)> {
        self.seats.iter().flatten().filter_map(|seat| match seat.doing {
            Doing::Running { id, stoppable } => Some((id, stoppable)),
            _ => None,
        })
    }

    fn get(&self, seat: usize) -> Option<&Seat<W>> {
        self.seats.get(seat).and_then(Option::as_ref)
    }

    /// Lets a worker do something else, and tells what it did before.
    fn change(&mut self, index: usize, doing: Doing) -> Option<Doing> {
        let seat = self.seats.get_mut(index).and_then(Option::as_mut)?;
        let before = std::mem::replace(&mut seat.doing, doing);
        match before {
            Doing::Awake => {}
            Doing::Idle => self.idle.retain(|idle| *idle != index),
            Doing::Seeking => self.seeking -= 1,
            Doing::Running { .. } => {
                seat.stop.clear();
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
