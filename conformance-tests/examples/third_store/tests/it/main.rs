//! The tests of this store, in the order in which a new store passes them: steps, store, mistakes.

mod common;
mod mutants;

/// The cases about steps.
mod steps {
    use crate::common::Fixture;

    stanchion_conformance::permit_step_suite!(Fixture::new(), gaps {
        liveness::c16_the_order_survives_a_restart_of_the_store: "the map ends with its process",
        liveness::c16_c23_right_after_a_restart_of_the_store_its_waiters_count: "the map ends with its process",
    });
}

/// The cases about the whole store.
mod conformance {
    use crate::common::Fixture;

    stanchion_conformance::suite!(
        Fixture::new(),
        gaps {
            namespaces: "the store has no namespaces",
            listing: "the store does not list names",
            wait_group: "the store has no wait groups",
            under_faults::w2_a_retried_add_counts_once: "the store has no wait groups",
            under_faults::w2_a_retried_done_counts_once: "the store has no wait groups",
            all_kinds::c19_every_legal_name_is_its_own_wait_group: "the store has no wait groups",
            limiter: "the store has no limiters",
            under_faults::l5_a_retried_decision_is_charged_once: "the store has no limiters",
            all_kinds::c19_every_legal_name_is_its_own_limiter: "the store has no limiters",
            bloom: "the store has no Bloom filters",
            all_kinds::c19_every_legal_name_is_its_own_filter: "the store has no Bloom filters",
        }
    );
}
