//! L1, and refusals without a reason. The quota is ten a second with a burst of ten.

use std::time::Duration;

use stanchion_campaign::history::{Call, Rule, Target, What};
use stanchion_core::{DecidedBy, ErrorKind, Kind, Quota};

use crate::history::scribe::{Scribe, quota};

fn scribe() -> Scribe {
    Scribe::new(Kind::Limiter)
}

/// Adds a call with the store's time; the store's clock is 77 s ahead of the workers' clock.
fn at(scribe: &mut Scribe, op: u64, time: u64, cost: u64, allowed: bool) {
    scribe.took(op, cost, (time - 5, time + 5), Some(time + 77_000_000), allowed);
}

/// Adds a call without the store's time.
fn between(scribe: &mut Scribe, op: u64, span: (u64, u64), cost: u64, allowed: bool) {
    scribe.took(op, cost, span, None, allowed);
}

#[test]
fn l1_is_exact_in_store_time() {
    let mut scribe = scribe();
    at(&mut scribe, 1, 1_000, 10, true);
    at(&mut scribe, 2, 101_000, 1, true);
    at(&mut scribe, 3, 201_000, 1, true);
    scribe.is_right();
    at(&mut scribe, 4, 300_999, 1, true);
    scribe.breaks(&[Rule::OverTheRate]);
}

#[test]
fn l1_without_store_time_counts_what_is_surely_inside() {
    let mut scribe = scribe();
    between(&mut scribe, 1, (0, 500_000), 10, true);
    // Ten at 0, five at 500 000.
    between(&mut scribe, 2, (1_000, 510_000), 5, true);
    scribe.is_right();
    between(&mut scribe, 3, (1_000, 520_000), 1, true);
    scribe.breaks(&[Rule::OverTheRate]);
}

#[test]
fn l1_does_not_count_what_is_not_certain() {
    for answer in [
        Some(What::Failed { error: ErrorKind::Unknown }),
        Some(What::Failed { error: ErrorKind::Unavailable }),
        Some(What::Cancelled),
        Some(What::Decided {
            allowed: true,
            store_time: None,
            retry_after: None,
            by: DecidedBy::OutagePolicy,
        }),
        None,
    ] {
        let mut scribe = scribe();
        at(&mut scribe, 1, 1_000, 10, true);
        scribe.invoked(2_000, 2, Call::Take { cost: 5, quota: quota() });
        if let Some(answer) = answer {
            scribe.event(2_100, 2, answer);
        }
        scribe.is_right();
    }
}

#[test]
fn l1_reservations_count_when_their_time_has_come() {
    let mut scribe = scribe();
    between(&mut scribe, 1, (0, 100), 10, true);
    scribe.invoked(100, 2, Call::Reserve { cost: 5, quota: quota() });
    let allowed = What::Decided { allowed: true, store_time: None, retry_after: None, by: DecidedBy::Store };
    scribe.event(501_000, 2, allowed.clone());
    scribe.is_right();
    scribe.invoked(200, 3, Call::Reserve { cost: 5, quota: quota() });
    scribe.event(502_000, 3, allowed);
    scribe.breaks(&[Rule::OverTheRate]);
}

#[test]
fn l1_a_reset_or_an_unsafe_fault_fills_the_bucket() {
    for fault in [true, false] {
        let mut scribe = scribe();
        at(&mut scribe, 1, 1_000, 10, true);
        if fault {
            scribe.fault(2_000, 3_000, Target::Store, false);
        } else {
            scribe.invoked(2_000, 2, Call::Reset);
            scribe.event(3_000, 2, What::Answered);
        }
        at(&mut scribe, 3, 4_000, 10, true);
        scribe.is_right();
        at(&mut scribe, 4, 5_000, 1, true);
        scribe.breaks(&[Rule::OverTheRate]);
    }
}

#[test]
fn l1_a_new_quota_counts_once_it_is_certain() {
    let mut scribe = scribe();
    let quota = Quota::per(20, Duration::from_secs(1));
    scribe.invoked(2_000, 2, Call::SetQuota { quota });
    scribe.event(3_000, 2, What::Answered);
    at(&mut scribe, 1, 1_000, 10, true);
    at(&mut scribe, 3, 1_001_000, 20, true);
    scribe.is_right();
    at(&mut scribe, 4, 1_002_000, 1, true);
    scribe.breaks(&[Rule::OverTheRate]);
    scribe.events[10].what = What::Failed { error: ErrorKind::Unknown };
    scribe.is_right();
}

#[test]
fn a_refusal_with_room_is_found() {
    let mut scribe = scribe();
    at(&mut scribe, 1, 1_000, 10, true);
    at(&mut scribe, 2, 100_999, 1, false);
    scribe.is_right();
    at(&mut scribe, 3, 101_000, 1, false);
    scribe.breaks(&[Rule::RefusedWithRoom]);
}

#[test]
fn a_refusal_with_room_is_found_without_store_time() {
    let mut scribe = scribe();
    between(&mut scribe, 1, (0, 500_000), 10, true);
    // The token may have been taken as late as 500 000, and is back at 600 000 at the earliest.
    between(&mut scribe, 2, (595_000, 599_000), 1, false);
    between(&mut scribe, 3, (400_000, 410_000), 1, false);
    scribe.is_right();
    between(&mut scribe, 4, (610_000, 620_000), 1, false);
    scribe.breaks(&[Rule::RefusedWithRoom]);
}

#[test]
fn a_refusal_may_be_due_to_a_call_of_unknown_outcome() {
    for exact in [true, false] {
        let mut scribe = scribe();
        let store_time = |time| exact.then_some(time);
        scribe.invoked(1_000, 1, Call::Take { cost: 10, quota: quota() });
        scribe.failed(2_000, 1, ErrorKind::Unknown);
        // The call arrives up to 500 ms late, and ten tokens come back in a second.
        scribe.took(2, 10, (3_000, 3_100), store_time(3_050), false);
        scribe.took(3, 10, (1_400_000, 1_400_100), store_time(1_400_050), false);
        scribe.took(4, 0, (600_000, 600_010), store_time(600_005), true);
        scribe.is_right();
        scribe.took(5, 10, (1_700_000, 1_700_100), store_time(1_700_050), false);
        scribe.breaks(&[Rule::RefusedWithRoom]);
    }
}

/// The process was stopped between the request and the answer.
#[test]
fn a_refusal_may_be_due_to_a_place_that_came_too_late_for_its_caller() {
    let reserved = |answered| {
        let mut scribe = scribe();
        let call = Call::Reserve { cost: 10, quota: quota() };
        scribe.event(1_000, 1, What::Invoked { call, time_limit: Some(400_000) });
        between(&mut scribe, 2, (3_000, 4_000), 1, false);
        let by = DecidedBy::Store;
        scribe.event(answered, 1, What::Decided { allowed: false, store_time: None, retry_after: None, by });
        scribe
    };
    reserved(401_001).is_right();
    reserved(401_000).breaks(&[Rule::RefusedWithRoom]);
}

#[test]
fn a_refusal_of_the_local_cache_is_not_judged() {
    let mut scribe = scribe();
    scribe.invoked(1_000, 1, Call::Take { cost: 1, quota: quota() });
    let refused =
        What::Decided { allowed: false, store_time: None, retry_after: Some(7), by: DecidedBy::LocalCache };
    scribe.event(1_001, 1, refused);
    scribe.is_right();
}
