//! Waiting: which callers of this process wait, and how a wake-up reaches them.

pub(in crate::engine) mod asking;
pub(in crate::engine) mod generation_end;
pub(in crate::engine) mod group_waiters;
pub(in crate::engine) mod poll_schedule;
pub(in crate::engine) mod questions;
pub(in crate::engine) mod record_seen;
pub(in crate::engine) mod waiters;
