//! The conformance suite on each deployment.

use stanchion_conformance::suite;

use crate::deployed::Deployed;

/// One server.
mod server {
    use super::*;
    suite!(Deployed::server());
}

/// A cluster.
mod cluster {
    use super::*;
    suite!(Deployed::cluster());
}

/// A primary that sentinels announce.
mod sentinel {
    use super::*;
    suite!(Deployed::sentinel());
}

/// A server that speaks TLS, to a user with no other rights than the manual's, while somebody flushes the server's
/// scripts every 50 ms.
mod tls {
    use super::*;
    suite!(Deployed::tls());
}
