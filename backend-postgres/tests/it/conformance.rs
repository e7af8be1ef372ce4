//! The conformance suite on each deployment and in both modes.

use stanchion_conformance::suite;

use crate::common::deployment::DeploymentFixture;

/// One server, lease mode.
mod lease {
    use super::*;
    suite!(DeploymentFixture::lease());
}

/// Through a transaction pooler: waiters proceed by the poll floor.
mod pooled {
    use super::*;
    suite!(DeploymentFixture::pooled(), gaps {
        as_mutex::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups through the pooler",
        as_semaphore_of_one::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups through the pooler",
        as_semaphore_of_five::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups through the pooler",
    });
}

/// Over TLS (`sslmode=verify-full`), as a role with the manual's rights only, in a schema that an
/// administrator made.
mod role {
    use super::*;
    suite!(DeploymentFixture::role());
}

/// One server, session mode.
mod session {
    use super::*;
    suite!(DeploymentFixture::session(), gaps {
        as_mutex::c24_attach_takes_the_hold_over: "a session cannot give away what it holds",
        as_mutex::c24_exclusion_is_unbroken: "a session cannot give away what it holds",
        as_mutex::c24_the_second_attach_is_lost: "a session cannot give away what it holds",
        as_mutex::c24_a_detached_hold_expires_by_its_lease: "a session cannot give away what it holds",
        as_mutex::c24_an_attached_hold_is_renewed: "a session cannot give away what it holds",
        as_mutex::c24_a_lost_hold_is_not_detached: "a session cannot give away what it holds",
        as_mutex::c24_a_live_guard_keeps_its_hold: "a session cannot give away what it holds",
        as_mutex::c24_a_hold_of_another_name_is_refused: "a session cannot give away what it holds",
        as_mutex::c4_c24_a_dropped_attach_keeps_no_hold: "a session cannot give away what it holds",
        mutex::c24_m5_only_the_last_guard_detaches: "a session cannot give away what it holds",
        under_faults: "its sessions are no steps; the campaign breaks their connections instead",
    });
}

/// One server, lease mode, through the blocking face.
mod threads {
    use super::*;
    stanchion_conformance::blocking_suite!(DeploymentFixture::lease());
}
