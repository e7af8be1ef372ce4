//! Mutexes: uncontended, going from task to task, and contended.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Better, Column, Unit, counted};
use stanchion_bench::load::idle::{Idle, IdleCommand};
use stanchion_bench::load::{self, idle};
use stanchion_bench::lock::Lock;
use stanchion_bench::measure::{Measure, Role};
use stanchion_bench::raw::memory::{Keyed, KeyedMutex};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{MutexOptions, WaitGroupOptions};
use tokio::runtime::Runtime;

use crate::peers::{AsyncLock, Ours, Pool, Pooled, Tokio};
use crate::{Runtimes, keep, name, store};

const OURS: &str = "stanchion";
const BY_HAND: &str = "DashMap of tokio mutexes, with clean-up";
const TOKIO: &str = "tokio::sync::Mutex";
const ASYNC_LOCK: &str = "async_lock::Mutex";
const LOCKABLE: &str = "lockable::LockPool";

const ROUNDS: usize = 31;
const SLICE: Duration = Duration::from_millis(100);
/// Number of pairs between two readings of the clock.
const BATCH: usize = 64;
const WAITERS: usize = 5000;

/// One name on each side.
struct Sides {
    ours: Vec<Ours>,
    by_hand: Vec<Keyed>,
    tokio: Vec<Tokio>,
    async_lock: Vec<AsyncLock>,
    lockable: Vec<Pooled>,
}

impl Sides {
    fn new(names: usize) -> Result<Self, Failure> {
        let store = store();
        let (map, pool) = (keep(KeyedMutex::default()), keep(Pool::new()));
        let keys: Vec<_> = (0..names).map(name).collect();
        let ours = keys.iter().map(|key| Ok(Ours(store.mutex(key, MutexOptions::default())?)));
        Ok(Self {
            ours: ours.collect::<Result<_, Failure>>()?,
            by_hand: keys.iter().map(|key| Keyed { map, key }).collect(),
            tokio: keys.iter().map(|_| Tokio(keep(tokio::sync::Mutex::new(())))).collect(),
            async_lock: keys.iter().map(|_| AsyncLock(keep(async_lock::Mutex::new(())))).collect(),
            lockable: keys.iter().map(|key| Pooled { pool, key }).collect(),
        })
    }
}

/// Adds the same load for every side of a measure.
macro_rules! on_all_sides {
    ($measure:expr, $sides:expr, $locks:ident => $load:expr) => {
        $measure
            .side(OURS, Role::Ours, || {
                let $locks = &$sides.ours;
                $load
            })
            .side(BY_HAND, Role::Raw, || {
                let $locks = &$sides.by_hand;
                $load
            })
            .side(TOKIO, Role::Peer, || {
                let $locks = &$sides.tokio;
                $load
            })
            .side(ASYNC_LOCK, Role::Peer, || {
                let $locks = &$sides.async_lock;
                $load
            })
            .side(LOCKABLE, Role::Peer, || {
                let $locks = &$sides.lockable;
                $load
            })
    };
}

pub(crate) fn uncontended(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    for tasks in [1, 16, 256] {
        let runtime = if tasks == 1 { &runtimes.one } else { &runtimes.two };
        let sides = Sides::new(tasks)?;
        let measure = Measure::new(
            &format!("mutex-{tasks}"),
            &format!("Mutex, nobody else wants it, {}", counted(tasks, "task")),
            "A lock and a drop, through `Arc<dyn Mutex>` with the name opened once; each task has a name of its own. \
             Tokio's and async-lock's mutexes have no names. Times are means of 64 pairs.",
            load::Pace::columns("pairs"),
        );
        let measure = on_all_sides!(measure, sides, locks => {
            let pairs = runtime.block_on(load::uncontended(locks, slice, BATCH))?;
            Ok(pairs.figures())
        });
        let target = Target::new(OURS, Against::Raw, Bound::AtLeast(1.0));
        bench.run(if tasks == 1 { measure.target(target) } else { measure }, ROUNDS);
    }
    Ok(())
}

pub(crate) fn rotation(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    let sides = Sides::new(1)?;
    for (threads, runtime) in [(1, &runtimes.one), (2, &runtimes.two)] {
        let measure = Measure::new(
            &format!("hand-off-{threads}"),
            &format!("Mutex, hand-off among 64 tasks on {}", counted(threads, "thread")),
            "Each task holds the one mutex over one turn of the others, so that all of them queue.",
            vec![Column::rate("hand-offs a second")],
        );
        let measure = on_all_sides!(measure, sides, locks => {
            Ok(vec![runtime.block_on(load::rotation(&locks[0], 64, slice))?])
        });
        let target = Target::new(OURS, Against::Side(TOKIO.to_owned()), Bound::AtLeast(1.0));
        bench.run(measure.target(target), ROUNDS);
    }
    Ok(())
}

/// Measures what the contract bounds for every store.
pub(crate) fn hand_off(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let store = store();
    let lock = store.mutex("passed", MutexOptions::default())?;
    let (pair, group) = ([Arc::clone(&lock), lock], store.wait_group("ended", WaitGroupOptions::default())?);
    let measure = Measure::new(
        "hand-off",
        "Mutex, hand-off from one task to another",
        "From the start of the release by one task to the grant to another, which has stood in line for 5 ms.",
        load::HandOff::columns(),
    )
    .side(OURS, Role::Ours, || Ok(runtimes.two.block_on(load::hand_off(&pair, slice))?.figures()));
    bench.run(load::HandOff::targets(OURS).into_iter().fold(measure, Measure::target), 9);
    let groups = [Arc::clone(&group), group];
    let measure = Measure::new("zero", load::ZERO, load::AT_ZERO, load::HandOff::columns())
        .side(OURS, Role::Ours, || Ok(runtimes.two.block_on(load::at_zero(&groups, slice))?.figures()))
        .target(load::HandOff::target_at_zero(OURS));
    bench.run(measure, 9);
    Ok(())
}

pub(crate) fn contended(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    for (waiters, hold) in [(16, Duration::from_millis(2)), (256, Duration::ZERO)] {
        let slice = bench.slice(Duration::from_millis(500));
        let sides = Sides::new(1)?;
        let measure = Measure::new(
            &format!("contended-{waiters}"),
            &format!("Mutex, {waiters} waiters that hold it for {hold:?}"),
            &format!("{} All on one thread.", load::Contended::ABOUT),
            load::Contended::columns(),
        );
        let measure = on_all_sides!(measure, sides, locks => {
            let seen = runtimes.one.block_on(load::contended(&locks[0], waiters, hold, slice))?;
            Ok(seen.figures())
        });
        let target =
            Target::new(OURS, Against::Nothing, Bound::AtMost(0.0)).column(load::Contended::OVERTOOK);
        bench.run(measure.target(target), 9);
    }
    Ok(())
}

pub(crate) fn waiters(bench: &mut Bench) -> Result<(), Failure> {
    let count = bench.count(WAITERS);
    let mut measure = Measure::new(
        "waiters",
        &format!("Mutex, {count} waiters"),
        "What one of them takes of the memory of a process in which all of them wait for the same mutex, their tasks \
         included.",
        vec![Column::new("memory of a waiter", Unit::Bytes, Better::Less)],
    );
    for (side, role) in [
        (OURS, Role::Ours),
        (BY_HAND, Role::Raw),
        (TOKIO, Role::Peer),
        (ASYNC_LOCK, Role::Peer),
        (LOCKABLE, Role::Peer),
    ] {
        let command = IdleCommand { side: side.to_owned(), count, url: "none".to_owned() };
        measure = measure.side(side, role, move || Ok(vec![Idle::start(&command)?.memory]));
    }
    bench.run(measure, 3);
    Ok(())
}

/// Runs in the process of the waiters.
pub(crate) fn idle(runtimes: &Runtimes, command: &IdleCommand) -> Result<(), Failure> {
    let sides = Sides::new(1)?;
    match command.side.as_str() {
        OURS => wait(&runtimes.two, &sides.ours[0], command.count),
        BY_HAND => wait(&runtimes.two, &sides.by_hand[0], command.count),
        TOKIO => wait(&runtimes.two, &sides.tokio[0], command.count),
        ASYNC_LOCK => wait(&runtimes.two, &sides.async_lock[0], command.count),
        LOCKABLE => wait(&runtimes.two, &sides.lockable[0], command.count),
        other => Err(format!("no side is called {other}").into()),
    }
}

fn wait<L: Lock>(runtime: &Runtime, lock: &L, count: usize) -> Result<(), Failure> {
    runtime.block_on(async {
        let held = lock.lock().await?;
        idle::wait(lock, count, Duration::from_millis(300)).await?;
        lock.release(held).await
    })
}
