//! Faults for tests against real servers: on the wire, in the server's clock, and in processes of the test's own.
//!
//! | tool | what it breaks |
//! | --- | --- |
//! | [`Proxy`] | the link between a client and one server: requests, replies, wake-ups, connections |
//! | [`Clock`] | a server's wall clock, forward and back, while it runs |
//! | [`Process`] | a worker process of this test: killed, stopped, resumed |
//!
//! The servers themselves are killed, paused, restarted and emptied of clients by the methods of
//! [`servers`](crate::servers).
//!
//! ```no_run
//! use stanchion_testbed::faults::{Action, Proxy, Then, When};
//! use stanchion_testbed::servers;
//!
//! let server = servers::redis()?;
//! let proxy = Proxy::to(server.url())?;
//! let lost = proxy.on(When::nth(3).named("EVALSHA"), Action::DropReply(Then::Reset));
//! let url = proxy.url(server.url()); // the client under test connects here
//! # let _ = url;
//! assert_eq!(lost.fired(), 1, "{}", proxy.report());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod process;
mod proxy;

pub use clock::Clock;
pub use process::Process;
pub use proxy::{Action, ConnectionCounts, Direction, Mark, Proxy, Request, Rule, Scope, Then, When};
