//! The cases about steps, and the lists of them: one for each trait of steps, and one of the cases
//! that set the clock.
//!
//! As in the suite for stores, a case is named after the clauses it asserts, uses its own names,
//! and needs no other case.

mod arithmetic;
mod batches;
mod bounds;
mod clocked;
mod ends;
mod flights;
mod grants;
mod groups;
mod listing;
mod liveness;
mod members;
mod queue;
mod records;
mod stress;

use std::sync::LazyLock;

use super::harness::{ClockHarness, StepHarness};
use crate::case::Case;

/// The list of cases about mutexes and semaphores.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_permit_step_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { grants } [
                c2_a_retried_acquire_gives_the_same_token_and_no_second_hold,
                c2_a_retried_acquire_has_its_lease_anew,
                c2_a_retry_finds_its_hold_and_its_label,
                c5_entries_of_one_batch_meet_each_other,
                c7_c8_expiry_is_judged_by_the_clock_after_the_wait_for_a_record,
                c8_an_expired_hold_is_grantable_and_stays_gone,
                c8_a_renewed_hold_lasts_from_its_renewal,
                c8_an_expired_hold_is_not_released_and_the_name_is_free,
                c13_many_holds_are_renewed_by_one_command,
                m2_tokens_grow_with_every_grant,
                m3_tokens_grow_also_when_the_store_lost_its_data,
                m3_a_stored_token_ahead_of_the_clock_is_passed,
                c19_any_name_is_its_own_object,
                c23_inspect_tells_holders_labels_and_waiters,
                c23_c27_all_of_thousands_of_holds_are_told,
            ]
            { ends } [
                c4_a_cancel_that_overtakes_its_acquire_leaves_a_tombstone,
                c4_a_cancelled_hold_is_free_and_a_late_copy_of_its_acquire_refused,
                c4_a_cancelled_waiter_is_gone_and_the_next_one_woken,
                c4_a_cancel_of_what_was_answered_leaves_no_tombstone,
                c4_a_release_in_doubt_refuses_a_late_copy_of_its_acquire,
                c2_a_release_call_is_answered_the_same_when_it_is_sent_again,
                c11_a_release_frees_its_own_hold_only,
                c24_an_attach_takes_the_hold_over_once,
                c24_a_hold_that_nobody_queued_for_is_taken_over,
                c24_a_cancelled_attach_is_refused,
                m8_force_frees_and_wakes,
                c25_a_used_name_keeps_its_token_and_an_idle_one_forgets_its_limit,
            ]
            { queue } [
                c14_a_release_pushes_to_the_next_waiters_process,
                c14_without_any_hint_a_poll_tells_whose_turn_it_is,
                c14_c16_all_who_fit_together_come_in_any_order,
                c14_expiry_found_by_a_poll_wakes_the_others,
                c16_first_come_first_served_across_processes,
                c16_within_a_batch_nobody_overtakes_who_joined_earlier,
                c16_who_stops_queueing_leaves_the_queue,
                s2_many_permits_are_one_decision,
                s5_a_large_request_in_front_is_not_starved_by_small_ones,
            ]
            { bounds } [
                s6_resize_up_wakes_and_down_revokes_nobody,
                c20_limits_are_compared_once_and_then_followed,
                c20_a_queued_request_larger_than_the_new_limit_is_told,
                c26_the_queue_is_bounded,
                c5_c26_silent_waiters_do_not_fill_the_queue,
            ]
            { liveness } [
                c5_c16_a_silent_waiter_is_passed_over_and_first_again_when_heard,
                c16_who_was_silent_while_others_were_let_in_is_in_front_again,
                c16_a_place_that_is_kept_is_that_of_a_live_waiter,
                c16_a_silent_waiter_loses_its_place_after_its_lease,
                c23_a_place_that_has_ended_is_not_counted,
                c16_try_lock_says_no_while_a_live_waiter_queues_and_passes_the_silent,
                c5_dead_waiters_alone_cost_a_caller_once_two_seconds_at_most,
                c5_rare_attempts_pass_the_dead_after_one_grace,
                c16_nobody_is_judged_dead_right_after_a_stall_of_the_store,
                c16_c23_right_after_a_stall_of_the_store_its_waiters_count,
                c16_c23_right_after_a_restart_of_the_store_its_waiters_count,
                c16_the_order_survives_a_restart_of_the_store,
                c16_a_lost_queue_is_told_by_another_birth,
                c18_a_waiter_that_made_the_record_notices_when_it_is_gone,
            ]
            { records } [
                s4_all_that_is_kept_of_a_semaphore_agrees_whatever_is_done,
                m1_all_that_is_kept_of_a_mutex_agrees_whatever_is_done,
            ]
            { batches } [
                s2_batches_over_the_same_names_in_opposite_orders_never_deadlock,
                c16_a_batch_is_carried_out_in_order_whatever_is_in_it,
                s4_a_batch_over_many_names_decides_as_each_of_its_entries_alone,
                c16_a_mixed_batch_answers_each_entry_as_if_it_were_alone,
            ]
            { stress } [
                s1_s4_the_limit_holds_and_every_permit_comes_back,
                s3_permits_of_the_dead_come_back_once,
                s1_m2_concurrent_batches_never_exceed_the_limit_and_tokens_grow,
            ]
        }
    };
}

/// The list of cases about wait groups, and the members they
/// count.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_group_step_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { groups } [
                w4_w5_generations_are_counted_and_their_outcomes_told,
                w4_expiry_ends_a_generation_before_the_step_that_finds_it,
                w4_thousands_that_expire_together_are_all_counted,
                c4_a_generation_of_cancelled_calls_never_had_a_member,
                w4_what_is_forgotten_is_in_the_sum,
                w3_every_watching_process_gets_one_hint_at_the_end,
                w6_another_record_has_another_birth,
                c25_w6_zero_is_kept_for_the_retention_time,
            ]
            { members } [
                w2_w8_a_call_is_answered_the_same_when_it_is_sent_again,
                c2_a_split_is_made_once,
                c4_a_cancel_that_overtakes_the_split_leaves_no_member,
                c24_w4_a_moved_member_is_counted_where_it_ends,
                w4_whoever_was_added_has_ended_is_cancelled_or_lives,
                w2_all_that_is_kept_of_a_group_agrees_whatever_is_done,
            ]
        }
    };
}

/// The list of cases about limiters, by the store's own
/// clock.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_limit_step_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { flights } [
                l5_a_flight_is_charged_once_whatever_its_retry_asks,
                l5_l6_the_waits_of_a_remembered_answer_count_from_its_retry,
                l7_c4_a_refund_is_told_once_and_refuses_what_it_overtook,
                c20_a_call_that_takes_nothing_makes_no_bucket,
                c19_every_name_is_a_name_of_its_own,
                l1_callers_over_many_connections_never_exceed_the_bound,
            ]
        }
    };
}

/// The list of cases about listings, of a store that has all
/// other steps.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_list_step_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { listing } [
                c27_the_parts_are_bounded_and_together_complete,
                c25_what_is_kept_for_retries_is_not_listed,
                c23_expired_holds_never_count,
                c23_waiters_that_lost_their_places_never_count,
                c16_c23_right_after_a_stall_of_the_store_its_waiters_are_listed,
                c2_a_listing_changes_nothing,
                c19_a_position_that_no_part_has_given_is_refused,
            ]
        }
    };
}

/// The list of cases that set the store's clock.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_clock_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { arithmetic } [
                l3_decisions_agree_with_the_table,
                l5_a_retry_counts_its_waits_from_its_own_time,
                l3_decisions_agree_with_the_bucket,
                l7_what_was_taken_can_pass_2_to_the_53,
            ]
            { clocked } [
                l5_a_retry_is_answered_and_not_charged,
                l5_lanes_do_not_see_each_other,
                l5_copies_of_a_flight_at_the_same_time_are_charged_once,
                l7_a_ticket_gives_back_once_and_a_refund_that_overtakes_refuses,
                l7_a_batch_of_refunds_is_answered_in_its_order,
            ]
        }
    };
}

macro_rules! all_cases {
    (() $({ $group:ident } [$($case:ident,)+])+) => {
        vec![$($(Case {
            group: stringify!($group),
            name: stringify!($case),
            run: |harness| Box::pin($group::$case(harness)),
        },)+)+]
    };
}

/// All cases by the store's own clock, in the order of the lists.
pub static STEP_CASES: LazyLock<Vec<Case<dyn StepHarness>>> = LazyLock::new(|| {
    let lists: [Vec<Case<dyn StepHarness>>; 4] = [
        for_each_permit_step_case! { [all_cases] () },
        for_each_group_step_case! { [all_cases] () },
        for_each_limit_step_case! { [all_cases] () },
        for_each_list_step_case! { [all_cases] () },
    ];
    lists.concat()
});

/// All cases that set the clock, in the order of the list.
pub static CLOCK_CASES: LazyLock<Vec<Case<dyn ClockHarness>>> =
    LazyLock::new(|| for_each_clock_case! { [all_cases] () });
