//! The suite's own test: every planted bug is caught by the case named for it.

use std::time::Duration;

use crate::harness::MemoryHarness;
use stanchion_campaign::mutants::{Bug, Detection, MutantHarness};
use stanchion_conformance::suite::{Verdict, find, verdict};

/// Long enough for every case here, and short enough for one that a bug holds up.
const LIMIT: Duration = Duration::from_secs(20);
/// Half of this lease is longer than a machine stands still.
const LONG_LEASE: Duration = Duration::from_secs(5);

fn verdict_with(bug: Option<Bug>, path: &str, harness: fn() -> MemoryHarness) -> Verdict {
    let case = find(path).unwrap_or_else(|| panic!("there is no case {path}"));
    verdict(case, LIMIT, move || async move { MutantHarness::new(harness(), bug) })
}

fn caught_on(harness: fn() -> MemoryHarness, bug: Bug, path: &str) -> Detection {
    let verdict = |bug| verdict_with(bug, path, harness);
    Detection::by_case(path, verdict(Some(bug)), &verdict(None))
}

/// What each of these cases says of the bug.
fn caught(bug: Bug, paths: &[&str]) -> Vec<Detection> {
    paths.iter().map(|path| caught_on(MemoryHarness::new, bug, path)).collect()
}

stanchion_campaign::mutants! {
    Memory;
    c11_release_without_owner: ReleaseWithoutOwner =>
        |bug| caught(bug, &["as_mutex::c11_a_stale_release_is_lost_and_frees_nobody"]);
    m1_deadline_from_reply: DeadlineFromReply =>
        |bug| caught(bug, &["as_mutex::m1_an_expired_holder_stops_believing_first"]);
    c8_half_lease: HalfLease =>
        |bug| vec![caught_on(
            || MemoryHarness::with_ttl(LONG_LEASE),
            bug,
            "as_mutex::c8_an_abandoned_hold_is_free_after_its_lease",
        )];
    c10_held_until_told: HeldUntilTold =>
        |bug| caught(bug, &["as_mutex::c10_is_held_ends_at_the_deadline_exactly"]);
    c9_never_lost: NeverLost => |bug| caught(bug, &["as_mutex::c9_lost_resolves_at_the_deadline"]);
    m3_restarted_tokens: RestartedTokens =>
        |bug| caught(bug, &["as_mutex::m3_fencing_token_grows_after_data_loss"]);
    c14_lost_wake_up: LostWakeUp => |bug| caught(bug, &["as_mutex::c14_a_release_wakes_the_next_waiter"]);
    c16_barging: Barging =>
        |bug| caught(bug, &[
            "as_mutex::c16_first_come_first_served",
            "as_mutex::c16_try_lock_says_no_while_a_live_waiter_queues",
        ]);
    c4_cancelled_acquire_leaks: CancelledAcquireLeaks =>
        |bug| caught(bug, &["as_mutex::c4_dropped_waiter_leaves_the_queue"]);
    c17_short_limit_is_none: ShortLimitIsNone => |bug| caught(bug, &["as_mutex::c17_a_time_limit_is_kept"]);
    s1_new_ticket_on_retry: NewTicketOnRetry =>
        |bug| caught(bug, &["semaphore::s1_exactly_the_limit_is_granted"]);
    s1_over_the_limit: OverTheLimit =>
        |bug| caught(bug, &["semaphore::s1_live_permits_never_exceed_the_limit"]);
    c20_silent_mismatch: SilentMismatch =>
        |bug| caught(bug, &[
            "semaphore::c20_another_limit_is_refused_naming_both",
            "bloom::b5_c20_other_parameters_are_never_silent",
        ]);
    c28_one_namespace: OneNamespace => |bug| caught(bug, &["namespaces::c28_namespaces_share_no_state"]);
    c19_glob_prefix: GlobPrefix => |bug| caught(bug, &["listing::c19_names_and_prefixes_are_taken_as_they_are"]);
    lists_first_page_only: ListsFirstPageOnly =>
        |bug| caught(bug, &["listing::c23_a_name_that_stays_is_on_a_page"]);
    c19_folded_names: FoldedNames => |bug| caught(bug, &["all_kinds::c19_every_legal_name_is_its_own_mutex"]);
    c25_idle_names_are_kept: IdleNamesAreKept =>
        |bug| caught(bug, &["all_kinds::c25_idle_names_leave_nothing"]);
    w6_absent_is_zero: AbsentIsZero => |bug| caught(bug, &["wait_group::w6_absent_is_not_zero"]);
    w2_unknown_done_is_fine: UnknownDoneIsFine => |bug| caught(bug, &["wait_group::w2_done_counts_once"]);
    l1_rounded_interval: RoundedInterval => |bug| caught(bug, &["limiter::l1_intervals_are_not_rounded"]);
    l1_doubled_burst: DoubledBurst =>
        |bug| caught(bug, &["limiter::l1_l2_a_window_admits_burst_and_rate"]);
    l7_dropped_reservation_is_kept: DroppedReservationIsKept =>
        |bug| caught(bug, &["limiter::l7_a_dropped_reservation_is_cancelled"]);
    b3_looked_up_then_inserted: LookedUpThenInserted =>
        |bug| caught(bug, &["bloom::b3_one_of_many_is_told"]);
    b5_opening_clears: OpeningClears => |bug| caught(bug, &["bloom::b5_opening_never_clears"]);
    b6_loss_is_empty: LossIsEmpty => |bug| caught(bug, &["bloom::b6_what_was_lost_is_not_absent"]);
    b4_lowest_bit_first: LowestBitFirst =>
        |bug| caught(bug, &["bloom::b4_exported_bytes_are_those_of_the_layout"]);
}
