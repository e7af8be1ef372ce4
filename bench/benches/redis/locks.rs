//! Mutexes and semaphores: uncontended, contended, and handed from one process to another.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Column, counted};
use stanchion_bench::load;
use stanchion_bench::lock::Lock;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::raw::redis::{BareLock, TokenQueue};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Semaphore, SemaphoreOptions, WaitGroupOptions};

use crate::clients::Clients;
use crate::fixture::RedisFixture;
use crate::peers::{DISTKIT, DISTRIBUTED_LOCK, DistributedPermit, OUR_WIRE, OURS, RSLOCK, WIRE};

const BY_HAND: &str = "SET NX PX and compare-and-delete";
const TOKENS: &str = "a token in a list, BLPOP";
const TOKENS_WIRE: &[&str] = &["blpop", "rpush"];

const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(400);

pub(crate) fn uncontended(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    for (tasks, bound) in [(1, 0.9), (16, 1.0), (256, 1.5)] {
        let clients = Clients::new(fixture);
        let names: Vec<_> = (0..tasks).map(|task| format!("free-{tasks}-{task}")).collect();
        let connection = fixture.connection()?;
        let ours = names.iter().map(|name| clients.ours(name)).collect::<Result<Vec<_>, _>>()?;
        let bare: Vec<_> =
            names.iter().map(|name| BareLock::new(connection.clone(), &format!("bare-{name}"))).collect();
        let rslock: Vec<_> = names.iter().map(|name| clients.rslock(name)).collect::<Result<_, _>>()?;
        let distributed: Vec<_> =
            names.iter().map(|name| clients.distributed(name)).collect::<Result<_, _>>()?;
        let distkit = names.iter().map(|name| clients.distkit(name)).collect::<Result<Vec<_>, _>>()?;
        let mut measure = Measure::new(
            &format!("mutex-{tasks}"),
            &format!("Mutex, nobody else wants it, {}", counted(tasks, "task")),
            "A lock and a release, which are both answered; each task has a name of its own, opened once.",
            pair_columns(),
        )
        .side(OURS, Role::Ours, || pairs(fixture, &ours, OUR_WIRE, slice))
        .side(BY_HAND, Role::Raw, || pairs(fixture, &bare, WIRE, slice))
        .side(RSLOCK, Role::Peer, || pairs(fixture, &rslock, WIRE, slice))
        .side(DISTRIBUTED_LOCK, Role::Peer, || pairs(fixture, &distributed, WIRE, slice))
        .side(DISTKIT, Role::Peer, || pairs(fixture, &distkit, WIRE, slice))
        .target(Target::new(OURS, Against::Raw, Bound::AtLeast(bound)));
        if tasks > 1 {
            measure = measure.target(Target::new(OURS, Against::BestPeer, Bound::AtLeast(1.0)));
        }
        bench.run(measure, ROUNDS);
    }
    Ok(())
}

fn pair_columns() -> Vec<Column> {
    let mut columns = load::Pace::columns("pairs");
    columns.extend([Column::count("commands a pair"), Column::count("calls inside scripts")]);
    columns
}

pub(crate) fn pairs<L: Lock>(
    fixture: &RedisFixture,
    locks: &[L],
    wire: &[&str],
    slice: Duration,
) -> Result<Figures, Failure> {
    fixture.runtime.block_on(async {
        let before = fixture.done(wire).await?;
        let pairs = load::uncontended(locks, slice, 1).await?;
        let done = fixture.done(wire).await?.since(before);
        let mut figures = pairs.figures();
        figures.extend([done.commands / pairs.count, done.inside / pairs.count]);
        Ok(figures)
    })
}

pub(crate) fn contended(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    for (waiters, hold, slice) in [
        (16, Duration::from_millis(2), Duration::from_secs(2)),
        (256, Duration::ZERO, Duration::from_secs(3)),
    ] {
        let slug = format!("contended-{waiters}");
        if !bench.wants(&slug) {
            continue;
        }
        let (slice, clients) = (bench.slice(slice), Clients::new(fixture));
        let name = format!("wanted-{waiters}");
        let (ours, rslock) = (clients.ours(&name)?, clients.rslock(&name)?);
        let (distributed, distkit) = (clients.distributed(&name)?, clients.distkit(&name)?);
        let connections = fixture.connections(waiters)?;
        let tokens = fixture.runtime.block_on(TokenQueue::new(connections, &format!("tokens-{waiters}")))?;
        let on = Load { fixture, waiters, hold, slice };
        let mut measure = Measure::new(
            &slug,
            &format!("Mutex, {waiters} waiters that hold it for {hold:?}"),
            load::Contended::ABOUT,
            contended_columns(),
        )
        .side(OURS, Role::Ours, || on.run(&ours, OUR_WIRE))
        .side(TOKENS, Role::Raw, || on.run(&tokens, TOKENS_WIRE))
        .side(RSLOCK, Role::Peer, || on.run(&rslock, WIRE))
        .side(DISTRIBUTED_LOCK, Role::Peer, || on.run(&distributed, WIRE))
        .side(DISTKIT, Role::Peer, || on.run(&distkit, WIRE))
        .target(Target::new(OURS, Against::Nothing, Bound::AtMost(1.5)).column(load::Contended::P999))
        .target(Target::new(OURS, Against::Nothing, Bound::AtMost(0.0)).column(load::Contended::OVERTOOK));
        if waiters == 16 {
            measure = measure.target(Target::new(OURS, Against::Raw, Bound::AtLeast(0.9)));
        }
        bench.run(measure, 5);
    }
    Ok(())
}

fn contended_columns() -> Vec<Column> {
    let mut columns = load::Contended::columns();
    columns.push(Column::count("commands a grant"));
    columns
}

/// A load of many tasks that compete for one lock.
pub(crate) struct Load<'a> {
    pub(crate) fixture: &'a RedisFixture,
    pub(crate) waiters: usize,
    pub(crate) hold: Duration,
    pub(crate) slice: Duration,
}

impl Load<'_> {
    pub(crate) fn run<L: Lock>(&self, lock: &L, wire: &[&str]) -> Result<Figures, Failure> {
        self.fixture.runtime.block_on(async {
            let before = self.fixture.done(wire).await?;
            let seen = load::contended(lock, self.waiters, self.hold, self.slice).await?;
            let done = self.fixture.done(wire).await?.since(before);
            let mut figures = seen.figures();
            figures.push(done.commands / seen.grants);
            Ok(figures)
        })
    }
}

pub(crate) fn hand_off(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let [mine, theirs] = [Clients::new(fixture), Clients::new(fixture)];
    let name = "passed";
    let ours = [mine.ours(name)?, theirs.ours(name)?];
    let tokens = fixture.runtime.block_on(TokenQueue::new(fixture.connections(2)?, "passed-tokens"))?;
    let tokens = [tokens.clone(), tokens.clone()];
    let rslock = [mine.rslock(name)?, theirs.rslock(name)?];
    let distributed = [mine.distributed(name)?, theirs.distributed(name)?];
    let distkit = [mine.distkit(name)?, theirs.distkit(name)?];
    let measure = Measure::new(
        "hand-off",
        "Mutex, hand-off from one process to another",
        "From the start of the release by one client to the grant to another, which has stood in line for 5 ms. \
         Raw is a token passed by `RPUSH` and `BLPOP`, without a lease, a queue or a fencing token.",
        load::HandOff::columns(),
    )
    .side(OURS, Role::Ours, || passed(fixture, &ours, slice))
    .side(TOKENS, Role::Raw, || passed(fixture, &tokens, slice))
    .side(RSLOCK, Role::Peer, || passed(fixture, &rslock, slice))
    .side(DISTRIBUTED_LOCK, Role::Peer, || passed(fixture, &distributed, slice))
    .side(DISTKIT, Role::Peer, || passed(fixture, &distkit, slice))
    .target(Target::new(OURS, Against::Raw, Bound::AtMost(2.0)));
    let measure = load::HandOff::targets(OURS).into_iter().fold(measure, Measure::target);
    bench.run(measure, 9);
    Ok(())
}

pub(crate) fn at_zero(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let clients = [Clients::new(fixture), Clients::new(fixture)];
    let group = |client: &Clients<'_>| {
        Ok::<_, Failure>(client.store()?.wait_group("ended", WaitGroupOptions::default())?)
    };
    let groups = [group(&clients[0])?, group(&clients[1])?];
    let measure = Measure::new("zero", load::ZERO, load::AT_ZERO, load::HandOff::columns())
        .side(OURS, Role::Ours, || Ok(fixture.runtime.block_on(load::at_zero(&groups, slice))?.figures()))
        .target(load::HandOff::target_at_zero(OURS));
    bench.run(measure, 9);
    Ok(())
}

fn passed<L: Lock>(fixture: &RedisFixture, pair: &[L; 2], slice: Duration) -> Result<Figures, Failure> {
    let seen = fixture.runtime.block_on(load::hand_off(pair, slice))?;
    Ok(seen.figures())
}

/// Semaphores of four permits that nobody else wants.
pub(crate) fn permits(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    for (tasks, bound) in [(1, 0.75), (16, 0.8), (256, 1.1)] {
        let slug = format!("permits-{tasks}");
        if !bench.wants(&slug) {
            continue;
        }
        let clients = Clients::new(fixture);
        let names: Vec<_> = (0..tasks).map(|task| format!("four-{tasks}-{task}")).collect();
        let (store, provider, connection) = (clients.store()?, clients.provider()?, fixture.connection()?);
        let open = |name: &String| store.semaphore(name, SemaphoreOptions::new(4));
        let ours: Vec<Arc<dyn Semaphore>> = names.iter().map(open).collect::<Result<_, _>>()?;
        let distributed: Vec<_> =
            names.iter().map(|name| DistributedPermit::new(provider, name, 4)).collect();
        let bare: Vec<_> =
            names.iter().map(|name| BareLock::new(connection.clone(), &format!("bare-{name}"))).collect();
        let measure = Measure::new(
            &slug,
            &format!("Semaphore of 4, nobody else wants it, {}", counted(tasks, "task")),
            "A permit and its release, which are both answered; each task has a name of its own. Raw is a lock.",
            pair_columns(),
        )
        .side(OURS, Role::Ours, || pairs(fixture, &ours, OUR_WIRE, slice))
        .side(BY_HAND, Role::Raw, || pairs(fixture, &bare, WIRE, slice))
        .side(DISTRIBUTED_LOCK, Role::Peer, || pairs(fixture, &distributed, WIRE, slice))
        .target(Target::new(OURS, Against::Raw, Bound::AtLeast(bound)));
        bench.run(measure, ROUNDS);
    }
    Ok(())
}

pub(crate) fn semaphore(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    let clients = Clients::new(fixture);
    let semaphore: Arc<dyn Semaphore> = clients.store()?.semaphore("hot", SemaphoreOptions::new(64))?;
    let ours = vec![semaphore; 64];
    let distributed = vec![DistributedPermit::new(clients.provider()?, "hot", 64); 64];
    let connection = fixture.connection()?;
    let bare: Vec<_> =
        (0..64).map(|task| BareLock::new(connection.clone(), &format!("permit-{task}"))).collect();
    let measure = Measure::new(
        "semaphore-64",
        "Semaphore, one hot name, 64 tasks",
        "64 permits, so that each acquisition is granted at once. Raw is a key of its own for each task, as above.",
        pair_columns(),
    )
    .side(OURS, Role::Ours, || pairs(fixture, &ours, OUR_WIRE, slice))
    .side(BY_HAND, Role::Raw, || pairs(fixture, &bare, WIRE, slice))
    .side(DISTRIBUTED_LOCK, Role::Peer, || pairs(fixture, &distributed, WIRE, slice));
    bench.run(measure, ROUNDS);
    Ok(())
}
