//! The suites find mistakes: if the store breaks one of these rules, a case about steps and a case
//! about stores fail. Both pass without the mistake.

use std::time::Duration;

use stanchion_conformance::steps;
use stanchion_conformance::suite::{self, Verdict};
use third_store::Mistake;

use crate::common::Fixture;

const LIMIT: Duration = Duration::from_secs(60);

/// A case, and words in its message if it fails for the right reason.
type Detection = (&'static str, &'static str);

fn caught(mistake: Mistake, by_steps: Detection, by_store: Detection) {
    let (path, _) = by_steps;
    let without = steps::verdict(path, LIMIT, || async { Fixture::new() });
    let with = steps::verdict(path, LIMIT, move || async move { Fixture::with(mistake) });
    judge(mistake, by_steps, &without, &with);
    caught_by_the_store(mistake, by_store);
}

/// A mistake in a clause of which the steps alone have no case.
fn caught_by_the_store(mistake: Mistake, detection: Detection) {
    let (path, _) = detection;
    let case = suite::find(path).unwrap_or_else(|| panic!("there is no case {path}"));
    let without = suite::verdict(case, LIMIT, || async { Fixture::new() });
    let with = suite::verdict(case, LIMIT, move || async move { Fixture::with(mistake) });
    judge(mistake, detection, &without, &with);
}

fn judge(mistake: Mistake, (path, words): Detection, without: &Verdict, with: &Verdict) {
    assert_eq!(*without, Verdict::Passed, "{path} without a mistake");
    match with {
        Verdict::Failed(message) if message.contains(words) => {
            println!("{path} catches {mistake:?}: {message}")
        }
        other => panic!("{path} does not catch {mistake:?}: {other:?}"),
    }
}

#[test]
fn a_repeated_ticket_that_takes_a_second_hold_is_caught() {
    caught(
        Mistake::GrantsAgain,
        ("grants::c2_a_retried_acquire_gives_the_same_token_and_no_second_hold", "left == right"),
        ("under_faults::c2_s7_a_retried_acquire_is_one_hold", "one permit is out"),
    );
}

#[test]
fn a_retried_acquire_that_keeps_the_old_lease_is_caught() {
    caught(
        Mistake::KeepsTheOldLease,
        ("grants::c2_a_retried_acquire_has_its_lease_anew", "left == right"),
        ("under_faults::c2_c8_a_retried_acquire_has_its_lease_anew", "somebody else was granted"),
    );
}

#[test]
fn a_cancel_without_a_tombstone_is_caught() {
    caught(
        Mistake::LeavesNoTombstone,
        ("ends::c4_a_cancel_that_overtakes_its_acquire_leaves_a_tombstone", "right: Cancelled"),
        (
            "under_faults::c4_a_late_copy_of_a_dropped_acquire_is_refused",
            "a late copy of a cancelled acquire",
        ),
    );
}

#[test]
fn a_release_call_that_is_forgotten_is_caught() {
    caught(
        Mistake::ForgetsCalls,
        ("ends::c2_a_release_call_is_answered_the_same_when_it_is_sent_again", "again"),
        ("under_faults::c11_a_retried_release_is_told_the_same", "its own release, named by its call"),
    );
}

#[test]
fn a_refused_acquire_that_stores_its_limit_is_caught() {
    caught_by_the_store(
        Mistake::StoresRefusedLimits,
        ("semaphore::c20_a_refused_call_stores_nothing", "nothing was replaced"),
    );
}

#[test]
fn an_attach_that_takes_any_hold_is_caught() {
    caught(
        Mistake::AttachesAnything,
        ("ends::c24_an_attach_takes_the_hold_over_once", "left == right"),
        ("as_mutex::c24_the_second_attach_is_lost", "one wins"),
    );
}
