//! Bloom filters of networked stores: hashing, batching, retries, and which record a handle has seen.

mod batches;
pub(in crate::engine) mod filtering;
pub(in crate::engine) mod handle;
mod whole;
