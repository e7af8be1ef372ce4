//! The cases about steps on a Redis server.

mod harness;

stanchion_conformance::step_suite!(harness::Bed::shared());
