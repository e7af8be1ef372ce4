//! Bloom filters of networked stores: hashing, batching, retries, and which record a handle has
//! seen.

pub(in crate::engine) mod handle;
mod whole;
