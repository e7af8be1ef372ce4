//! Semaphores and limiters: one hot name, and many names.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::decider::Decider;
use stanchion_bench::figure::Column;
use stanchion_bench::load;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::raw::postgres::Counter;
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Limiter, LimiterOptions, Quota, Semaphore, SemaphoreOptions, Store};

use crate::fixture::PostgresFixture;
use crate::locks::{pair_columns, pairs};
use crate::peers::LEASE;

const BY_HAND: &str = "UPDATE of one row";
/// A quota larger than any side uses.
const RATE: u64 = 10_000_000;
const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(400);
const TASKS: usize = 64;
const NAMES: usize = 10_000;
/// Number of connections that both sides share: the default size of a pool.
const CONNECTIONS: usize = 10;

pub(crate) fn semaphore(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    if !bench.wants("semaphore-64") {
        return Ok(());
    }
    let slice = bench.slice(SLICE);
    let pool = fixture.pool(CONNECTIONS)?;
    let counter = fixture.runtime.block_on(Counter::new(pool.clone(), "semaphore"))?;
    let semaphore: Arc<dyn Semaphore> =
        fixture.store_over(pool)?.semaphore("hot", SemaphoreOptions::new(u32::try_from(TASKS)?))?;
    let (ours, bare) = (vec![semaphore; TASKS], vec![counter; TASKS]);
    let measure = Measure::new(
        "semaphore-64",
        &format!("Semaphore, one hot name, {TASKS} tasks"),
        "As many permits as tasks, so that each acquisition is granted at once. An acquisition and a release are two \
         operations, as are two updates. Both sides share a pool of ten connections.",
        pair_columns(),
    )
    .side(LEASE, Role::Ours, || pairs(fixture, &ours, slice))
    .side(BY_HAND, Role::Raw, || pairs(fixture, &bare, slice))
    .target(Target::new(LEASE, Against::Raw, Bound::AtLeast(10.0)));
    bench.run(measure, ROUNDS);
    Ok(())
}

pub(crate) fn limiter(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    if !bench.wants("limiter-hot") {
        return Ok(());
    }
    let pool = fixture.pool(CONNECTIONS)?;
    let counter = fixture.runtime.block_on(Counter::new(pool.clone(), "limiter"))?;
    let ours = limiters(&fixture.store_over(pool)?, 1)?;
    let slice = bench.slice(SLICE);
    let measure = Measure::new(
        "limiter-hot",
        &format!("Limiter, one hot name, {TASKS} tasks"),
        "Decisions that admit, at a rate that never runs out, without the cache of refusals. Both sides share a \
         pool of ten connections.",
        columns(),
    )
    .side(LEASE, Role::Ours, || decided(fixture, &ours, 1, slice))
    .side(BY_HAND, Role::Raw, || decided(fixture, &counter, 1, slice))
    .target(Target::new(LEASE, Against::Raw, Bound::AtLeast(10.0)));
    bench.run(measure, ROUNDS);
    Ok(())
}

pub(crate) fn names(bench: &mut Bench, fixture: &PostgresFixture) -> Result<(), Failure> {
    if !bench.wants("limiter-names") {
        return Ok(());
    }
    let pool = fixture.pool(CONNECTIONS)?;
    let counter = fixture.runtime.block_on(Counter::new(pool.clone(), "names"))?;
    let ours = limiters(&fixture.store_over(pool)?, NAMES)?;
    let slice = bench.slice(SLICE);
    let measure = Measure::new(
        "limiter-names",
        &format!("Limiter, {NAMES} names, {TASKS} tasks"),
        "Each task asks for one name after another; the update has a row for each.",
        columns(),
    )
    .side(LEASE, Role::Ours, || decided(fixture, &ours, NAMES, slice))
    .side(BY_HAND, Role::Raw, || decided(fixture, &counter, NAMES, slice));
    bench.run(measure, ROUNDS);
    Ok(())
}

fn limiters(store: &Arc<dyn Store>, names: usize) -> Result<Arc<Vec<Arc<dyn Limiter>>>, Failure> {
    let options = LimiterOptions::new(Quota::per_second(RATE)).refusal_cache(false);
    let limiter = |index| store.limiter(&format!("client-{names}-{index}"), options.clone());
    Ok(Arc::new((0..names).map(limiter).collect::<Result<_, _>>()?))
}

fn columns() -> Vec<Column> {
    let mut columns = load::Pace::columns("admitted");
    columns.push(Column::count("statements a decision"));
    columns
}

fn decided<G: Decider>(
    fixture: &PostgresFixture,
    decider: &G,
    names: usize,
    slice: Duration,
) -> Result<Figures, Failure> {
    fixture.runtime.block_on(async {
        let before = fixture.done().await?;
        let seen = load::decisions(decider, TASKS, names, slice, 1).await?;
        let done = fixture.done().await?.since(before);
        let mut figures = seen.figures();
        figures.push(done.statements / seen.count);
        Ok(figures)
    })
}
