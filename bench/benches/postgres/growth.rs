//! Whether the cost of an operation grows with the number of other objects.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load::crowd::Crowd;
use stanchion_bench::load::growth::{self, Slice};
use stanchion_bench::load::herd;
use stanchion_core::{MutexMode, MutexOptions};

use crate::fixture::PostgresFixture;
use crate::locks::{Load, pairs};

/// Measures an uncontended pair beside many other objects.
pub(crate) fn beside(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(300));
    let columns = [Column::time("p50 of a pair"), Column::time("p99"), Column::count("statements a pair")];
    growth::beside(bench, "; on four servers, in lease mode", &columns, 7, |kind, count| {
        let fixture = PostgresFixture::new()?;
        let crowd =
            fixture.runtime.block_on(Crowd::gather(&fixture.store(MutexMode::Lease)?, kind, count))?;
        let measured: Slice<'_> = Box::new(move || {
            let figures = pairs(&fixture, std::slice::from_ref(&crowd.free), slice)?;
            Ok(figures[1..=3].to_vec())
        });
        Ok(measured)
    })
}

/// Measures grants from a queue of a given length.
pub(crate) fn queue(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_secs(1));
    let columns = [Column::rate("grants a second"), Column::count("statements a grant")];
    growth::queue(bench, ", in lease mode", &columns, 3, |waiters| {
        let fixture = PostgresFixture::new()?;
        let mutex = fixture.store(MutexMode::Lease)?.mutex("wanted", MutexOptions::default())?;
        let measured: Slice<'_> = Box::new(move || {
            let figures = Load { fixture: &fixture, waiters, hold: Duration::ZERO, slice }.run(&mutex)?;
            Ok(vec![figures[0], figures[4]])
        });
        Ok(measured)
    })
}

/// Measures how long it takes until many that one step lets in are in.
pub(crate) fn herds(bench: &mut Bench) -> Result<(), Failure> {
    let fixture = PostgresFixture::new()?;
    let requests = async || Ok(fixture.done().await?.statements);
    let open = || fixture.store(MutexMode::Lease);
    herd::herds(bench, ", in lease mode", [0.5, 2.0, 4.0], 5, &fixture.runtime, open, requests)
}
