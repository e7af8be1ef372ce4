//! What this store is tested with, in the order in which a store comes to pass it: steps, store, mistakes.

mod harness;
mod mutants;

/// What each step has to do, one case at a time.
mod steps {
    use crate::harness::Bed;

    stanchion_conformance::permit_step_suite!(Bed::new(), gaps {
        liveness::c16_the_order_survives_a_restart_of_the_store: "the map ends with its process",
    });
}

/// What users see of the store.
mod conformance {
    use crate::harness::Bed;

    stanchion_conformance::suite!(
        Bed::new(),
        gaps {
            wait_group: "this store has mutexes and semaphores alone",
            limiter: "this store has mutexes and semaphores alone",
            bloom: "this store has mutexes and semaphores alone",
        }
    );
}
