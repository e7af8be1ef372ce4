//! Faults for tests against real servers: in the server's clock and in processes of the test's own.
//!
//! | tool | what it breaks |
//! | --- | --- |
//! | [`Clock`] | a server's wall clock, forward and back, while it runs |
//! | [`Process`] | a worker process of this test: killed, stopped, resumed |
//!
//! The servers themselves are killed, paused, restarted and emptied of clients by the methods of
//! [`servers`](crate::servers).

mod clock;
mod process;

pub use clock::Clock;
pub use process::Process;
