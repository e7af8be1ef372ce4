//! The conformance suite on a server, with mutexes kept by sessions.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::session());
