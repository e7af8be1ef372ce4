//! The cost of waiting and of holding.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Better, Column, Unit};
use stanchion_bench::load::idle::{Idle, IdleCommand, hold, wait};
use stanchion_bench::lock::Lock;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use tokio::time::sleep;

use crate::clients::Clients;
use crate::fixture::{Done, RedisFixture};
use crate::peers::{DISTKIT, DISTRIBUTED_LOCK, OUR_WIRE, OURS, RSLOCK, WIRE};

/// Time of watching, and time before it to become quiet.
const WATCHED: Duration = Duration::from_secs(8);
const SETTLE: Duration = Duration::from_secs(3);
/// Time longer than the interval between two renewals of any side.
const RENEWED: Duration = Duration::from_secs(20);
const LEASES: usize = 10_000;
/// Prefix of the side name of a process that holds.
const HOLDS: &str = "holds:";

pub(crate) fn waiters(bench: &mut Bench) -> Result<(), Failure> {
    for count in [100, 5000] {
        let watched = bench.slice(WATCHED);
        let mut measure = Measure::new(
            &format!("idle-{count}"),
            &format!("Mutex, {count} idle waiters in one process"),
            "All of them wait for one mutex that somebody else holds, on a server of their own. The holder's \
             renewals count too; connections are those of the process that waits.",
            vec![
                Column::new("commands a second", Unit::PerSecond, Better::Less),
                Column::count("connections"),
                Column::new("memory of a waiter", Unit::Bytes, Better::Less),
                Column::new("processor of the process", Unit::Share, Better::Less),
            ],
        );
        for (side, role) in
            [(OURS, Role::Ours), (RSLOCK, Role::Peer), (DISTRIBUTED_LOCK, Role::Peer), (DISTKIT, Role::Peer)]
        {
            measure = measure.side(side, role, move || waited(side, count, watched));
        }
        if count == 5000 {
            measure = measure
                .target(Target::new(OURS, Against::Nothing, Bound::AtMost(20.0)))
                .target(Target::new(OURS, Against::Nothing, Bound::AtMost(3.0)).column(1));
        }
        bench.run(measure, 1);
    }
    Ok(())
}

/// Measures one process of waiters, with one server and one holder.
fn waited(side: &str, count: usize, watched: Duration) -> Result<Figures, Failure> {
    let fixture = RedisFixture::new()?;
    let clients = Clients::new(&fixture);
    match side {
        OURS => beside(&fixture, &clients.ours("idle")?, side, count, watched),
        RSLOCK => beside(&fixture, &clients.rslock("idle")?, side, count, watched),
        DISTRIBUTED_LOCK => beside(&fixture, &clients.distributed("idle")?, side, count, watched),
        DISTKIT => beside(&fixture, &clients.distkit("idle")?, side, count, watched),
        other => Err(format!("no side is called {other}").into()),
    }
}

fn beside<L: Lock>(
    fixture: &RedisFixture,
    lock: &L,
    side: &str,
    count: usize,
    watched: Duration,
) -> Result<Figures, Failure> {
    let held = fixture.runtime.block_on(lock.lock())?;
    let before = fixture.runtime.block_on(fixture.clients())?;
    let idle = Idle::start(&IdleCommand { side: side.to_owned(), count, url: fixture.url().to_owned() })?;
    let connections = fixture.runtime.block_on(fixture.clients())? - before;
    let (done, processor) = watch(fixture, &idle, wire(side), watched)?;
    let memory = idle.memory;
    drop(idle);
    fixture.runtime.block_on(lock.release(held))?;
    let seconds = watched.as_secs_f64();
    Ok(vec![done.commands / seconds, connections, memory, processor / seconds])
}

fn watch(
    fixture: &RedisFixture,
    idle: &Idle,
    wire: &[&str],
    watched: Duration,
) -> Result<(Done, f64), Failure> {
    fixture.runtime.block_on(async {
        let (before, used) = (fixture.done(wire).await?, idle.processor()?);
        sleep(watched).await;
        Ok((fixture.done(wire).await?.since(before), idle.processor()? - used))
    })
}

fn wire(side: &str) -> &'static [&'static str] {
    if side == OURS { OUR_WIRE } else { WIRE }
}

pub(crate) fn leases(bench: &mut Bench) -> Result<(), Failure> {
    let watched = bench.slice(RENEWED);
    let mut measure = Measure::new(
        "leases",
        &format!("Mutex, {LEASES} held by one process"),
        "Each with a name of its own and the default time to live, on a server of their own: what the renewals cost. \
         `rslock` does not renew.",
        vec![
            Column::new("commands a second", Unit::PerSecond, Better::Less),
            Column::new("bytes a second", Unit::Bytes, Better::Less),
            Column::new("processor of the process", Unit::Share, Better::Less),
            Column::new("processor of the server", Unit::Share, Better::Less),
        ],
    );
    for (side, role) in [(OURS, Role::Ours), (DISTRIBUTED_LOCK, Role::Peer), (DISTKIT, Role::Peer)] {
        measure = measure.side(side, role, move || held(side, watched));
    }
    bench.run(measure.target(Target::new(OURS, Against::Nothing, Bound::AtMost(50.0))), 1);
    Ok(())
}

fn held(side: &str, watched: Duration) -> Result<Figures, Failure> {
    let fixture = RedisFixture::new()?;
    let idle = Idle::start(&IdleCommand {
        side: format!("{HOLDS}{side}"),
        count: LEASES,
        url: fixture.url().to_owned(),
    })?;
    let (done, processor) = watch(&fixture, &idle, wire(side), watched)?;
    let seconds = watched.as_secs_f64();
    Ok(vec![done.commands / seconds, done.bytes / seconds, processor / seconds, done.processor / seconds])
}

/// Runs a process of tasks that wait or hold.
pub(crate) fn child(command: &IdleCommand) -> Result<(), Failure> {
    let fixture = RedisFixture::beside(&command.url)?;
    let clients = Clients::new(&fixture);
    match command.side.split_once(HOLDS) {
        None => match command.side.as_str() {
            OURS => waiting(&fixture, &clients.ours("idle")?, command.count),
            RSLOCK => waiting(&fixture, &clients.rslock("idle")?, command.count),
            DISTRIBUTED_LOCK => waiting(&fixture, &clients.distributed("idle")?, command.count),
            DISTKIT => waiting(&fixture, &clients.distkit("idle")?, command.count),
            other => Err(format!("no side is called {other}").into()),
        },
        Some((_, OURS)) => holding(&fixture, command.count, |name| clients.ours(name)),
        Some((_, DISTRIBUTED_LOCK)) => holding(&fixture, command.count, |name| clients.distributed(name)),
        Some((_, DISTKIT)) => holding(&fixture, command.count, |name| clients.distkit(name)),
        Some((_, other)) => Err(format!("no side that holds is called {other}").into()),
    }
}

fn waiting<L: Lock>(fixture: &RedisFixture, lock: &L, count: usize) -> Result<(), Failure> {
    fixture.runtime.block_on(wait(lock, count, SETTLE))
}

fn holding<L: Lock>(
    fixture: &RedisFixture,
    count: usize,
    open: impl Fn(&str) -> Result<L, Failure>,
) -> Result<(), Failure> {
    let locks = (0..count).map(|index| open(&format!("lease-{index}"))).collect::<Result<_, _>>()?;
    fixture.runtime.block_on(hold(locks, SETTLE))
}
