//! Acquiring: the request, its grant, and the handles that callers use.

pub(in crate::engine) mod acquire;
pub(in crate::engine) mod group;
pub(in crate::engine) mod handle;
pub(in crate::engine) mod locks;
pub(in crate::engine) mod wait_record;
