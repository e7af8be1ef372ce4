//! The conformance suite on a primary that sentinels announce.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::sentinel());
