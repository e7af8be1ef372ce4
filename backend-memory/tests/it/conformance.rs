//! The conformance suite on the memory store.

use crate::harness::MemoryHarness;

stanchion_conformance::suite!(
    MemoryHarness::new(),
    gaps { under_faults: "it has no steps: nothing is sent that could be lost or doubled" }
);
