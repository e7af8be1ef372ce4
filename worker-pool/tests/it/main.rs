//! The pool: all integration tests in one program.

mod cluster;
mod common;
mod ending;
mod groups;
mod model;
mod pool;
