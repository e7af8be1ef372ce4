//! Batching: while one batch of a lane is under way, further requests gather, and leave together in
//! the next one.
//!
//! A caller that is alone sends its request itself, on its own task. A caller that finds a batch
//! under way queues; when that batch has ended, a task takes the queued requests, in the order of
//! their arrival, and continues while there are more. No request waits for a time: after a batch of
//! several, the task yields once, so that callers that are ready to run can join. Runtimes are kept
//! apart, so that no request depends on a runtime that is blocked or has ended. A batch whose
//! caller does not poll it delays the others for [`STALE`](queue::STALE) at most.

mod batcher;
mod queue;
mod until_known;

pub(in crate::engine) use self::batcher::Batcher;
