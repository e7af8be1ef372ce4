//! Whether anything grows with what else is there.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load::crowd::Crowd;
use stanchion_bench::load::growth::{self, Slice};
use stanchion_core::{MutexMode, MutexOptions};

use crate::bed::Bed;
use crate::locks::{Load, pairs};

/// A pair that nobody else wants, beside many.
pub(crate) fn beside(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(300));
    let columns = [Column::time("p50 of a pair"), Column::time("p99"), Column::count("statements a pair")];
    growth::beside(bench, "; on four servers, in lease mode", &columns, 7, |kind, count| {
        let bed = Bed::new()?;
        let crowd = bed.runtime.block_on(Crowd::gather(&bed.store(MutexMode::Lease)?, kind, count))?;
        let measured: Slice<'_> = Box::new(move || {
            let figures = pairs(&bed, std::slice::from_ref(&crowd.free), slice)?;
            Ok(figures[1..=3].to_vec())
        });
        Ok(measured)
    })
}

/// Grants from a queue that is that long.
pub(crate) fn queue(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_secs(1));
    let columns = [Column::rate("grants a second"), Column::count("statements a grant")];
    growth::queue(bench, ", in lease mode", &columns, 3, |waiters| {
        let bed = Bed::new()?;
        let mutex = bed.store(MutexMode::Lease)?.mutex("wanted", MutexOptions::default())?;
        let measured: Slice<'_> = Box::new(move || {
            let figures = Load { bed: &bed, waiters, hold: Duration::ZERO, slice }.run(&mutex)?;
            Ok(vec![figures[0], figures[4]])
        });
        Ok(measured)
    })
}
