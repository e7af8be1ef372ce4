//! Sending: many callers' requests in one, and the releases that no caller waits for.

pub(in crate::engine) mod batching;
pub(in crate::engine) mod in_doubt;
pub(crate) mod leftover;
pub(in crate::engine) mod outbox;
