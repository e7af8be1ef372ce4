//! The cost of waiting and of holding.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Better, Column, Unit};
use stanchion_bench::load::idle::{Idle, IdleCommand, hold, wait};
use stanchion_bench::lock::{Lock, Processes};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Mutex, MutexMode};
use tokio::time::sleep;

use crate::fixture::{Done, PostgresFixture};
use crate::locks::{open, provider};
use crate::peers::{DISTRIBUTED_LOCK, DistributedPostgres, LEASE, SESSION, SQLX, Sqlx};

/// Time of watching, and time before it to become quiet: 5,000 waiters are queued after about five
/// seconds.
const WATCHED: Duration = Duration::from_secs(8);
const SETTLE: Duration = Duration::from_secs(8);
/// Time longer than the interval between two renewals.
const RENEWED: Duration = Duration::from_secs(20);
const LEASES: usize = 10_000;
/// Index of the column.
const CONNECTIONS: usize = 1;
/// Prefix of the side name of a process that holds.
const HOLDS: &str = "holds:";

pub(crate) fn waiters(bench: &mut Bench) -> Result<(), Failure> {
    for count in [100, 256, 5000] {
        let watched = bench.slice(WATCHED);
        let mut measure = Measure::new(
            &format!("idle-{count}"),
            &format!("Mutex, {count} idle waiters in one process"),
            &format!(
                "All of them wait for {} that somebody else holds, on a server of their own. What the holder \
                 sends counts too; connections are those of the process that waits. The peers have a connection for \
                 each waiter, so that they are here with 100 only; of `distributed-lock`'s, 90 wait for a connection \
                 of its pool, for 30 s at most.",
                if names_of(count) > 1 { "20 mutexes in turn" } else { "one mutex" }
            ),
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
        for side in [SESSION, LEASE].into_iter().filter(|_| count == 256) {
            measure =
                measure.target(Target::new(side, Against::Nothing, Bound::AtMost(6.0)).column(CONNECTIONS));
        }
        bench.run(measure, 1);
    }
    Ok(())
}

/// How many mutexes so many waiters wait for.
fn names_of(count: usize) -> usize {
    if count == 256 { 20 } else { 1 }
}

/// The mutexes that so many waiters wait for.
fn awaited(fixture: &PostgresFixture, mode: MutexMode, count: usize) -> Result<Vec<Arc<dyn Mutex>>, Failure> {
    let store = fixture.store(mode)?;
    (0..names_of(count)).map(|number| open(&store, &format!("idle-{number}"))).collect()
}

/// Measures one process of waiters, with one server and one holder.
fn waited(side: &str, count: usize, watched: Duration) -> Result<Figures, Failure> {
    let fixture = PostgresFixture::new()?;
    match side {
        SESSION => beside(&fixture, &awaited(&fixture, MutexMode::Session, count)?, side, count, watched),
        LEASE => beside(&fixture, &awaited(&fixture, MutexMode::Lease, count)?, side, count, watched),
        DISTRIBUTED_LOCK => {
            beside(&fixture, &[DistributedPostgres::new(&provider(&fixture)?, "idle")], side, count, watched)
        }
        SQLX => beside(&fixture, &[Sqlx::new(&fixture.pool(1)?, "idle")], side, count, watched),
        other => Err(format!("no side is called {other}").into()),
    }
}

fn beside<L: Lock>(
    fixture: &PostgresFixture,
    locks: &[L],
    side: &str,
    count: usize,
    watched: Duration,
) -> Result<Figures, Failure> {
    let mut held = Vec::with_capacity(locks.len());
    for lock in locks {
        held.push(fixture.runtime.block_on(lock.lock())?);
    }
    let before = fixture.clients()?;
    let idle = Idle::start(&IdleCommand { side: side.to_owned(), count, url: fixture.url().to_owned() })?;
    let connections = fixture.clients()? - before;
    let (done, processor) = watch(fixture, &idle, watched)?;
    let memory = idle.memory;
    drop(idle);
    for (lock, held) in locks.iter().zip(held) {
        fixture.runtime.block_on(lock.release(held))?;
    }
    let seconds = watched.as_secs_f64();
    Ok(vec![done.statements / seconds, connections, memory, processor / seconds])
}

fn watch(fixture: &PostgresFixture, idle: &Idle, watched: Duration) -> Result<(Done, f64), Failure> {
    fixture.runtime.block_on(async {
        let (before, used) = (fixture.done().await?, idle.processor()?);
        sleep(watched).await;
        Ok((fixture.done().await?.since(before), idle.processor()? - used))
    })
}

pub(crate) fn leases(bench: &mut Bench) -> Result<(), Failure> {
    let watched = bench.slice(RENEWED);
    let measure = Measure::new(
        "leases",
        &format!("Mutex, {LEASES} held by one process"),
        "Each with a name of its own and the default time to live, on a server of their own: what the renewals \
         cost. The peers have no leases, and a connection for each lock.",
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
    let fixture = PostgresFixture::new()?;
    let url = fixture.url().to_owned();
    let idle = Idle::start(&IdleCommand { side: format!("{HOLDS}{side}"), count: LEASES, url })?;
    let (done, processor) = watch(&fixture, &idle, watched)?;
    let seconds = watched.as_secs_f64();
    Ok(vec![done.statements / seconds, done.wal / seconds, processor / seconds])
}

/// Runs a process of tasks that wait or hold.
pub(crate) fn child(command: &IdleCommand) -> Result<(), Failure> {
    let fixture = PostgresFixture::beside(&command.url)?;
    match command.side.split_once(HOLDS) {
        None => match command.side.as_str() {
            SESSION => {
                let awaited = awaited(&fixture, MutexMode::Session, command.count)?;
                waiting(&fixture, &Processes::new(awaited), command.count)
            }
            LEASE => {
                let awaited = awaited(&fixture, MutexMode::Lease, command.count)?;
                waiting(&fixture, &Processes::new(awaited), command.count)
            }
            DISTRIBUTED_LOCK => {
                waiting(&fixture, &DistributedPostgres::new(&provider(&fixture)?, "idle"), command.count)
            }
            SQLX => waiting(&fixture, &Sqlx::new(&fixture.pool(command.count)?, "idle"), command.count),
            other => Err(format!("no side is called {other}").into()),
        },
        Some((_, SESSION)) => holding(&fixture, MutexMode::Session, command.count),
        Some((_, LEASE)) => holding(&fixture, MutexMode::Lease, command.count),
        Some((_, other)) => Err(format!("no side that holds is called {other}").into()),
    }
}

fn waiting<L: Lock>(fixture: &PostgresFixture, lock: &L, count: usize) -> Result<(), Failure> {
    fixture.runtime.block_on(wait(lock, count, SETTLE))
}

fn holding(fixture: &PostgresFixture, mode: MutexMode, count: usize) -> Result<(), Failure> {
    let store = fixture.store(mode)?;
    let locks = (0..count).map(|index| open(&store, &format!("lease-{index}"))).collect::<Result<_, _>>()?;
    fixture.runtime.block_on(hold(locks, SETTLE))
}
