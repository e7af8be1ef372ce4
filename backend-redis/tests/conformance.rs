//! The conformance suite on a Redis server.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::server());
