//! The conformance suite on a server that speaks TLS.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::tls());
