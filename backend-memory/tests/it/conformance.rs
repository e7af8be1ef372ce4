//! The conformance suite on the memory store.

use crate::harness::MemoryHarness;

stanchion_conformance::suite!(MemoryHarness::new());
