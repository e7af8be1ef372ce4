//! The suite is no decoration: with any one of these rules left out of the store, a case fails that passes with it.

use std::time::Duration;

use stanchion_conformance::steps::verdict;
use stanchion_conformance::suite::Verdict;
use third_store::Mistake;

use crate::harness::Bed;

const LIMIT: Duration = Duration::from_secs(20);

/// Requires that the case fails with the mistake, saying these words, and passes without it.
fn caught(mistake: Mistake, case: &str, words: &str) {
    assert_eq!(verdict(case, LIMIT, || async { Bed::new() }), Verdict::Passed, "{case} without a mistake");
    match verdict(case, LIMIT, move || async move { Bed::with(mistake) }) {
        Verdict::Failed(message) if message.contains(words) => {
            println!("{mistake:?} is caught by {case}: {message}");
        }
        other => panic!("{case} does not catch {mistake:?}: {other:?}"),
    }
}

#[test]
fn a_repeated_ticket_that_takes_a_second_hold_is_caught() {
    let case = "grants::c2_a_retried_acquire_gives_the_same_token_and_no_second_hold";
    caught(Mistake::GrantsAgain, case, "left == right");
}

#[test]
fn a_retried_acquire_that_keeps_the_old_lease_is_caught() {
    let case = "grants::c2_a_retried_acquire_has_its_lease_anew";
    caught(Mistake::KeepsTheOldLease, case, "left == right");
}

#[test]
fn a_cancel_without_a_tombstone_is_caught() {
    let case = "ends::c4_a_cancel_that_overtakes_its_acquire_leaves_a_tombstone";
    caught(Mistake::LeavesNoTombstone, case, "right: Cancelled");
}

#[test]
fn a_release_call_that_is_forgotten_is_caught() {
    let case = "ends::c2_a_release_call_is_answered_the_same_when_it_is_sent_again";
    caught(Mistake::ForgetsCalls, case, "again");
}
