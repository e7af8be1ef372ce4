//! Whether anything grows with what else is there.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load;
use stanchion_bench::load::crowd::{COUNTS, Crowd, Kind};
use stanchion_bench::measure::{Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};

use crate::peers::Ours;
use crate::{Bed, store};

const ROUNDS: usize = 21;
const SLICE: Duration = Duration::from_millis(50);

pub(crate) fn growth(bench: &mut Bench, bed: &Bed) -> Result<(), Failure> {
    let slice = bench.slice(SLICE);
    for kind in Kind::ALL {
        let (name, slug) = (kind.name(), format!("growth-{}", kind.name()));
        if !bench.wants(&slug) {
            continue;
        }
        let mut measure = Measure::new(
            &slug,
            &format!("Mutex beside 10 to 10,000 {name}"),
            &format!("A lock and a drop that nobody else wants, while {}.", kind.what()),
            vec![Column::time("p50 of a pair"), Column::time("p99")],
        );
        for count in COUNTS {
            let crowd = bed.one.block_on(Crowd::gather(&store(), kind, count))?;
            measure = measure.side(&format!("{count} {name}"), Role::Ours, move || {
                let free = Ours(std::sync::Arc::clone(&crowd.free));
                let pairs = bed.one.block_on(load::uncontended(&[free], slice, 64))?;
                Ok(vec![pairs.p50, pairs.p99])
            });
        }
        let few = Against::Side(format!("10 {name}"));
        bench.run(measure.target(Target::new(&format!("10000 {name}"), few, Bound::AtMost(1.25))), ROUNDS);
    }
    Ok(())
}
