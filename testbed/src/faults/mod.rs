//! Faults for tests against real servers: on the wire, in the server's clock, and in the test's own
//! processes.
//!
//! | tool | what it breaks |
//! | --- | --- |
//! | [`Proxy`] | the connection between a client and one server: requests, replies, wake-ups, connections |
//! | [`Away`] | a whole server, in one of four ways |
//! | [`Clock`] | a server's wall clock, forward and back, while it runs |
//! | [`Process`] | a worker process of this test: killed, stopped, resumed |
//!
//! The methods of [`servers`](crate::servers) kill, pause and restart the servers themselves, and
//! close their clients' connections.
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

mod away;
mod clock;
mod process;
mod proxy;

pub use away::Away;
pub use clock::Clock;
pub use process::Process;
pub use proxy::{Action, ConnectionCounts, Direction, Mark, Proxy, Request, Rule, Scope, Then, When};
