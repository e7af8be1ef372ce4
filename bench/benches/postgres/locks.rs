//! Mutexes: uncontended, contended, and handed from one process to another.

use std::sync::Arc;
use std::time::Duration;

use distributed_lock_postgres::PostgresLockProvider;
use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Column, counted};
use stanchion_bench::load;
use stanchion_bench::lock::Lock;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::raw::postgres::{BareLock, WaitingLock};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Mutex, MutexMode, MutexOptions, Store, WaitGroupOptions};

use crate::fixture::PostgresFixture;
use crate::peers::{DISTRIBUTED_LOCK, DistributedPostgres, LEASE, SESSION, SQLX, Sqlx};

const BY_HAND: &str = "pg_try_advisory_lock and unlock";
const WAITING: &str = "pg_advisory_lock and unlock";

const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(400);

pub(crate) fn provider(fixture: &PostgresFixture) -> Result<Arc<PostgresLockProvider>, Failure> {
    Ok(Arc::new(fixture.runtime.block_on(PostgresLockProvider::new(fixture.url()))?))
}

pub(crate) fn open(store: &Arc<dyn Store>, name: &str) -> Result<Arc<dyn Mutex>, Failure> {
    Ok(store.mutex(name, MutexOptions::default())?)
}

pub(crate) fn uncontended(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    for (tasks, bound) in [(1, Some(0.9)), (16, Some(2.0)), (256, None)] {
        let slug = format!("mutex-{tasks}");
        if !bench.wants(&slug) {
            continue;
        }
        let names: Vec<_> = (0..tasks).map(|task| format!("free-{tasks}-{task}")).collect();
        let (session, lease) = (fixture.store(MutexMode::Session)?, fixture.store(MutexMode::Lease)?);
        let session = names.iter().map(|name| open(&session, name)).collect::<Result<Vec<_>, _>>()?;
        let lease = names.iter().map(|name| open(&lease, name)).collect::<Result<Vec<_>, _>>()?;
        let bare = BareLock::new(&fixture.connection()?, i64::try_from(tasks)?);
        let (provider, pool) = (provider(fixture)?, fixture.pool(tasks)?);
        let distributed: Vec<_> =
            names.iter().map(|name| DistributedPostgres::new(&provider, name)).collect();
        let sqlx: Vec<_> = names.iter().map(|name| Sqlx::new(&pool, name)).collect();
        let mut measure = Measure::new(
            &slug,
            &format!("Mutex, nobody else wants it, {}", counted(tasks, "task")),
            "A lock and a release, which are both answered; each task has a name of its own, opened once. Raw is \
             one task on one connection. `sqlx` has a connection for each task, `distributed-lock` its pool of \
             ten.",
            pair_columns(),
        )
        .side(SESSION, Role::Ours, || pairs(fixture, &session, slice))
        .side(LEASE, Role::Ours, || pairs(fixture, &lease, slice))
        .side(BY_HAND, Role::Raw, || pairs(fixture, std::slice::from_ref(&bare), slice))
        .side(DISTRIBUTED_LOCK, Role::Peer, || pairs(fixture, &distributed, slice))
        .side(SQLX, Role::Peer, || pairs(fixture, &sqlx, slice));
        if let Some(bound) = bound {
            measure = measure.target(Target::new(SESSION, Against::Raw, Bound::AtLeast(bound)));
        }
        bench.run(measure, ROUNDS);
    }
    Ok(())
}

pub(crate) fn pair_columns() -> Vec<Column> {
    let mut columns = load::Pace::columns("pairs");
    columns.push(Column::count("statements a pair"));
    columns
}

pub(crate) fn pairs<L: Lock>(
    fixture: &PostgresFixture,
    locks: &[L],
    slice: Duration,
) -> Result<Figures, Failure> {
    fixture.runtime.block_on(async {
        let before = fixture.done().await?;
        let pairs = load::uncontended(locks, slice, 1).await?;
        let done = fixture.done().await?.since(before);
        let mut figures = pairs.figures();
        figures.push(done.statements / pairs.count);
        Ok(figures)
    })
}

pub(crate) fn contended(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    for (waiters, hold, slice) in [
        (16, Duration::from_millis(2), Duration::from_secs(2)),
        (256, Duration::ZERO, Duration::from_secs(2)),
    ] {
        let slug = format!("contended-{waiters}");
        if !bench.wants(&slug) {
            continue;
        }
        let name = format!("wanted-{waiters}");
        let session = open(&fixture.store(MutexMode::Session)?, &name)?;
        let lease = open(&fixture.store(MutexMode::Lease)?, &name)?;
        let bare = WaitingLock::new(fixture.pool(waiters)?, i64::try_from(waiters)?);
        let distributed = DistributedPostgres::new(&provider(fixture)?, &name);
        let sqlx = Sqlx::new(&fixture.pool(waiters)?, &name);
        let on = Load { fixture, waiters, hold, slice: bench.slice(slice) };
        let mut measure = Measure::new(
            &slug,
            &format!("Mutex, {waiters} waiters that hold it for {hold:?}"),
            &format!(
                "{} Raw and `sqlx` have a connection for each of them, `distributed-lock` its pool of ten.",
                load::Contended::ABOUT
            ),
            contended_columns(),
        )
        .side(SESSION, Role::Ours, || on.run(&session))
        .side(LEASE, Role::Ours, || on.run(&lease))
        .side(WAITING, Role::Raw, || on.run(&bare))
        .side(DISTRIBUTED_LOCK, Role::Peer, || on.run(&distributed))
        .side(SQLX, Role::Peer, || on.run(&sqlx));
        for side in [SESSION, LEASE] {
            measure = measure.target(
                Target::new(side, Against::Nothing, Bound::AtMost(0.0)).column(load::Contended::OVERTOOK),
            );
        }
        bench.run(measure, 5);
    }
    Ok(())
}

fn contended_columns() -> Vec<Column> {
    let mut columns = load::Contended::columns();
    columns.push(Column::count("statements a grant"));
    columns
}

/// A load of many tasks that compete for one lock.
pub(crate) struct Load<'a> {
    pub(crate) fixture: &'a PostgresFixture,
    pub(crate) waiters: usize,
    pub(crate) hold: Duration,
    pub(crate) slice: Duration,
}

impl Load<'_> {
    pub(crate) fn run<L: Lock>(&self, lock: &L) -> Result<Figures, Failure> {
        self.fixture.runtime.block_on(async {
            let before = self.fixture.done().await?;
            let seen = load::contended(lock, self.waiters, self.hold, self.slice).await?;
            let done = self.fixture.done().await?.since(before);
            let mut figures = seen.figures();
            figures.push(done.statements / seen.grants);
            Ok(figures)
        })
    }
}

pub(crate) fn hand_off(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let name = "passed";
    let ours =
        |mode| Ok::<_, Failure>([open(&fixture.store(mode)?, name)?, open(&fixture.store(mode)?, name)?]);
    let (session, lease) = (ours(MutexMode::Session)?, ours(MutexMode::Lease)?);
    let bare = WaitingLock::new(fixture.pool(2)?, 1);
    let bare = [bare.clone(), bare];
    let distributed =
        [provider(fixture)?, provider(fixture)?].map(|provider| DistributedPostgres::new(&provider, name));
    let sqlx = Sqlx::new(&fixture.pool(2)?, name);
    let sqlx = [sqlx.clone(), sqlx];
    let measure = Measure::new(
        "hand-off",
        "Mutex, hand-off from one process to another",
        "From the start of the release by one client to the grant to another, which has stood in line for 5 ms.",
        load::HandOff::columns(),
    )
    .side(SESSION, Role::Ours, || passed(fixture, &session, slice))
    .side(LEASE, Role::Ours, || passed(fixture, &lease, slice))
    .side(WAITING, Role::Raw, || passed(fixture, &bare, slice))
    .side(DISTRIBUTED_LOCK, Role::Peer, || passed(fixture, &distributed, slice))
    .side(SQLX, Role::Peer, || passed(fixture, &sqlx, slice));
    let targets = [SESSION, LEASE].into_iter().flat_map(load::HandOff::targets);
    bench.run(targets.fold(measure, Measure::target), 9);
    Ok(())
}

pub(crate) fn at_zero(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let group = || {
        Ok::<_, Failure>(fixture.store(MutexMode::Lease)?.wait_group("ended", WaitGroupOptions::default())?)
    };
    let groups = [group()?, group()?];
    let measure = Measure::new("zero", load::ZERO, load::AT_ZERO, load::HandOff::columns())
        .side(LEASE, Role::Ours, || Ok(fixture.runtime.block_on(load::at_zero(&groups, slice))?.figures()))
        .target(load::HandOff::target_at_zero(LEASE));
    bench.run(measure, 9);
    Ok(())
}

fn passed<L: Lock>(fixture: &PostgresFixture, pair: &[L; 2], slice: Duration) -> Result<Figures, Failure> {
    let seen = fixture.runtime.block_on(load::hand_off(pair, slice))?;
    Ok(seen.figures())
}
