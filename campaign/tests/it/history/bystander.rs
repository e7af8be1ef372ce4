//! C27: a fault of other names.

use stanchion_campaign::history::{Call, Change, Event, ObjectId, Rule, Target, What};
use stanchion_conformance::stopwatch;
use stanchion_core::{ErrorKind, Kind, Name};

use crate::history::scribe::{NEMESIS, Scribe, TTL};

/// The scheduling allowance, in µs.
const EPSILON: u64 = stopwatch::EPSILON.subsec_micros() as u64;

fn another() -> ObjectId {
    ObjectId::new(Kind::Mutex, Name::new("another").unwrap())
}

/// Adds a fault of one object.
fn fault_of(scribe: &mut Scribe, object: ObjectId, from: u64, to: u64) {
    let what = What::FaultBegan { fault: "rows locked".to_owned(), target: Target::Object, safe: true };
    let fault = u64::try_from(scribe.events.len()).unwrap();
    scribe.events.push(Event::new(from, NEMESIS, 0, fault, what).of(object));
    scribe.events.push(Event::new(to, NEMESIS, 0, fault, What::FaultEnded));
}

/// Adds a try of a name at `from` that is refused at `to`.
fn refused(from: u64, to: u64) -> Scribe {
    let mut scribe = Scribe::new(Kind::Mutex);
    let call = Call::Acquire { weight: 1, permits: None, ttl: Some(TTL), waits: false };
    scribe.invoked(from, 1, call);
    scribe.event(to, 1, What::Refused);
    scribe.process(20_000_000, 9, Change::Ended);
    scribe
}

#[test]
fn c27_a_fault_of_another_name_delays_no_call() {
    for (took, rules) in [(EPSILON, &[][..]), (EPSILON + 1, &[Rule::BystanderHarmed])] {
        let mut scribe = refused(5_000_000, 5_000_000 + took);
        scribe.is_right();
        fault_of(&mut scribe, another(), 4_000_000, 9_000_000);
        scribe.breaks(rules);
        // Its own name is concerned as well.
        let own = scribe.object.clone();
        fault_of(&mut scribe, own, 4_500_000, 4_600_000);
        scribe.is_right();
    }
}

#[test]
fn c27_a_fault_is_not_blamed_for_the_time_before_it() {
    let fault = 5_400_000;
    for (took, rules) in [(EPSILON, &[][..]), (EPSILON + 1, &[Rule::BystanderHarmed])] {
        let mut scribe = refused(5_000_000, fault + took);
        fault_of(&mut scribe, another(), fault, 9_000_000);
        scribe.breaks(rules);
    }
}

#[test]
fn c27_a_call_is_allowed_the_small_delays_of_the_machine_and_not_judged_in_large_ones() {
    let late = EPSILON + 80_001;
    for (stall, ended, rules) in [
        (80_001, late, &[][..]),
        (80_000, late, &[Rule::BystanderHarmed]),
        (99_999, 9 * EPSILON, &[Rule::BystanderHarmed]),
        (100_000, 9 * EPSILON, &[]),
    ] {
        let mut scribe = refused(5_000_000, 5_000_000 + ended);
        fault_of(&mut scribe, another(), 4_000_000, 30_000_000);
        // The length of a recorded stall is 1 µs less than that of its span.
        scribe.stood_still(5_200_000, stall - 1);
        scribe.breaks(rules);
    }
}

#[test]
fn c27_a_fault_of_another_name_fails_no_call() {
    let failing = |error| {
        let mut scribe = Scribe::new(Kind::WaitGroup);
        scribe.invoked(5_000_000, 1, Call::Add { limit: None, ttl: Some(TTL) });
        scribe.failed(5_100_000, 1, error);
        fault_of(&mut scribe, another(), 4_000_000, 9_000_000);
        scribe
    };
    failing(ErrorKind::Unavailable).breaks(&[Rule::BystanderHarmed]);
    failing(ErrorKind::Unknown).breaks(&[Rule::BystanderHarmed]);
    // The store had a fault of its own.
    let mut scribe = failing(ErrorKind::Unavailable);
    scribe.fault(3_500_000, 4_001_000, Target::Store, true);
    scribe.is_right();
}

#[test]
fn c27_a_fault_of_another_name_delays_no_release_and_costs_no_hold() {
    let held = |released, what| {
        let mut scribe = Scribe::new(Kind::Mutex);
        scribe.acquire(4_900_000, 1);
        scribe.granted(5_000_000, 1, 5);
        scribe.event(5_100_000, 1, What::Releasing { lease: None });
        scribe.event(released, 1, what);
        fault_of(&mut scribe, another(), 4_000_000, 9_000_000);
        scribe
    };
    held(5_100_000 + EPSILON, What::Released).is_right();
    held(5_100_001 + EPSILON, What::Released).breaks(&[Rule::BystanderHarmed]);
    held(5_200_000, What::ReleaseFailed { error: ErrorKind::Lost }).breaks(&[Rule::BystanderHarmed]);
    held(5_200_000, What::ReleaseFailed { error: ErrorKind::Unknown }).breaks(&[Rule::BystanderHarmed]);
}

/// A fault of a name excuses the waits for that name.
#[test]
fn c18_a_fault_of_the_name_itself_and_a_second_are_excused() {
    let granted = 5_000_001 + 1_000_000 + 2_000_000 + EPSILON;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = Scribe::new(Kind::Mutex);
        scribe.held(1, 5, [0, 10, 900, 1_000]);
        scribe.held(2, 6, [100, granted, granted + 10, granted + 20]);
        let own = scribe.object.clone();
        fault_of(&mut scribe, own, 900, 5_000_000);
        scribe.breaks(rules);
    }
}
