//! The cases about steps on a Redis server.

stanchion_conformance::step_suite!(crate::common::Fixture::shared());
