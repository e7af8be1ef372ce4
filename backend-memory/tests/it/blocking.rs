//! The conformance suite over the blocking face.

use crate::harness::MemoryHarness;

stanchion_conformance::blocking_suite!(
    MemoryHarness::new(),
    gaps { under_faults: "it has no steps: nothing is sent that could be lost or doubled" }
);
