//! Whether the cost of an operation grows with the number of other objects.

use std::time::Duration;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::Column;
use stanchion_bench::load::crowd::Crowd;
use stanchion_bench::load::growth::{self, Slice};
use stanchion_bench::load::herd;
use stanchion_core::spi::{Acquire, Ending, Object, ParameterCheck, Purpose, Release, StepsExt};
use stanchion_core::{Kind, MutexOptions, Name, Ticket, Ttl};
use stanchion_redis::RedisBuilder;

use crate::fixture::RedisFixture;
use crate::locks::{Load, pairs};
use crate::peers::OUR_WIRE;

/// Measures an uncontended pair beside many other objects.
pub(crate) fn beside(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(300));
    let columns = [Column::time("p50 of a pair"), Column::time("p99"), Column::count("commands a pair")];
    growth::beside(bench, "; on four servers", &columns, 7, |kind, count| {
        let fixture = RedisFixture::new()?;
        let crowd = fixture.runtime.block_on(Crowd::gather(&fixture.store()?, kind, count))?;
        let measured: Slice<'_> = Box::new(move || {
            let figures = pairs(&fixture, std::slice::from_ref(&crowd.free), OUR_WIRE, slice)?;
            Ok(figures[1..=3].to_vec())
        });
        Ok(measured)
    })
}

/// Measures grants from a queue of a given length.
pub(crate) fn queue(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_secs(1));
    let columns = [Column::rate("grants a second"), Column::count("commands a grant")];
    growth::queue(bench, "", &columns, 3, |waiters| {
        let fixture = RedisFixture::new()?;
        let mutex = fixture.store()?.mutex("wanted", MutexOptions::default())?;
        let measured: Slice<'_> = Box::new(move || {
            let figures =
                Load { fixture: &fixture, waiters, hold: Duration::ZERO, slice }.run(&mutex, OUR_WIRE)?;
            Ok(vec![figures[0], figures[4]])
        });
        Ok(measured)
    })
}

/// Measures grants behind waiters whose process is dead.
pub(crate) fn behind_the_dead(bench: &mut Bench) -> Result<(), Failure> {
    let slice = bench.slice(Duration::from_millis(600));
    let columns = [Column::rate("grants a second"), Column::count("commands a grant")];
    growth::behind_the_dead(bench, "; on four servers", &columns, 5, |dead| {
        let fixture = RedisFixture::new()?;
        let mutex = fixture.store()?.mutex("wanted", MutexOptions::default())?;
        fixture.runtime.block_on(queue_dead(&fixture, dead))?;
        let measured: Slice<'_> = Box::new(move || {
            let figures =
                Load { fixture: &fixture, waiters: 16, hold: Duration::ZERO, slice }.run(&mutex, OUR_WIRE)?;
            Ok(vec![figures[0], figures[4]])
        });
        Ok(measured)
    })
}

/// Measures how long it takes until many that one step lets in are in.
pub(crate) fn herds(bench: &mut Bench) -> Result<(), Failure> {
    let fixture = RedisFixture::new()?;
    let requests = async || Ok(fixture.done(OUR_WIRE).await?.commands);
    herd::herds(bench, "", [0.25, 1.0, 1.5], 5, &fixture.runtime, || fixture.store(), requests)
}

/// Puts waiters into the queue of the mutex, of a process that is not heard any more.
async fn queue_dead(fixture: &RedisFixture, count: usize) -> Result<(), Failure> {
    let steps = RedisBuilder::new(fixture.url())?.steps().await?;
    let object = Object { kind: Kind::Mutex, name: Name::new("wanted")? };
    let lease = Ttl::new(Ttl::MAX)?;
    let ask = |queue| Acquire {
        object: object.clone(),
        ticket: Ticket::random(),
        weight: 1,
        lease,
        limit: 1,
        check: ParameterCheck::Follow,
        queue,
        max_waiters: None,
        label: None,
        purpose: Purpose::Guard,
    };
    // Somebody holds while they come.
    let holder = ask(true);
    steps.callers.ask_all(std::slice::from_ref(&holder)).await.remove(0)?;
    let waiters: Vec<_> = (0..count).map(|_| ask(true)).collect();
    for part in waiters.chunks(128) {
        for answer in steps.callers.ask_all(part).await {
            answer?;
        }
    }
    let Acquire { object, ticket, .. } = holder;
    let release = Release { object, ticket, ending: Ending::Finished, tombstone: None, call: None };
    steps.callers.ask_all(&[release]).await.remove(0)?;
    Ok(())
}
