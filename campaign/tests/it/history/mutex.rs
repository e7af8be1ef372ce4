//! M1, M2, M9, C1, C10.

use stanchion_campaign::history::{Call, Change, Report, Rule, Target, What};
use stanchion_core::{ErrorKind, Kind};

use crate::history::scribe::{BELIEF, Scribe, TTL, ticket, token};

fn scribe() -> Scribe {
    Scribe::new(Kind::Mutex)
}

#[test]
fn one_after_the_other_is_right() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 100, 120]);
    // Granted in the same µs in which the other holder began its release.
    scribe.held(2, 6, [50, 100, 200, 220]);
    scribe.is_right();
}

#[test]
fn m1_two_that_believe_at_once_are_found() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 100, 120]);
    scribe.held(2, 6, [50, 99, 200, 220]);
    scribe.breaks(&[Rule::TwoHolders]);
    let text = scribe.report().violations[0].to_string();
    assert!(text.contains("M1") && text.contains("worker 1 (op 1) and worker 2 (op 2)"), "{text}");
}

#[test]
fn the_report_tells_all_rules_and_a_few_violations_of_each() {
    let mut scribe = scribe();
    scribe.held(1, 90, [0, 10, 9_000, 9_001]);
    for op in 2..9 {
        scribe.held(op, op, [0, 100 * op, 100 * op + 10, 100 * op + 20]);
    }
    let report = scribe.report();
    let text = report.to_string();
    assert!(text.contains("7 violations of TwoHolders (M1):"), "{text}");
    assert!(text.contains("7 violations of TokenOrder (M2):"), "{text}");
    assert_eq!(text.matches("both believed to hold it").count(), Report::PRINTED, "{text}");
    let tally = report.tally(Kind::Mutex);
    assert_eq!((tally.names, tally.calls, tally.grants, tally.violations), (1, 8, 8, 14));
}

#[test]
fn m1_a_long_belief_is_compared_with_all_later_ones() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 1_000, 1_001]);
    scribe.held(2, 6, [0, 2_000, 2_100, 2_101]);
    scribe.held(3, 7, [0, 2_050, 9_000, 9_001]);
    scribe.held(4, 8, [0, 8_000, 9_000, 9_001]);
    scribe.breaks(&[Rule::TwoHolders, Rule::TwoHolders]);
}

#[test]
fn m1_a_belief_ends_at_the_deadline() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.held(2, 6, [50, 10 + BELIEF, 2_000_000, 2_000_001]);
    scribe.is_right();
    // Except if it was renewed.
    scribe.event(500_000, 1, What::Renewed { deadline: 500_000 + BELIEF });
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn m1_a_stopped_process_believes_until_its_deadline() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.process(20, 1, Change::Stopped);
    scribe.held(2, 6, [50, BELIEF, 1_500_000, 1_500_001]);
    scribe.process(3_000_000, 1, Change::Resumed);
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn m1_a_belief_that_was_seen_counts_without_a_record_of_the_renewal() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    let seen = What::Believed { held: true, deadline: Some(3_000_000) };
    scribe.event(2_000_000, 1, seen);
    scribe.released(2_500_000, 2_500_010, 1);
    scribe.is_right();
    scribe.held(2, 6, [50, 1_500_000, 1_600_000, 1_600_001]);
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn m1_death_and_loss_end_a_belief() {
    for killed in [true, false] {
        let mut scribe = scribe();
        scribe.acquire(0, 1);
        scribe.granted(10, 1, 5);
        if killed {
            scribe.process(1_000, 1, Change::Killed);
        } else {
            scribe.event(1_000, 1, What::Lost);
        }
        scribe.held(2, 6, [50, 1_000, 2_000, 2_001]);
        scribe.is_right();
    }
}

#[test]
fn m1_a_process_that_ended_believed_until_its_last_event() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.event(500, 1, What::Believed { held: true, deadline: None });
    scribe.process(1_000, 1, Change::Ended);
    scribe.held(2, 6, [50, 500, 2_000, 2_001]);
    scribe.is_right();
    scribe.held(3, 7, [50, 499, 499, 500]);
    scribe.held(4, 4, [50, 400, 410, 420]);
    scribe.breaks(&[Rule::TwoHolders, Rule::TokenOrder]);
}

#[test]
fn m8_a_forced_release_takes_the_name_away() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.invoked(500, 3, Call::Force { ticket: None });
    scribe.event(700, 3, What::Answered);
    scribe.held(2, 6, [50, 600, 2_000, 2_001]);
    scribe.is_right();
    // A hold that was requested after the fault cannot have been taken away.
    scribe.held(4, 7, [3_000, 3_100, 4_000, 4_001]);
    scribe.held(5, 8, [3_000, 3_500, 4_000, 4_001]);
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn m1_an_unsafe_fault_may_break_exclusion_and_never_tokens() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.fault(500, 600, Target::Store, false);
    scribe.held(2, 6, [700, 800, 2_000, 2_001]);
    scribe.is_right();
    scribe.admits(&[Rule::TwoHolders]);
    let text = scribe.report().to_string();
    assert!(text.contains("1 admitted under unsafe faults: TwoHolders (M1):"), "{text}");
    assert!(text.contains("no violation") && text.contains("under a fault"), "{text}");
    scribe.held(3, 4, [2_100, 2_200, 2_300, 2_301]);
    scribe.breaks(&[Rule::TokenOrder]);
}

#[test]
fn m1_what_is_asked_for_after_an_unsafe_fault_is_excused_by_nothing() {
    let mut scribe = scribe();
    scribe.fault(500, 600, Target::Store, false);
    scribe.held(1, 5, [700, 800, 2_000, 2_001]);
    scribe.held(2, 6, [700, 900, 2_000, 2_001]);
    scribe.breaks(&[Rule::TwoHolders]);
    scribe.admits(&[]);
}

#[test]
fn m9_an_unsafe_fault_excuses_no_write_out_of_order() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.wrote(20, 30, 1, 5, 1);
    scribe.fault(500, 600, Target::Store, false);
    scribe.acquire(700, 2);
    scribe.granted(800, 2, 6);
    scribe.wrote(810, 820, 2, 6, 2);
    scribe.write_refused(830, 840, 1, 5);
    scribe.is_right();
    scribe.wrote(850, 860, 1, 5, 3);
    scribe.breaks(&[Rule::StaleWriteTaken]);
    scribe.admits(&[Rule::TwoHolders]);
}

#[test]
fn a_safe_fault_excuses_nothing() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.fault(500, 600, Target::Store, true);
    scribe.held(2, 6, [700, 800, 2_000, 2_001]);
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn m2_smaller_and_equal_tokens_are_found() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 100, 120]);
    scribe.held(2, 5, [50, 130, 200, 220]);
    scribe.breaks(&[Rule::TokenOrder]);
    for invoked in [50, 125] {
        let mut scribe = self::scribe();
        scribe.held(1, 5, [0, 10, 100, 120]);
        scribe.held(2, 4, [invoked, 130, 200, 220]);
        scribe.breaks(&[Rule::TokenOrder]);
    }
}

#[test]
fn m2_a_grant_that_was_never_believed_may_be_written_late() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.held(2, 6, [50, 1_500_000, 1_600_000, 1_600_001]);
    // Stopped between the return of `lock` and its record, past its deadline.
    let late = What::Granted { ticket: ticket(1), token: token(5), deadline: Some(900_000), weight: 1 };
    scribe.event(1_700_000, 1, late);
    scribe.is_right();
}

#[test]
fn c1_a_ticket_is_used_once() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 100, 120]);
    scribe.acquire(200, 2);
    scribe.event(210, 2, What::Granted { ticket: ticket(1), token: token(6), deadline: None, weight: 1 });
    scribe.breaks(&[Rule::SameTicket]);
}

#[test]
fn c24_an_attached_hold_keeps_its_token() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.event(100, 1, What::Releasing { lease: Some(TTL) });
    scribe.event(110, 1, What::Released);
    scribe.invoked(120, 2, Call::Attach { ticket: ticket(1), ttl: Some(TTL) });
    scribe.granted(130, 2, 5);
    scribe.wrote(140, 150, 2, 5, 1);
    scribe.is_right();
    scribe.held(3, 6, [50, 140, 200, 201]);
    scribe.breaks(&[Rule::TwoHolders]);
}

#[test]
fn c10_a_belief_from_the_deadline_on_is_found() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    let event = What::Believed { held: true, deadline: Some(1_000_000) };
    scribe.event(999_999, 1, event.clone());
    scribe.is_right();
    scribe.event(1_000_200, 1, event);
    scribe.breaks(&[Rule::BelievedTooLong]);
}

#[test]
fn c10_a_lost_hold_stays_lost() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.event(100, 1, What::Lost);
    scribe.event(200, 1, What::Believed { held: true, deadline: None });
    scribe.breaks(&[Rule::BelievedTooLong]);
}

#[test]
fn m9_writes_in_the_order_of_tokens_are_right() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.wrote(20, 30, 1, 5, 1);
    scribe.wrote(30, 40, 1, 5, 3);
    // After its deadline, the older holder may write until the newer one has written.
    scribe.held(2, 6, [0, 1_000_000, 1_500_000, 1_500_001]);
    scribe.wrote(1_000_100, 1_000_200, 1, 5, 4);
    scribe.wrote(1_000_050, 1_000_300, 2, 6, 7);
    scribe.write_refused(1_000_310, 1_000_320, 1, 5);
    scribe.is_right();
    scribe.wrote(1_000_320, 1_000_330, 1, 5, 8);
    scribe.breaks(&[Rule::StaleWriteTaken]);
}

#[test]
fn m9_a_second_ticket_and_a_second_place_are_found() {
    let mut scribe = scribe();
    scribe.acquire(0, 1);
    scribe.granted(10, 1, 5);
    scribe.wrote(20, 30, 1, 5, 1);
    let other = What::Wrote { began: 40, token: token(5), ticket: ticket(77), sequence: 2 };
    scribe.event(50, 1, other);
    scribe.breaks(&[Rule::StaleWriteTaken]);
    scribe.events.pop();
    scribe.wrote(40, 50, 1, 5, 1);
    scribe.breaks(&[Rule::StaleWriteTaken]);
}

#[test]
fn m9_the_rightful_holder_is_not_refused() {
    let mut scribe = scribe();
    scribe.held(1, 5, [0, 10, 100, 120]);
    scribe.acquire(0, 2);
    scribe.granted(200, 2, 6);
    // Begun before the grant, or ended after the deadline: the resource may take or refuse the
    // write.
    scribe.write_refused(190, 300, 2, 6);
    scribe.write_refused(300, 200 + BELIEF, 2, 6);
    scribe.is_right();
    scribe.write_refused(300, 400, 2, 6);
    scribe.breaks(&[Rule::RightfulWriteRefused]);
}

#[test]
fn a_record_that_contradicts_itself_is_found() {
    let mut scribe = scribe();
    scribe.event(10, 1, What::Lost);
    scribe.acquire(20, 2);
    scribe.event(30, 2, What::Refused);
    scribe.failed(40, 2, ErrorKind::Unknown);
    scribe.acquire(50, 2);
    scribe.event(60, 2, What::Released);
    scribe.breaks(&[Rule::BrokenRecord; 4]);
}
