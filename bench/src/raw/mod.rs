//! What people write by hand in place of a library.

pub mod memory;
pub mod postgres;
pub mod redis;
