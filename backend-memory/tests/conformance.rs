//! The conformance suite on the memory store.

mod harness;

use harness::MemoryHarness;

stanchion_conformance::suite!(MemoryHarness::new());
