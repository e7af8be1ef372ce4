//! Whether anything grows with what else is there.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load;
use stanchion_bench::load::crowd::{COUNTS, Crowd, Kind};
use stanchion_bench::measure::{Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::MutexOptions;

use crate::bed::Bed;
use crate::locks::Load;
use crate::peers::OUR_WIRE;

/// A pair that nobody else wants, beside many.
pub(crate) fn beside(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(300));
    for kind in Kind::ALL {
        let (name, slug) = (kind.name(), format!("growth-{}", kind.name()));
        if !bench.wants(&slug) {
            continue;
        }
        let mut measure = Measure::new(
            &slug,
            &format!("Mutex beside 10 to 10,000 {name}"),
            &format!("A lock and a release that nobody else wants, while {}, on four servers.", kind.what()),
            vec![Column::time("p50 of a pair"), Column::time("p99"), Column::count("commands a pair")],
        );
        for count in COUNTS {
            let bed = Bed::new()?;
            let crowd = bed.runtime.block_on(Crowd::gather(&bed.store()?, kind, count))?;
            measure = measure.side(&format!("{count} {name}"), Role::Ours, move || {
                let free = std::slice::from_ref(&crowd.free);
                bed.runtime.block_on(async {
                    let before = bed.done(OUR_WIRE).await?;
                    let pairs = load::uncontended(free, slice, 1).await?;
                    let done = bed.done(OUR_WIRE).await?.since(before);
                    Ok(vec![pairs.p50, pairs.p99, done.commands / pairs.pairs])
                })
            });
        }
        let few = Against::Side(format!("10 {name}"));
        bench.run(measure.target(Target::new(&format!("10000 {name}"), few, Bound::AtMost(1.25))), 7);
    }
    Ok(())
}

/// Grants from a queue that is that long.
pub(crate) fn queue(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_secs(1));
    let mut measure = Measure::new(
        "growth-queue",
        "Mutex wanted by 10 to 10,000",
        "That many tasks of one process take the one mutex, give it back and ask again.",
        vec![Column::rate("grants a second"), Column::count("commands a grant")],
    );
    if !bench.wants(measure.slug()) {
        return Ok(());
    }
    for count in COUNTS {
        let bed = Bed::new()?;
        let mutex = bed.store()?.mutex("wanted", MutexOptions::default())?;
        measure = measure.side(&format!("{count} waiters"), Role::Ours, move || {
            let load = Load { bed: &bed, waiters: count, hold: Duration::ZERO, slice };
            let figures = load.run(&mutex, OUR_WIRE)?;
            Ok(vec![figures[0], figures[4]])
        });
    }
    let few = Against::Side("10 waiters".to_owned());
    bench.run(measure.target(Target::new("10000 waiters", few, Bound::AtLeast(0.8))), 3);
    Ok(())
}
