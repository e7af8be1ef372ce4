//! Batching: while one request of a lane is under way, further calls gather, and leave together in the next request.
//!
//! A caller that is alone sends its request itself, on its own task. A caller that finds a request under way queues; when
//! that request has ended, a task takes all queued calls, in the order of their arrival, and continues while there are
//! more. No call waits for a time: after a request of several calls, the task yields once, so that callers that are ready
//! to run can join. Lanes are kept apart by runtime, so that no call depends on a runtime that is blocked or has ended. A
//! request whose caller does not poll it delays the others for [`STALE`](lane::STALE) at most.

mod batched_step;
mod batcher;
mod lane;

pub(in crate::engine) use self::batched_step::{BatchContext, BatchedStep};
pub(in crate::engine) use self::batcher::Batcher;
