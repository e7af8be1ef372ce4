//! Whether the cost of an operation grows with the number of other objects.

use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load;
use stanchion_bench::load::crowd::Crowd;
use stanchion_bench::load::growth::{Slice, beside};

use crate::peers::Ours;
use crate::{Runtimes, store};

pub(crate) fn growth(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(50));
    let columns = [Column::time("p50 of a pair"), Column::time("p99")];
    beside(bench, "", &columns, 21, |kind, count| {
        let crowd = runtimes.one.block_on(Crowd::gather(&store(), kind, count))?;
        let measured: Slice<'_> = Box::new(move || {
            let free = Ours(Arc::clone(&crowd.free));
            let pairs = runtimes.one.block_on(load::uncontended(&[free], slice, 64))?;
            Ok(vec![pairs.p50, pairs.p99])
        });
        Ok(measured)
    })
}
