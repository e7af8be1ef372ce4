//! The conformance suite on each deployment.

use stanchion_conformance::suite;

use crate::common::deployment::DeploymentFixture;

/// One server.
mod server {
    use super::*;
    suite!(DeploymentFixture::server());
}

/// A cluster.
mod cluster {
    use super::*;
    suite!(DeploymentFixture::cluster());
}

/// A primary that sentinels announce.
mod sentinel {
    use super::*;
    suite!(DeploymentFixture::sentinel());
}

/// A server with TLS, for a user with only the rights in the manual, while a thread flushes the
/// scripts of the server every 50 ms.
mod tls {
    use super::*;
    suite!(DeploymentFixture::tls());
}

/// A server whose user has no right that can be missing without an error: there are no wake-ups.
mod bare {
    use super::*;
    suite!(DeploymentFixture::bare(), gaps {
        as_mutex::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups",
        as_semaphore_of_one::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups",
        as_semaphore_of_five::m6_the_next_waiter_runs_at_the_release: "there are no wake-ups",
    });
}

/// One server, through the blocking face.
mod threads {
    use super::*;
    stanchion_conformance::blocking_suite!(DeploymentFixture::server());
}
