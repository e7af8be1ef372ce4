//! The engine, the limiter and the layout of filters: all integration tests in one program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panics, and have tasks and time of their own"
)]

mod bloom_layout;
mod engine;
mod engine_bloom;
mod engine_chores;
mod engine_contained;
mod engine_groups;
mod engine_joint;
mod engine_leases;
mod engine_limit_batches;
mod engine_limits;
mod engine_list;
mod engine_log;
mod engine_members;
mod engine_metrics;
mod engine_outage;
mod engine_outbox;
mod engine_places;
mod engine_refunds;
mod engine_release;
mod engine_threads;
mod engine_waits;
mod limit_exact;
mod limit_golden;
mod limit_laws;
mod limit_model;
mod limit_quota;
mod model;
