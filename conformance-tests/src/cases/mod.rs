//! The cases, and the one list of them.
//!
//! A case is named after the clauses it asserts. It uses its own names, needs no other case, and
//! waits only for events that the contract bounds. The group with the slowest case comes first in
//! the alphabet: tests start in that order.
//!
//! The group `under_faults` shows behaviour that a caller of the traits cannot see without faults:
//! retries after a lost reply (C2) and late copies (C4), with a store whose steps lose, double and
//! delay requests. The rest is shown elsewhere, with fault tools or by the counters of a store: the
//! number of connections and commands (C15), outages, crashes and the checks at connect (C17, C18,
//! C22), clocks that jump (C7, L4), identical decisions of all stores (L3), and the outage policies
//! (L10).

mod all_kinds;
mod bloom;
mod elections;
mod exclusive;
mod limiter;
mod listing;
mod lock_fixture;
mod mutex;
mod namespaces;
mod semaphore;
mod threads;
mod under_faults;
mod wait_group;

use std::sync::LazyLock;

use crate::case::Case;
use lock_fixture::LockKind;

/// The one list of cases: groups, each a module of the generated tests, and the cases that run in
/// each of them.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            { as_mutex as_semaphore_of_one as_semaphore_of_five } [
                c4_dropped_lock_leaves_nothing,
                c4_dropped_waiter_leaves_the_queue,
                c4_a_grant_to_a_dropped_waiter_is_given_back,
                c5_a_dropped_head_costs_the_others_nothing,
                c5_a_timed_out_head_costs_the_others_nothing,
                c5_no_wake_up_is_lost_among_cancels,
                c10_the_deadline_counts_from_the_sending,
                c10_is_held_ends_at_the_deadline_exactly,
                c10_a_holder_that_stood_still_does_not_believe,
                c13_renewal_moves_the_deadline,
                c13_a_blocked_worker_keeps_its_hold,
                c1_every_acquisition_has_its_own_ticket,
                c3_a_held_name_is_a_definite_no,
                c6_a_grant_has_half_its_lease_ahead,
                c6_a_call_that_nobody_polls_costs_the_others_one_lease,
                c27_calls_that_nobody_polls_hold_up_no_others,
                c7_the_lease_begins_with_the_grant,
                c8_an_abandoned_hold_is_free_after_its_lease,
                c8_max_hold_bounds_a_live_guard,
                m1_critical_sections_never_overlap,
                m1_an_expired_holder_stops_believing_first,
                m2_fencing_token_grows,
                m2_renewal_keeps_the_token,
                m3_fencing_token_grows_after_data_loss,
                m7_dead_holders_in_a_row_cost_a_lease_each,
                m9_a_fenced_value_refuses_the_older_holder,
                c23_inspect_tells_the_holder,
                c23_inspect_counts_the_waiters,
                c23_expired_holds_do_not_count,
                c21_an_error_says_what_where_and_why,
                c9_lost_resolves_at_the_deadline,
                c9_lost_never_resolves_while_renewed,
                c9_a_lost_guard_stays_lost,
                c9_m8_a_forced_release_is_told_in_a_third_of_the_lease,
                m8_force_tells_whether_somebody_held,
                c9_a_holder_is_told_of_data_loss,
                c18_clients_go_on_after_data_loss,
                m4_run_gives_the_output,
                m4_run_drops_the_future_at_the_deadline,
                m4_run_drops_the_future_at_the_loss,
                c9_lost_is_of_this_hold_alone,
                c14_a_release_wakes_the_next_waiter,
                m6_the_next_waiter_runs_at_the_release,
                c15_many_waiters_are_all_served,
                c16_first_come_first_served,
                c16_try_lock_says_no_while_a_live_waiter_queues,
                c17_a_time_limit_is_kept,
                c17_limit_zero_is_one_attempt,
                c17_a_huge_limit_waits,
                c17_a_release_at_the_limit_is_not_lost,
                c26_a_full_queue_refuses,
                c11_a_stale_release_is_lost_and_frees_nobody,
                c11_a_late_release_is_lost,
                c11_the_same_object_locked_again_is_not_freed,
                c12_release_frees_at_once,
                c12_drop_queues_the_release,
                c12_drop_works_without_a_runtime,
                c12_drop_outlives_the_runtime,
                c12_a_runtime_shutting_down_releases,
                c12_close_releases_and_refuses,
                c12_a_forgotten_guard_without_renewal_expires,
                c24_attach_takes_the_hold_over,
                c24_exclusion_is_unbroken,
                c24_the_second_attach_is_lost,
                c24_a_detached_hold_expires_by_its_lease,
                c24_an_attached_hold_is_renewed,
                c24_a_lost_hold_is_not_detached,
                c24_a_live_guard_keeps_its_hold,
                c24_a_hold_of_another_name_is_refused,
                c4_c24_a_dropped_attach_keeps_no_hold,
            ]
            { mutex } [
                m5_a_second_try_lock_by_the_same_task_is_a_no,
                m5_the_last_of_reentered_guards_releases,
                c9_m5_an_ordinary_release_is_no_loss,
                c11_m5_reentered_guards_are_lost_together,
                c24_m5_only_the_last_guard_detaches,
                c7_m3_a_first_token_is_the_stores_time,
                c10_a_hold_without_options_stays_held,
                m4_a_mutex_runs_a_future_and_unlocks,
                m4_a_loss_ends_what_a_mutex_runs,
                m8_a_mutex_is_freed_of_the_hold_that_was_meant,
                c4_a_dropped_run_leaves_nothing,
            ]
            { namespaces } [
                c28_namespaces_share_no_state,
                c12_c28_a_view_is_closed_by_itself,
                c14_a_waiter_of_any_namespace_is_woken,
                c24_a_hold_of_another_namespace_is_refused,
                c19_a_bad_name_of_a_namespace_is_refused,
            ]
            { listing } [
                c23_a_name_that_stays_is_on_a_page,
                c23_holders_and_waiters_are_told,
                c23_every_kind_is_listed,
                c23_an_expired_hold_is_not_listed,
                c19_names_and_prefixes_are_taken_as_they_are,
                c19_a_listing_goes_on_from_the_text_of_its_cursor,
                c25_a_free_mutex_is_not_listed,
                c20_c25_a_name_without_state_is_not_listed,
                c28_other_namespaces_are_not_listed,
                c19_a_bad_listing_is_refused,
                c12_a_closed_store_lists_nothing,
            ]
            { elections } [
                m1_one_candidate_leads_at_a_time,
                m1_a_leader_who_is_deposed_stops_and_stands_again,
                c4_a_dropped_candidate_leaves_nothing,
                c23_an_observer_sees_who_leads,
            ]
            { semaphore } [
                s3_dead_holders_permits_come_back_once,
                s3_a_late_release_gives_nothing_back_twice,
                s4_permits_are_conserved,
                c4_s7_a_dropped_grant_of_several_comes_back,
                c4_s4_a_dropped_acquisition_of_several_loses_no_permit,
                s1_live_permits_never_exceed_the_limit,
                s1_exactly_the_limit_is_granted,
                s2_two_of_two_never_deadlock,
                s2_a_waiting_request_holds_nothing,
                s2_more_than_the_limit_is_refused_at_once,
                s6_resize_up_wakes_waiters,
                s6_resize_down_revokes_nobody,
                s8_permits_of_one_semaphore_have_their_own_tokens,
                c24_s8_attach_keeps_the_weight,
                s5_a_large_request_is_not_starved,
                s5_c16_nobody_passes_the_head_of_the_queue,
                c5_s5_a_dropped_large_head_lets_all_who_fit_run,
                c14_a_large_release_wakes_all_who_fit,
                c20_another_limit_is_refused_naming_both,
                c20_looking_neither_compares_nor_stores,
                c20_a_refused_call_stores_nothing,
                c20_a_limit_outlives_its_handles,
                c20_adopt_uses_the_stores_limit,
                c20_replace_changes_the_limit_once,
                c20_a_queued_replace_replaces_once,
                c20_a_used_handle_follows_the_store,
                c20_a_queued_request_over_the_new_limit_ends,
                c19_bad_counts_are_refused,
            ]
            { wait_group } [
                c1_members_have_their_own_tickets,
                w2_done_counts_once,
                c11_w2_a_late_done_is_lost,
                c12_a_dropped_member_is_abandoned,
                c9_c13_a_live_member_is_renewed,
                w8_done_by_ticket_from_another_client,
                c24_w8_attach_takes_a_member_over,
                c27_a_call_adds_ten_thousand_members_at_most,
                c27_many_members_are_added_in_parts,
                c24_w4_a_detached_member_ends,
                c9_w4_done_after_the_deadline_is_lost_and_not_finished,
                c4_dropped_add_leaves_nothing,
                c4_w7_a_dropped_timed_add_leaves_nothing,
                c6_w4_a_member_that_nobody_polled_does_not_expire,
                c4_dropped_timed_wait_changes_nothing,
                c4_c24_a_dropped_attach_keeps_no_member,
                c23_inspect_tells_the_members,
                m2_member_tokens_grow,
                w7_add_waits_at_the_limit,
                w7_the_limit_is_never_exceeded,
                w7_s2_add_many_is_all_or_nothing,
                c16_w7_adds_are_served_first_come_first_served,
                c4_w7_a_dropped_add_leaves_the_queue,
                c8_w7_a_dead_members_place_is_free_after_its_lease,
                c26_w7_a_full_queue_refuses,
                c20_another_member_limit_is_never_silent,
                c19_bad_member_counts_are_refused,
                w1_wait_returns_at_once_on_a_group_never_used,
                w1_wait_returns_only_at_zero,
                w3_every_waiter_returns_at_zero,
                w4_wait_reports_how_the_members_ended,
                w5_waiters_are_not_caught_by_the_next_generation,
                w6_absent_is_not_zero,
                w6_zero_is_a_record,
                c4_dropped_wait_changes_nothing,
                c17_a_wait_keeps_its_limit,
                c12_close_abandons_the_members,
            ]
            { limiter } [
                l8_a_decision_says_everything,
                l9_a_cost_of_zero_takes_nothing,
                l9_a_cost_over_the_burst_is_an_error,
                l10_the_policy_is_silent_while_the_store_answers,
                l8_reset_fills_the_bucket,
                c17_l6_a_wait_beyond_the_limit_is_refused_at_once,
                l6_wait_returns_at_its_time,
                c20_another_quota_is_never_silent,
                c20_asking_neither_compares_nor_stores,
                c20_a_quota_outlives_its_handles,
                c20_quotas_are_compared_in_lowest_terms,
                c20_set_quota_keeps_what_is_in_the_bucket,
                l11_a_quota_is_exact_or_refused,
                c12_close_ends_waits_for_tokens,
                l1_l2_a_window_admits_burst_and_rate,
                l1_l2_a_window_of_mixed_costs,
                l1_intervals_are_not_rounded,
                l2_retry_after_is_enough,
                l5_concurrent_calls_get_exact_decisions,
                l6_places_are_in_the_order_of_reservation,
                l6_concurrent_reservations_share_nothing,
                l6_a_place_too_late_is_refused_without_cost,
                l7_cancel_gives_back_what_nobody_used,
                l7_a_dropped_reservation_is_cancelled,
                l7_a_due_reservation_gives_nothing_back,
                c4_l7_a_dropped_wait_costs_nothing,
                c2_c4_a_dropped_decision_is_charged_once_at_most,
            ]
            { bloom } [
                b5_a_time_to_live_ends_everything_at_once,
                b1_a_batch_may_be_large,
                c27_a_call_has_ten_thousand_items_at_most,
                b1_a_filter_may_be_large,
                b1_items_may_be_of_any_length,
                b1_what_was_inserted_is_contained,
                b1_nothing_is_lost_among_concurrent_inserts,
                b2_a_full_filter_keeps_its_rate,
                b2_the_fill_tells_the_number,
                b3_an_item_is_new_once,
                b3_one_of_many_is_told,
                b3_joined_calls_get_their_own_answers,
                b3_c4_a_dropped_insert_is_told_to_one_at_most,
                b4_exported_bytes_are_those_of_the_layout,
                b4_exported_bytes_load_elsewhere,
                b4_bytes_that_do_not_fit_are_refused,
                b4_a_union_has_the_items_of_both,
                b5_opening_never_clears,
                b5_clear_removes_items_and_parameters,
                b5_c20_other_parameters_are_never_silent,
                c19_b5_bad_parameters_are_refused,
                c12_b5_a_closed_store_refuses_filters,
                b6_what_was_lost_is_not_absent,
                b6_no_call_takes_a_loss_for_nothing,
                b6_the_end_of_what_nobody_saw_is_no_loss,
            ]
            { all_kinds } [
                c19_every_legal_name_is_its_own_mutex,
                c19_every_legal_name_is_its_own_semaphore,
                c19_every_legal_name_is_its_own_wait_group,
                c19_every_legal_name_is_its_own_limiter,
                c19_every_legal_name_is_its_own_filter,
                c19_a_bad_name_is_refused,
                c19_kinds_do_not_see_each_other,
                c19_a_lease_out_of_range_is_refused,
                c19_a_bad_label_or_bound_is_refused,
                c21_a_refusal_has_its_context,
                c21_an_error_names_the_call_that_was_made,
                c28_calls_need_no_runtime,
                c28_calls_need_no_sockets_or_timers_of_their_runtime,
                c28_a_call_leaves_a_runtime_that_stands_still,
                c29_stats_tell_what_the_process_does,
                c28_a_store_outlives_the_runtimes_that_use_it,
                c28_a_call_moves_from_one_runtime_to_another,
                c27_a_waker_that_drops_its_task_stops_nobody,
                c27_a_waker_that_panics_stops_nobody,
                c22_the_declaration_is_true,
                c12_a_closed_store_refuses_every_call,
                c12_close_drains_the_release_queue,
                c12_a_scope_closes_its_store_however_it_ends,
                c25_idle_names_leave_nothing,
            ]
            { threads } [
                c17_a_time_limit_passes_while_a_thread_is_parked,
                m4_a_thread_is_told_of_the_loss,
                c16_threads_and_tasks_have_one_queue,
                c28_a_blocking_call_works_wherever_a_thread_may_block,
                c12_a_scope_of_a_thread_closes_its_store,
                c3_a_call_that_is_refused_in_a_task_was_not_made,
            ]
            { under_faults } [
                s1_s4_s7_permits_are_conserved,
                c2_c8_a_retried_acquire_has_its_lease_anew,
                c2_s7_a_retried_acquire_is_one_hold,
                c3_c4_an_attempt_in_doubt_is_unknown_and_leaves_nothing,
                c4_a_late_copy_of_a_dropped_acquire_is_refused,
                c4_a_late_copy_of_a_released_acquire_is_refused,
                c11_a_retried_release_is_told_the_same,
                c14_a_lost_wake_up_is_ridden_out,
                w2_a_retried_add_counts_once,
                w2_a_retried_done_counts_once,
                l5_a_retried_decision_is_charged_once,
            ]
        }
    };
}

macro_rules! all_cases {
    (($all:ident) $({ $($group:ident)+ } $cases:tt)+) => {
        $($(push_group! { $all $group $cases })+)+
    };
}

macro_rules! push_group {
    ($all:ident as_mutex $cases:tt) => {
        push_cases! { $all as_mutex exclusive [, LockKind::Mutex] $cases }
    };
    ($all:ident as_semaphore_of_one $cases:tt) => {
        push_cases! { $all as_semaphore_of_one exclusive [, LockKind::SemaphoreOfOne] $cases }
    };
    ($all:ident as_semaphore_of_five $cases:tt) => {
        push_cases! { $all as_semaphore_of_five exclusive [, LockKind::SemaphoreOfFive] $cases }
    };
    ($all:ident $group:ident $cases:tt) => {
        push_cases! { $all $group $group [] $cases }
    };
}

macro_rules! push_cases {
    ($all:ident $group:ident $module:ident $kind:tt [$($case:ident,)+]) => {
        $(push_case! { $all $group $module $kind $case })+
    };
}

macro_rules! push_case {
    ($all:ident $group:ident $module:ident [$($kind:tt)*] $case:ident) => {
        $all.push(Case {
            group: stringify!($group),
            name: stringify!($case),
            run: |harness| Box::pin($module::$case(harness $($kind)*)),
        });
    };
}

/// All cases, in the order of the list.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut cases = Vec::new();
    list(&mut cases);
    cases
});

fn list(cases: &mut Vec<Case>) {
    for_each_case! { [all_cases] (cases) }
}
