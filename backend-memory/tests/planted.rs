//! The suite's own test: every planted bug is caught by the case named for it.

mod harness;

use std::time::Duration;

use harness::MemoryHarness;
use stanchion_conformance::plant::{Bug, PlantedHarness};
use stanchion_conformance::suite::{Verdict, find, verdict};

/// Long enough for every case here, and short enough for one that a bug holds up.
const LIMIT: Duration = Duration::from_secs(20);

fn verdict_with(bug: Option<Bug>, path: &str) -> Verdict {
    let case = find(path).unwrap_or_else(|| panic!("there is no case {path}"));
    verdict(case, LIMIT, move || async move { PlantedHarness::new(MemoryHarness::new(), bug) })
}

fn check(bug: Bug, path: &str) {
    let with = verdict_with(Some(bug), path);
    assert!(matches!(with, Verdict::Failed(_)), "{path} does not catch {bug:?}: {with:?}");
    println!("{bug:?} is caught by {path}: {with:?}");
    assert_eq!(verdict_with(None, path), Verdict::Passed, "{path} fails without the bug");
}

macro_rules! caught {
    ($($test:ident: $bug:ident => $($path:literal),+;)+) => {
        $(
            #[test]
            fn $test() {
                $(check(Bug::$bug, $path);)+
            }
        )+
    };
}

caught! {
    release_without_owner: ReleaseWithoutOwner => "as_mutex::c11_a_stale_release_is_lost_and_frees_nobody";
    deadline_from_reply: DeadlineFromReply => "as_mutex::m1_an_expired_holder_stops_believing_first";
    half_lease: HalfLease => "as_mutex::c8_an_abandoned_hold_is_free_after_its_lease";
    held_until_told: HeldUntilTold => "as_mutex::c10_is_held_ends_at_the_deadline_exactly";
    never_lost: NeverLost => "as_mutex::c9_lost_resolves_at_the_deadline";
    restarted_tokens: RestartedTokens => "as_mutex::m3_fencing_token_grows_after_data_loss";
    lost_wake_up: LostWakeUp => "as_mutex::c14_a_release_wakes_the_next_waiter";
    barging: Barging =>
        "as_mutex::c16_first_come_first_served",
        "as_mutex::c16_try_lock_says_no_while_a_live_waiter_queues";
    cancelled_acquire_leaks: CancelledAcquireLeaks => "as_mutex::c4_dropped_waiter_leaves_the_queue";
    short_limit_is_none: ShortLimitIsNone => "as_mutex::c17_a_time_limit_is_kept";
    new_ticket_on_retry: NewTicketOnRetry => "semaphore::s1_exactly_the_limit_is_granted";
    over_the_limit: OverTheLimit => "semaphore::s1_live_permits_never_exceed_the_limit";
    silent_mismatch: SilentMismatch => "semaphore::c20_another_limit_is_refused_naming_both";
    folded_names: FoldedNames => "all_kinds::c19_every_legal_name_is_its_own_mutex";
    idle_names_are_kept: IdleNamesAreKept => "all_kinds::c25_idle_names_leave_nothing";
    absent_is_zero: AbsentIsZero => "wait_group::w6_absent_is_not_zero";
    unknown_done_is_fine: UnknownDoneIsFine => "wait_group::w2_done_counts_once";
    rounded_interval: RoundedInterval => "limiter::l1_l2_a_window_admits_burst_and_rate";
    dropped_reservation_is_kept: DroppedReservationIsKept => "limiter::l7_a_dropped_reservation_is_cancelled";
}
