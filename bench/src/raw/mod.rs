//! Hand-written code that people use in place of a library.

pub mod memory;
pub mod postgres;
pub mod redis;
