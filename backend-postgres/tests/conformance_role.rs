//! The conformance suite over TLS (`sslmode=verify-full`), as a role that has the manual's rights and no others, on a
//! schema that an administrator has made.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::role());
