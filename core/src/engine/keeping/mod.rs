//! Keeping: the holds of this process, their renewal, and their end.

pub(in crate::engine) mod hold;
pub(in crate::engine) mod lease_backend;
pub(in crate::engine) mod registry;
pub(in crate::engine) mod renewal;
