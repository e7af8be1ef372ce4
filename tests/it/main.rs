//! The facade and its examples: all integration tests in one program.

mod connect;
mod pool_cluster;
mod quickstart;
