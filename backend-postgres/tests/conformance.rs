//! The conformance suite on a server, with mutexes kept by leases.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::lease());
