//! Mutexes of threads: the blocking face beside `std`, `parking_lot` and a semaphore made of a
//! condition variable.

use std::sync::{Condvar, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load::threads::{ThreadLock, alone, passed_on};
use stanchion_bench::load::{self, Pace};
use stanchion_bench::measure::{Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{MutexOptions, blocking};

use crate::peers::Ours;
use crate::{Runtimes, store};

const OURS: &str = "stanchion, threads";
const TASKS: &str = "stanchion, tasks";
const STD: &str = "std::sync::Mutex";
const PARKING_LOT: &str = "parking_lot::Mutex";
const FAIR: &str = "parking_lot::Mutex, fair unlock";
const CONDVAR: &str = "a semaphore of one by Mutex and Condvar";

const ROUNDS: usize = 31;
const SLICE: Duration = Duration::from_millis(100);
const BATCH: u32 = 64;
const THREADS: usize = 64;

struct Blocking(blocking::Mutex);

impl ThreadLock for Blocking {
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure> {
        let guard = self.0.lock()?;
        work();
        drop(guard);
        Ok(())
    }
}

struct Std(StdMutex<()>);

impl ThreadLock for Std {
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work();
        drop(guard);
        Ok(())
    }
}

struct Unfair(parking_lot::Mutex<()>);

impl ThreadLock for Unfair {
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure> {
        let guard = self.0.lock();
        work();
        drop(guard);
        Ok(())
    }
}

struct Fair(parking_lot::Mutex<()>);

impl ThreadLock for Fair {
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure> {
        let guard = self.0.lock();
        work();
        parking_lot::MutexGuard::unlock_fair(guard);
        Ok(())
    }
}

#[derive(Default)]
struct ByHand {
    is_taken: StdMutex<bool>,
    is_free: Condvar,
}

impl ThreadLock for ByHand {
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure> {
        let taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        *self.is_free.wait_while(taken, |taken| *taken).unwrap_or_else(PoisonError::into_inner) = true;
        work();
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.is_free.notify_one();
        Ok(())
    }
}

pub(crate) fn threads(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let store = store();
    let mutex = store.mutex("threads", MutexOptions::new())?;
    let ours = Blocking(blocking::Mutex::from(std::sync::Arc::clone(&mutex)));
    let tasks = vec![Ours(mutex)];
    let (std, unfair, fair) =
        (Std(StdMutex::new(())), Unfair(parking_lot::Mutex::new(())), Fair(parking_lot::Mutex::new(())));
    let by_hand = ByHand::default();

    let slice = bench.slice(SLICE);
    let measure = Measure::new(
        "threads-1",
        "Mutex of threads, nobody else wants it, 1 thread",
        "A lock and a drop by a thread without a runtime; beside it, the same mutex by a task. Only ours has a name, a ticket and a \
         token. Times are means of 64 pairs.",
        vec![Column::time("mean of a pair")],
    )
    .side(OURS, Role::Ours, || Ok(vec![alone(&ours, slice, BATCH)?]))
    .side(TASKS, Role::Raw, || {
        let pace: Pace = runtimes.one.block_on(load::uncontended(&tasks, slice, 64))?;
        Ok(vec![1.0 / pace.rate])
    })
    .side(STD, Role::Peer, || Ok(vec![alone(&std, slice, BATCH)?]))
    .side(PARKING_LOT, Role::Peer, || Ok(vec![alone(&unfair, slice, BATCH)?]))
    .side(CONDVAR, Role::Peer, || Ok(vec![alone(&by_hand, slice, BATCH)?]));
    bench.run(measure.target(Target::new(OURS, Against::Raw, Bound::AtMost(1.5))), ROUNDS);

    let measure = Measure::new(
        "threads-hand-off",
        "Mutex, hand-off among 64 threads",
        "Each thread holds the one mutex over one turn of the others, so that all of them queue. Ours, and `parking_lot`'s with a fair \
         unlock, go to the thread that has waited longest.",
        vec![Column::rate("hand-offs a second")],
    )
    .side(OURS, Role::Ours, || Ok(vec![passed_on(&ours, THREADS, slice)?]))
    .side(FAIR, Role::Raw, || Ok(vec![passed_on(&fair, THREADS, slice)?]))
    .side(PARKING_LOT, Role::Peer, || Ok(vec![passed_on(&unfair, THREADS, slice)?]))
    .side(STD, Role::Peer, || Ok(vec![passed_on(&std, THREADS, slice)?]))
    .side(CONDVAR, Role::Peer, || Ok(vec![passed_on(&by_hand, THREADS, slice)?]));
    bench.run(measure.target(Target::new(OURS, Against::Raw, Bound::AtLeast(0.9))), ROUNDS);
    Ok(())
}
