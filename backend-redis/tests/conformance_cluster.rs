//! The conformance suite on a cluster.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::cluster());
