//! S1, S4, S6.

use stanchion_campaign::history::{Call, Change, Rule, Target, What};
use stanchion_core::{ErrorKind, Kind};

use crate::history::scribe::{Scribe, TTL};

fn scribe() -> Scribe {
    Scribe::new(Kind::Semaphore)
}

/// Records a hold of `weight` permits of a semaphore of five.
fn held(scribe: &mut Scribe, op: u64, weight: u32, times: [u64; 4]) {
    scribe.acquire_of(times[0], op, weight, Some(5));
    scribe.granted_of(times[1], op, 100 + op, weight);
    scribe.released(times[2], times[3], op);
}

fn resize(scribe: &mut Scribe, op: u64, permits: u32, (from, to): (u64, u64)) {
    scribe.invoked(from, op, Call::Resize { permits });
    scribe.event(to, op, What::Answered);
}

fn drained(scribe: &mut Scribe, began: u64, permits: u32) {
    scribe.event(began + 1_000, 8, What::Drained { began, permits });
}

#[test]
fn s1_up_to_the_limit_is_right_and_one_more_is_found() {
    let mut scribe = scribe();
    held(&mut scribe, 1, 2, [0, 10, 100, 110]);
    held(&mut scribe, 2, 3, [0, 20, 100, 110]);
    held(&mut scribe, 3, 5, [0, 100, 200, 210]);
    scribe.is_right();
    held(&mut scribe, 4, 1, [0, 50, 60, 70]);
    scribe.breaks(&[Rule::OverTheLimit]);
}

#[test]
fn s6_after_a_resize_down_nothing_is_granted_until_enough_came_back() {
    let mut scribe = scribe();
    held(&mut scribe, 1, 4, [0, 10, 1_000, 1_010]);
    resize(&mut scribe, 9, 2, (100, 200));
    // The holder keeps its permits; a call that runs at the same time may have been granted before
    // the resize.
    held(&mut scribe, 2, 1, [150, 300, 400, 410]);
    held(&mut scribe, 3, 2, [500, 1_020, 1_100, 1_110]);
    scribe.is_right();
    held(&mut scribe, 4, 1, [500, 600, 700, 710]);
    scribe.breaks(&[Rule::OverTheLimit]);
}

#[test]
fn s6_a_resize_up_counts_from_its_invocation_also_if_its_outcome_is_unknown() {
    let mut scribe = scribe();
    scribe.invoked(5, 9, Call::Resize { permits: 7 });
    scribe.failed(90, 9, ErrorKind::Unknown);
    held(&mut scribe, 1, 5, [0, 10, 1_000, 1_010]);
    held(&mut scribe, 2, 2, [0, 20, 1_000, 1_010]);
    scribe.is_right();
    // The resize certainly failed.
    let failed = scribe.events.iter_mut().find(|event| matches!(event.what, What::Failed { .. })).unwrap();
    failed.what = What::Failed { error: ErrorKind::Unavailable };
    scribe.breaks(&[Rule::OverTheLimit]);
}

#[test]
fn s4_exactly_the_limit_comes_back() {
    let mut scribe = scribe();
    held(&mut scribe, 1, 2, [0, 10, 100, 110]);
    resize(&mut scribe, 9, 6, (200, 210));
    drained(&mut scribe, 300, 6);
    scribe.is_right();
    drained(&mut scribe, 400, 5);
    scribe.breaks(&[Rule::NotConserved]);
    drained(&mut scribe, 500, 7);
    scribe.breaks(&[Rule::NotConserved, Rule::NotConserved]);
}

#[test]
fn s4_a_lost_permit_counts_once_its_lease_is_over() {
    for (began, rules) in [(TTL, &[][..]), (TTL + 600_000, &[Rule::NotConserved])] {
        let mut scribe = scribe();
        scribe.acquire_of(0, 1, 1, Some(5));
        scribe.granted_of(10, 1, 7, 1);
        scribe.process(20, 1, Change::Killed);
        drained(&mut scribe, began, 4);
        scribe.breaks(rules);
    }
}

#[test]
fn s4_an_acquire_of_unknown_outcome_may_be_out() {
    let mut scribe = scribe();
    held(&mut scribe, 2, 1, [0, 10, 20, 30]);
    scribe.acquire_of(0, 1, 1, Some(5));
    scribe.fault(50, 3_000_000, Target::Worker(1), true);
    scribe.failed(100, 1, ErrorKind::Unknown);
    // Its request may have arrived when the fault was over.
    drained(&mut scribe, 4_000_000, 4);
    scribe.is_right();
    drained(&mut scribe, 4_600_000, 4);
    scribe.breaks(&[Rule::NotConserved]);
}

#[test]
fn m2_tokens_of_permits_follow_the_order_of_calls() {
    let mut scribe = scribe();
    held(&mut scribe, 2, 1, [0, 10, 100, 110]);
    held(&mut scribe, 1, 1, [5, 20, 100, 110]);
    scribe.is_right();
    held(&mut scribe, 3, 1, [200, 210, 300, 310]);
    scribe.is_right();
    scribe.acquire_of(200, 4, 1, Some(5));
    scribe.granted_of(220, 4, 1, 1);
    scribe.breaks(&[Rule::TokenOrder]);
}

#[test]
fn s1_an_unsafe_fault_may_give_permits_out_twice() {
    let mut scribe = scribe();
    held(&mut scribe, 1, 5, [0, 10, 2_000, 2_010]);
    scribe.fault(500, 600, Target::Store, false);
    held(&mut scribe, 2, 5, [700, 800, 2_000, 2_010]);
    scribe.is_right();
    scribe.admits(&[Rule::OverTheLimit]);
    held(&mut scribe, 3, 1, [700, 900, 2_000, 2_010]);
    scribe.breaks(&[Rule::OverTheLimit]);
}
