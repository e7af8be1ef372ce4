//! Mutexes: uncontended, contended, and handed from one process to another.

use std::sync::Arc;
use std::time::Duration;

use distributed_lock_postgres::PostgresLockProvider;
use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Column, counted};
use stanchion_bench::load;
use stanchion_bench::lock::{Lock, Processes};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::raw::postgres::{LeaseRow, Turn, WaitingLock};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Mutex, MutexMode, MutexOptions, Store, WaitGroupOptions};

use crate::fixture::PostgresFixture;
use crate::peers::{DISTRIBUTED_LOCK, DistributedPostgres, LEASE, SESSION, SQLX, Sqlx};

const WAITING: &str = "pg_advisory_lock and unlock";
const UPDATES: &str = "two updates of a row";
const NOTIFY: &str = "a turn passed by NOTIFY";

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
    for (tasks, sessions, leases) in [(1, 0.6, 0.8), (16, 0.8, 1.5), (256, 2.0, 5.0)] {
        let (held, leased) = (format!("mutex-{tasks}"), format!("lease-{tasks}"));
        if !bench.wants(&held) && !bench.wants(&leased) {
            continue;
        }
        let names: Vec<_> = (0..tasks).map(|task| format!("free-{tasks}-{task}")).collect();
        let (session, lease) = (fixture.store(MutexMode::Session)?, fixture.store(MutexMode::Lease)?);
        let session = names.iter().map(|name| open(&session, name)).collect::<Result<Vec<_>, _>>()?;
        let lease = names.iter().map(|name| open(&lease, name)).collect::<Result<Vec<_>, _>>()?;
        let (provider, pool) = (provider(fixture)?, fixture.pool(tasks)?);
        let keys = 1_000..1_000 + i64::try_from(tasks)?;
        let bare: Vec<_> = keys.map(|key| WaitingLock::new(pool.clone(), key)).collect();
        let rows = fixture.runtime.block_on(LeaseRow::many(&pool, tasks))?;
        let distributed: Vec<_> =
            names.iter().map(|name| DistributedPostgres::new(&provider, name)).collect();
        let sqlx: Vec<_> = names.iter().map(|name| Sqlx::new(&pool, name)).collect();
        let title = |what: &str| format!("{what}, nobody else wants it, {}", counted(tasks, "task"));
        let measure = Measure::new(
            &held,
            &title("Mutex of a session"),
            "A lock and a release, which are both answered; each task has a name of its own, opened once. Raw and \
             `sqlx` have a connection for each task, which is there already; `distributed-lock` has its pool of ten.",
            pair_columns(),
        )
        .side(SESSION, Role::Ours, || pairs(fixture, &session, slice))
        .side(WAITING, Role::Raw, || pairs(fixture, &bare, slice))
        .side(DISTRIBUTED_LOCK, Role::Peer, || pairs(fixture, &distributed, slice))
        .side(SQLX, Role::Peer, || pairs(fixture, &sqlx, slice))
        .target(Target::new(SESSION, Against::Raw, Bound::AtLeast(sessions)));
        bench.run(measure, ROUNDS);
        let measure = Measure::new(
            &leased,
            &title("Mutex by a lease"),
            "A lock and a release, which are both answered, and on the disk; each task has a name of its own, opened \
             once. Raw is two updates of one row, which commit, on a connection for each task: half of its time with one \
             task is the time of a commit, of which the disk's is the most.",
            pair_columns(),
        )
        .side(LEASE, Role::Ours, || pairs(fixture, &lease, slice))
        .side(UPDATES, Role::Raw, || pairs(fixture, &rows, slice))
        .target(Target::new(LEASE, Against::Raw, Bound::AtLeast(leases)));
        bench.run(measure, ROUNDS);
    }
    Ok(())
}

/// Many processes that hold one mutex for no time.
pub(crate) fn processes(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    let (slug, count) = ("processes", 8);
    if !bench.wants(slug) {
        return Ok(());
    }
    let stores = |mode| {
        let mutexes = (0..count).map(|_| open(&fixture.store(mode)?, "processes"));
        Ok::<_, Failure>(Processes::new(mutexes.collect::<Result<Vec<_>, _>>()?))
    };
    let (session, lease) = (stores(MutexMode::Session)?, stores(MutexMode::Lease)?);
    let bare = WaitingLock::new(fixture.pool(count)?, 8);
    let slice = bench.slice(Duration::from_secs(2));
    let on = Load { fixture, waiters: count, hold: Duration::ZERO, slice };
    let measure = Measure::new(
        slug,
        "Mutex, 8 processes that hold it for no time",
        &format!("{} Each of ours has a store of its own, and of raw a connection.", load::Contended::ABOUT),
        contended_columns(),
    )
    .side(SESSION, Role::Ours, || on.run(&session))
    .side(LEASE, Role::Ours, || on.run(&lease))
    .side(WAITING, Role::Raw, || on.run(&bare))
    .target(Target::new(SESSION, Against::Raw, Bound::AtLeast(0.25)));
    bench.run(measure, 5);
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
    let turns = fixture.runtime.block_on(Turn::pair(fixture.url()))?;
    let distributed =
        [provider(fixture)?, provider(fixture)?].map(|provider| DistributedPostgres::new(&provider, name));
    let sqlx = Sqlx::new(&fixture.pool(2)?, name);
    let sqlx = [sqlx.clone(), sqlx];
    let measure = Measure::new(
        "hand-off",
        "Mutex, hand-off from one process to another",
        "From the start of the release by one client to the grant to another, which has stood in line for 5 ms. A turn \
         passed by `NOTIFY` is no lock: it has no holder that could die.",
        load::HandOff::columns(),
    )
    .side(SESSION, Role::Ours, || passed(fixture, &session, slice))
    .side(LEASE, Role::Ours, || passed(fixture, &lease, slice))
    .side(WAITING, Role::Raw, || passed(fixture, &bare, slice))
    .side(NOTIFY, Role::Raw, || passed(fixture, &turns, slice))
    .side(DISTRIBUTED_LOCK, Role::Peer, || passed(fixture, &distributed, slice))
    .side(SQLX, Role::Peer, || passed(fixture, &sqlx, slice));
    let by_notify = |side| Target::new(side, Against::Side(NOTIFY.to_owned()), Bound::AtMost(2.5));
    let targets = [SESSION, LEASE].into_iter().flat_map(load::HandOff::targets);
    let targets = targets.chain([SESSION, LEASE].map(by_notify));
    bench.run(targets.fold(measure, Measure::target), 9);
    // A listener gives its connection back by a task.
    let _runtime = fixture.runtime.enter();
    drop(turns);
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
