//! The conformance suite on each deployment and in both modes.

use stanchion_conformance::suite;

use crate::deployed::Deployed;

/// One server, with mutexes kept by leases.
mod lease {
    use super::*;
    suite!(Deployed::lease());
}

/// Through a transaction pooler, where waiters proceed by the poll floor.
mod pooled {
    use super::*;
    suite!(Deployed::pooled());
}

/// Over TLS (`sslmode=verify-full`), as a role that has the manual's rights and no others, on a schema that an
/// administrator has made.
mod role {
    use super::*;
    suite!(Deployed::role());
}

/// One server, with mutexes kept by sessions.
mod session {
    use super::*;
    suite!(Deployed::session());
}
