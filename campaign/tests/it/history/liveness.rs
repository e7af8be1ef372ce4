//! C5, C8, C14, C17, C18, M7, W3.

use stanchion_campaign::history::{Call, Change, Rule, Target, What};
use stanchion_conformance::stopwatch;
use stanchion_core::{ErrorKind, Kind};

use crate::history::scribe::{Scribe, TTL};

/// Maximum wait for a free name, in µs: 2 s and ε.
const FREE: u64 = 2_000_000 + EPSILON;
/// The scheduling allowance, in µs.
const EPSILON: u64 = stopwatch::EPSILON.subsec_micros() as u64;

fn scribe() -> Scribe {
    Scribe::new(Kind::Mutex)
}

/// Adds a hold that ends at 1 000, and a waiter since 100 that is granted at `granted`.
fn waiter_until(granted: u64) -> Scribe {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 900, 1_000]);
    scribe.held(2, 6, [100, granted, granted + 10, granted + 20]);
    scribe
}

#[test]
fn c14_a_free_name_is_granted_in_time() {
    waiter_until(1_000 + FREE).is_right();
    waiter_until(1_001 + FREE).breaks(&[Rule::Stuck]);
}

#[test]
fn c14_a_waiter_that_is_never_served_is_found() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 900, 1_000]);
    scribe.acquire(100, 2);
    scribe.process(20_000_000, 9, Change::Ended);
    scribe.breaks(&[Rule::Stuck]);
    // Its process has ended before.
    scribe.process(1_100, 2, Change::Killed);
    scribe.is_right();
}

#[test]
fn c8_a_dead_holder_keeps_the_name_for_its_lease() {
    let granted = 20 + TTL + EPSILON + FREE;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = scribe();
        scribe.acquire(0, 1);
        scribe.granted(10, 1, 5);
        scribe.process(20, 1, Change::Killed);
        scribe.held(2, 6, [100, granted, granted + 10, granted + 20]);
        scribe.breaks(rules);
    }
}

#[test]
fn c8_a_stopped_holder_keeps_the_name_for_its_lease() {
    let granted = 20 + TTL + EPSILON + FREE;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = scribe();
        scribe.acquire(0, 1);
        scribe.granted(10, 1, 5);
        scribe.process(20, 1, Change::Stopped);
        scribe.held(2, 6, [100, granted, granted + 10, granted + 20]);
        scribe.process(granted + 100, 1, Change::Resumed);
        scribe.breaks(rules);
    }
}

#[test]
fn c8_what_is_held_keeps_the_name() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 30_000_000, 30_000_010]);
    scribe.held(2, 6, [100, 30_000_100, 30_000_200, 30_000_300]);
    scribe.is_right();
}

#[test]
fn m7_each_silent_waiter_costs_a_lease() {
    let granted = 1_000 + FREE + TTL + EPSILON;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = waiter_until(granted);
        scribe.acquire(50, 3);
        scribe.process(500, 3, Change::Stopped);
        scribe.breaks(rules);
    }
}

#[test]
fn c18_an_outage_of_the_store_and_a_second_are_excused() {
    let granted = 5_000_001 + 1_000_000 + FREE;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = waiter_until(granted);
        scribe.fault(900, 5_000_000, Target::Store, true);
        scribe.breaks(rules);
    }
}

#[test]
fn c4_a_cancelled_call_leaves_nothing_after_a_second() {
    let calm = 2_000 + 1_000_000 + EPSILON + FREE;
    for (granted, rules) in [(calm, &[][..]), (calm + 1, &[Rule::Stuck])] {
        let mut scribe = waiter_until(granted);
        scribe.acquire(50, 3);
        scribe.event(2_000, 3, What::Cancelled);
        scribe.breaks(rules);
    }
}

#[test]
fn c3_an_unknown_outcome_may_hold_for_a_lease() {
    let granted = 2_000 + TTL + EPSILON + FREE;
    for (granted, rules) in [(granted, &[][..]), (granted + 1, &[Rule::Stuck])] {
        let mut scribe = waiter_until(granted);
        scribe.acquire(50, 3);
        scribe.failed(2_000, 3, ErrorKind::Unknown);
        scribe.breaks(rules);
    }
}

#[test]
fn c17_a_time_limit_is_kept() {
    for (ended, rules) in [(1_000_000 + EPSILON, &[][..]), (1_000_001 + EPSILON, &[Rule::TooLate])] {
        let mut scribe = scribe();
        let call = Call::Acquire { weight: 1, permits: None, ttl: Some(TTL), waits: false };
        scribe.event(0, 1, What::Invoked { call, time_limit: Some(1_000_000) });
        scribe.event(ended, 1, What::Refused);
        scribe.breaks(rules);
        // A process that was stopped meanwhile can answer no sooner.
        scribe.process(10, 1, Change::Stopped);
        scribe.process(20, 1, Change::Resumed);
        scribe.is_right();
    }
}

#[test]
fn c17_the_time_in_which_the_machine_stood_still_is_nobodys() {
    for (ended, rules) in [(1_700_001 + EPSILON, &[][..]), (1_700_002 + EPSILON, &[Rule::TooLate])] {
        let mut scribe = scribe();
        let call = Call::Acquire { weight: 1, permits: None, ttl: Some(TTL), waits: false };
        scribe.event(0, 1, What::Invoked { call, time_limit: Some(1_000_000) });
        scribe.stood_still(900_000, 700_000);
        scribe.event(ended, 1, What::Refused);
        scribe.breaks(rules);
    }
}

#[test]
fn c17_the_time_in_which_a_process_got_no_processor_is_not_that_of_others() {
    for (stalled, rules) in [(1, &[][..]), (2, &[Rule::TooLate])] {
        let mut scribe = scribe();
        scribe.process(0, 1, Change::Started);
        scribe.process(0, 2, Change::Started);
        let call = Call::Acquire { weight: 1, permits: None, ttl: Some(TTL), waits: false };
        scribe.event(1, 1, What::Invoked { call, time_limit: Some(1_000_000) });
        scribe.event(900_000, stalled, What::StoodStill { length: 700_000 });
        scribe.event(1_700_000 + EPSILON, 1, What::Refused);
        scribe.breaks(rules);
    }
}

#[test]
fn c17_many_small_delays_of_a_process_are_nobodys() {
    for (ended, rules) in [(1_700_000 + EPSILON, &[][..]), (1_701_000 + EPSILON, &[Rule::TooLate])] {
        let mut scribe = scribe();
        scribe.process(0, 1, Change::Started);
        let call = Call::Acquire { weight: 1, permits: None, ttl: Some(TTL), waits: false };
        scribe.event(1, 1, What::Invoked { call, time_limit: Some(1_000_000) });
        for at in 1..=35 {
            scribe.event(at * 30_000, 1, What::StoodStill { length: 20_000 });
        }
        scribe.event(ended, 1, What::Refused);
        scribe.breaks(rules);
    }
}

#[test]
fn c17_a_call_that_never_ends_is_found() {
    let mut scribe = scribe();
    scribe.event(0, 1, What::Invoked { call: Call::Wait, time_limit: Some(1_000_000) });
    scribe.process(9_000_000, 2, Change::Ended);
    scribe.breaks(&[Rule::TooLate, Rule::Stuck]);
}

#[test]
fn w3_waiters_return_at_zero() {
    let until = 1_000 + FREE;
    for (ended, rules) in [(until, &[][..]), (until + 1, &[Rule::Stuck])] {
        let mut scribe = Scribe::new(Kind::WaitGroup);
        scribe.invoked(0, 1, Call::Add { limit: None, ttl: Some(TTL) });
        scribe.granted(10, 1, 5);
        scribe.released(900, 1_000, 1);
        scribe.invoked(100, 2, Call::Wait);
        scribe.event(ended, 2, What::Waited { finished: 1, abandoned: 0, expired: 0 });
        scribe.breaks(rules);
    }
}
