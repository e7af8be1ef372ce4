//! The Bloom filter: many items a call, compared with one.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load::{self, Call, Items, Pace};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{BloomFilter, BloomOptions};

use crate::fixture::RedisFixture;
use crate::peers::OUR_WIRE;

const MANY: &str = "stanchion, 1,000 items a call";
const ONE: &str = "stanchion, one item a call";
const CAPACITY: u64 = 10_000_000;
const RATE: f64 = 0.01;
const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(400);

pub(crate) fn filters(bench: &mut Bench, fixture: &RedisFixture) -> Result<(), Failure> {
    if !bench.wants("filter-insert") {
        return Ok(());
    }
    let slice = bench.slice(SLICE);
    let store = fixture.store()?;
    let filter = store.bloom_filter("seen", BloomOptions::new(CAPACITY, RATE))?;
    let items = Items::new(usize::try_from(CAPACITY)?);
    let mut columns = Pace::columns("items");
    columns.push(Column::count("commands an item"));
    let measure = Measure::new(
        "filter-insert",
        "Bloom filter, one task inserts",
        "A filter for ten million items at 1 %; every item is new. Times are those of a call.",
        columns,
    )
    .side(MANY, Role::Ours, || inserted(fixture, &filter, &items, Call::InsertMany(1_000), slice))
    .side(ONE, Role::Ours, || inserted(fixture, &filter, &items, Call::Insert, slice))
    .target(Target::new(MANY, Against::Side(ONE.to_owned()), Bound::AtLeast(10.0)));
    bench.run(measure, ROUNDS);
    Ok(())
}

fn inserted(
    fixture: &RedisFixture,
    filter: &Arc<dyn BloomFilter>,
    items: &Items,
    call: Call,
    slice: Duration,
) -> Result<Figures, Failure> {
    fixture.runtime.block_on(async {
        let before = fixture.done(OUR_WIRE).await?;
        let seen = load::items(filter, items, call, slice, 1).await?;
        let done = fixture.done(OUR_WIRE).await?.since(before);
        let mut figures = seen.figures();
        figures.push(done.commands / seen.count);
        Ok(figures)
    })
}
