//! The trials: one fault each.

#![expect(clippy::disallowed_methods, reason = "trials run on a thread of their own, outside of any runtime")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use stanchion_core::Ttl;

use super::measures::{DEAD, belief};
use super::stalls::between;
use super::trial_setup::TrialSetup;
use super::{Error, Measure};
use crate::history::clock;
use stanchion_testbed::faults::{ConnectionCounts, Direction, Mark, Proxy, Request};

type Measured = Result<Vec<(Measure, i64)>, Error>;
type Trial = fn(&mut TrialSetup<'_>) -> Measured;

/// The trials, each with a name that fits into a namespace, and with a measure of it.
pub(super) const TRIALS: [(&str, Measure, Trial); 6] = [
    ("dead-holder", Measure::DeadHolder, dead_holder),
    ("dead-in-a-row", Measure::DeadInARow, dead_in_a_row),
    ("dead-at-once", Measure::DeadAtOnce, dead_at_once),
    ("cut-off", Measure::CutOffLost, cut_off),
    ("lost-wake-up", Measure::LostWakeUp, lost_wake_up),
    ("restart", Measure::RestartCall, restart),
];

/// The time limit until a client listens for wake-ups, and until one comes.
const WAKE_UP_LIMIT: Duration = Duration::from_secs(10);
/// Added to a lease, because the server's clock may be coarser than ours.
const CLOCK_MARGIN: Duration = Duration::from_millis(50);

fn dead_holder(setup: &mut TrialSetup<'_>) -> Measured {
    let (mut line, _observer) = setup.line(1)?;
    sleep(setup.part_of(setup.ttl()));
    let killed = line[0].kill()?;
    Ok(vec![(Measure::DeadHolder, setup.took(killed, line[1].granted()?))])
}

fn dead_in_a_row(setup: &mut TrialSetup<'_>) -> Measured {
    let (mut line, _observer) = setup.line(DEAD)?;
    sleep(setup.part_of(setup.ttl()));
    let first = line[0].kill()?;
    for next in &mut line[1..DEAD] {
        next.granted()?;
        next.kill()?;
    }
    Ok(vec![(Measure::DeadInARow, setup.took(first, line[DEAD].granted()?))])
}

fn dead_at_once(setup: &mut TrialSetup<'_>) -> Measured {
    let (mut line, _observer) = setup.line(DEAD + 1)?;
    sleep(setup.part_of(setup.ttl()));
    // The holder dies last: until then the store owes no grant.
    for waiter in &mut line[1..=DEAD] {
        waiter.kill()?;
    }
    let killed = line[0].kill()?;
    Ok(vec![(Measure::DeadAtOnce, setup.took(killed, line[DEAD + 1].granted()?))])
}

fn cut_off(setup: &mut TrialSetup<'_>) -> Measured {
    let proxy = Proxy::to(&setup.server().url())?;
    let behind = |at| (at == 0).then_some(&proxy);
    let (mut line, _observer) = setup.line_of(1, |setup, at| setup.worker_behind(behind(at)))?;
    // Long enough for a renewal.
    sleep(setup.ttl() + setup.part_of(setup.ttl()));
    let cut = clock::now();
    proxy.black_hole(Direction::Both);
    let (lost, granted) = (line[0].lost()?, line[1].granted()?);
    Ok(vec![
        (Measure::CutOffLost, belief() + setup.took(lost.deadline, lost.at)),
        (Measure::CutOffFree, setup.took(cut, granted)),
        (Measure::CutOffBelief, between(lost.deadline, granted)),
        (Measure::CutOffMargin, between(lost.at, granted)),
    ])
}

/// Waits until `happens` is true.
fn wait_until(what: &str, happens: impl Fn() -> bool) -> Result<(), Error> {
    let end = Instant::now() + WAKE_UP_LIMIT;
    while !happens() {
        if Instant::now() > end {
            return Err(what.into());
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns whether the client behind a proxy listens for wake-ups. Before that, no wake-up could be
/// lost.
fn listens(proxy: &Proxy, begin: Mark) -> bool {
    let counts = proxy.connections();
    let is_answered = |request: &Request| {
        let answered = |count: &ConnectionCounts| count.replies >= request.number;
        counts.iter().any(|count| count.connection == request.connection && answered(count))
    };
    let listens = |request: &Request| match request.name.as_str() {
        // A wake-up that comes earlier is kept in the list.
        "BLPOP" => true,
        "LISTEN" => is_answered(request),
        _ => false,
    };
    !proxy.requests_matching(begin, listens).is_empty()
}

fn lost_wake_up(setup: &mut TrialSetup<'_>) -> Measured {
    // With a short lease the waiter would poll sooner than the poll floor.
    setup.set_ttl(Ttl::DEFAULT.get());
    let proxy = Proxy::to(&setup.server().url())?;
    let begin = proxy.mark();
    let behind = |at| (at == 1).then_some(&proxy);
    let (mut line, _observer) = setup.line_of(1, |setup, at| setup.worker_behind(behind(at)))?;
    wait_until("it does not listen for wake-ups", || listens(&proxy, begin))?;
    sleep(setup.part_of(Duration::from_secs(1)));
    proxy.swallow_wake_ups();
    let released = line[0].release()?;
    let granted = line[1].granted()?;
    // The poll may have been faster than the wake-up.
    wait_until("no wake-up got lost", || proxy.swallowed() > 0)?;
    Ok(vec![(Measure::LostWakeUp, setup.took(released, granted))])
}

fn restart(setup: &mut TrialSetup<'_>) -> Measured {
    let (mut line, mut other) = setup.line(1)?;
    line[0].kill()?;
    setup.server().kill()?;
    sleep(setup.ttl() + CLOCK_MARGIN + setup.part_of(setup.ttl()));
    setup.server().restart()?;
    let up = clock::now();
    other.lock_named("another mutex")?;
    // The waiter's grant can come before `restart` has returned.
    let waiter = setup.took(up, line[1].granted()?).max(0);
    let call = setup.took(up, other.granted()?);
    Ok(vec![(Measure::RestartWaiter, waiter), (Measure::RestartCall, call)])
}
