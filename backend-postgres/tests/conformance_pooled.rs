//! The conformance suite through a transaction pooler, where waiters proceed by the poll floor.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::pooled());
