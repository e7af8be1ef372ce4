//! The checkers of histories, and recovery: all integration tests in one program.

mod history;
mod recovery;
