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

/// One server, through the blocking face.
mod threads {
    use super::*;
    stanchion_conformance::blocking_suite!(DeploymentFixture::server());
}
