//! Limiters: one hot name, and many names.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::decider::Decider;
use stanchion_bench::figure::{Column, counted};
use stanchion_bench::load;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::raw::redis::BareBucket;
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Limiter, LimiterOptions, Quota};
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimiterBuilder};

use crate::fixture::RedisFixture;
use crate::peers::{OUR_WIRE, OURS, TRYPEMA, Trypema, WIRE};

const BY_HAND: &str = "one script call a decision";
/// A quota larger than any side uses.
const RATE: u64 = 10_000_000;
const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(400);
const TASKS: usize = 256;
const NAMES: usize = 10_000;

struct Sides {
    ours: Arc<Vec<Arc<dyn Limiter>>>,
    by_hand: BareBucket,
    trypema: Trypema,
}

impl Sides {
    fn new(fixture: &RedisFixture, names: usize) -> Result<Self, Failure> {
        let (store, quota) = (fixture.store()?, Quota::per_second(RATE));
        let keys: Vec<String> = (0..names).map(|index| format!("client-{names}-{index}")).collect();
        let options = LimiterOptions::new(quota).refusal_cache(false);
        let ours = keys.iter().map(|name| store.limiter(name, options.clone())).collect::<Result<_, _>>()?;
        let by_hand = fixture.runtime.block_on(BareBucket::new(fixture.connection()?, quota))?;
        let manager = fixture.manager()?;
        let provider =
            fixture.runtime.block_on(async { RedisRateLimiterProvider::builder(manager).build() })?;
        let keys = keys.into_iter().map(RedisKey::try_from).collect::<Result<_, _>>()?;
        let trypema = Trypema { provider, keys: Arc::new(keys), rate: RateLimit::max() };
        Ok(Self { ours: Arc::new(ours), by_hand, trypema })
    }
}

pub(crate) fn hot(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    for (tasks, bound) in [(1, 0.9), (TASKS, 8.0)] {
        let measure = Measure::new(
            &format!("limiter-hot-{tasks}"),
            &format!("Limiter, one hot name, {}", counted(tasks, "task")),
            "Decisions that admit, at a rate that never runs out, without the cache of refusals. Raw has the same exact \
             arithmetic. `trypema` asks for Redis 7.2 at least; its decisions are best effort.",
            columns(),
        );
        let measure = all(measure, fixture, Sides::new(fixture, 1)?, (1, tasks), bench.slice(SLICE));
        bench.run(measure.target(Target::new(OURS, Against::Raw, Bound::AtLeast(bound))), ROUNDS);
    }
    Ok(())
}

pub(crate) fn many(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    let measure = Measure::new(
        "limiter-names",
        &format!("Limiter, {NAMES} names, {TASKS} tasks"),
        "Each task asks for one name after another.",
        columns(),
    );
    let measure = all(measure, fixture, Sides::new(fixture, NAMES)?, (NAMES, TASKS), bench.slice(SLICE));
    bench.run(measure, ROUNDS);
    Ok(())
}

fn columns() -> Vec<Column> {
    let mut columns = load::Pace::columns("admitted");
    columns.extend([Column::count("commands a decision"), Column::count("calls inside scripts")]);
    columns
}

/// `load` is the number of names, and that of tasks.
fn all<'a>(
    measure: Measure<'a>,
    fixture: &'a RedisFixture,
    sides: Sides,
    load: (usize, usize),
    slice: Duration,
) -> Measure<'a> {
    let Sides { ours, by_hand, trypema } = sides;
    measure
        .side(OURS, Role::Ours, move || decided(fixture, &ours, OUR_WIRE, load, slice))
        .side(BY_HAND, Role::Raw, move || decided(fixture, &by_hand, WIRE, load, slice))
        .side(TRYPEMA, Role::Peer, move || decided(fixture, &trypema, WIRE, load, slice))
}

fn decided<G: Decider>(
    fixture: &RedisFixture,
    decider: &G,
    wire: &[&str],
    (names, tasks): (usize, usize),
    slice: Duration,
) -> Result<Figures, Failure> {
    fixture.runtime.block_on(async {
        let before = fixture.done(wire).await?;
        let seen = load::decisions(decider, tasks, names, slice, 1).await?;
        let done = fixture.done(wire).await?.since(before);
        let mut figures = seen.figures();
        figures.extend([done.commands / seen.count, done.inside / seen.count]);
        Ok(figures)
    })
}
