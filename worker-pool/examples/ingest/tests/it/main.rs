//! The service: all integration tests in one program.

mod s3;
mod shutdown;
mod status;
mod support;
