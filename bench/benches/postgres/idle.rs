//! What it costs to wait, and to hold.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Better, Column, Unit};
use stanchion_bench::load::idle::{Idle, Orders, hold, wait};
use stanchion_bench::lock::Lock;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::MutexMode;
use tokio::time::sleep;

use crate::bed::{Bed, Done};
use crate::locks::{open, provider};
use crate::peers::{DISTRIBUTED_LOCK, DistributedPostgres, LEASE, SESSION, SQLX, Sqlx};

/// How long they are watched, and how long they have had before to become quiet: 5,000 stand in line after about five
/// seconds.
const WATCHED: Duration = Duration::from_secs(8);
const SETTLE: Duration = Duration::from_secs(8);
/// Longer than the time between two renewals.
const RENEWED: Duration = Duration::from_secs(20);
const LEASES: usize = 10_000;
/// What the side of a process that holds is called.
const HOLDS: &str = "holds:";

pub(crate) fn waiters(bench: &mut Bench) -> Result<(), Failure> {
    for count in [100, 5000] {
        let watched = bench.slice(WATCHED);
        let mut measure = Measure::new(
            &format!("idle-{count}"),
            &format!("Mutex, {count} idle waiters in one process"),
            "All of them wait for one mutex that somebody else holds, on a server of their own. What the holder sends counts \
             too; connections are those of the process that waits. The peers have a connection for each waiter, so that \
             they are here with 100 only; of `distributed-lock`'s, 90 wait for a connection of its pool, for 30 s at most.",
            vec![
                Column::new("statements a second", Unit::PerSecond, Better::Less),
                Column::count("connections"),
                Column::new("memory of a waiter", Unit::Bytes, Better::Less),
                Column::new("processor of the process", Unit::Share, Better::Less),
            ],
        );
        let peers =
            if count == 100 { &[(DISTRIBUTED_LOCK, Role::Peer), (SQLX, Role::Peer)][..] } else { &[] };
        for &(side, role) in [(SESSION, Role::Ours), (LEASE, Role::Ours)].iter().chain(peers) {
            measure = measure.side(side, role, move || waited(side, count, watched));
        }
        bench.run(measure, 1);
    }
    Ok(())
}

/// One server, one holder, one process of waiters.
fn waited(side: &str, count: usize, watched: Duration) -> Result<Figures, Failure> {
    let bed = Bed::new()?;
    match side {
        SESSION => beside(&bed, &open(&bed.store(MutexMode::Session)?, "idle")?, side, count, watched),
        LEASE => beside(&bed, &open(&bed.store(MutexMode::Lease)?, "idle")?, side, count, watched),
        DISTRIBUTED_LOCK => {
            beside(&bed, &DistributedPostgres::new(&provider(&bed)?, "idle"), side, count, watched)
        }
        SQLX => beside(&bed, &Sqlx::new(&bed.pool(1)?, "idle"), side, count, watched),
        other => Err(format!("no side is called {other}").into()),
    }
}

fn beside<L: Lock>(
    bed: &Bed,
    lock: &L,
    side: &str,
    count: usize,
    watched: Duration,
) -> Result<Figures, Failure> {
    let held = bed.runtime.block_on(lock.lock())?;
    let before = bed.clients()?;
    let idle = Idle::start(&Orders { side: side.to_owned(), count, url: bed.url().to_owned() })?;
    let connections = bed.clients()? - before;
    let (done, processor) = watch(bed, &idle, watched)?;
    let memory = idle.memory;
    drop(idle);
    bed.runtime.block_on(lock.release(held))?;
    let seconds = watched.as_secs_f64();
    Ok(vec![done.statements / seconds, connections, memory, processor / seconds])
}

fn watch(bed: &Bed, idle: &Idle, watched: Duration) -> Result<(Done, f64), Failure> {
    bed.runtime.block_on(async {
        let (before, used) = (bed.done().await?, idle.processor()?);
        sleep(watched).await;
        Ok((bed.done().await?.since(before), idle.processor()? - used))
    })
}

pub(crate) fn leases(bench: &mut Bench) -> Result<(), Failure> {
    let watched = bench.slice(RENEWED);
    let measure = Measure::new(
        "leases",
        &format!("Mutex, {LEASES} held by one process"),
        "Each with a name of its own and the default time to live, on a server of their own: what the renewals cost. The \
         peers have no leases, and a connection for each lock.",
        vec![
            Column::new("statements a second", Unit::PerSecond, Better::Less),
            Column::new("bytes of the server's log a second", Unit::Bytes, Better::Less),
            Column::new("processor of the process", Unit::Share, Better::Less),
        ],
    )
    .side(LEASE, Role::Ours, || held(LEASE, watched))
    .side(SESSION, Role::Ours, || held(SESSION, watched))
    .target(Target::new(LEASE, Against::Nothing, Bound::AtMost(5.0)));
    bench.run(measure, 1);
    Ok(())
}

fn held(side: &str, watched: Duration) -> Result<Figures, Failure> {
    let bed = Bed::new()?;
    let url = bed.url().to_owned();
    let idle = Idle::start(&Orders { side: format!("{HOLDS}{side}"), count: LEASES, url })?;
    let (done, processor) = watch(&bed, &idle, watched)?;
    let seconds = watched.as_secs_f64();
    Ok(vec![done.statements / seconds, done.wal / seconds, processor / seconds])
}

/// A process of those that wait or hold.
pub(crate) fn child(orders: &Orders) -> Result<(), Failure> {
    let bed = Bed::beside(&orders.url)?;
    match orders.side.split_once(HOLDS) {
        None => match orders.side.as_str() {
            SESSION => waiting(&bed, &open(&bed.store(MutexMode::Session)?, "idle")?, orders.count),
            LEASE => waiting(&bed, &open(&bed.store(MutexMode::Lease)?, "idle")?, orders.count),
            DISTRIBUTED_LOCK => {
                waiting(&bed, &DistributedPostgres::new(&provider(&bed)?, "idle"), orders.count)
            }
            SQLX => waiting(&bed, &Sqlx::new(&bed.pool(orders.count)?, "idle"), orders.count),
            other => Err(format!("no side is called {other}").into()),
        },
        Some((_, SESSION)) => holding(&bed, MutexMode::Session, orders.count),
        Some((_, LEASE)) => holding(&bed, MutexMode::Lease, orders.count),
        Some((_, other)) => Err(format!("no side that holds is called {other}").into()),
    }
}

fn waiting<L: Lock>(bed: &Bed, lock: &L, count: usize) -> Result<(), Failure> {
    bed.runtime.block_on(wait(lock, count, SETTLE))
}

fn holding(bed: &Bed, mode: MutexMode, count: usize) -> Result<(), Failure> {
    let store = bed.store(mode)?;
    let locks = (0..count).map(|index| open(&store, &format!("lease-{index}"))).collect::<Result<_, _>>()?;
    bed.runtime.block_on(hold(locks, SETTLE))
}
