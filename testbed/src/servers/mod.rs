//! Real servers for tests: found on this machine, private to one process, and ended with that
//! process.
//!
//! [`redis()`] and [`postgres()`] return the server that all tests of a process share.
//! [`RedisServer`] and [`PostgresServer`] are for tests that kill, stop or fill a server,
//! [`RedisCluster`] and [`RedisSentinel`] for tests that need several servers. [`PgBouncer`] is a
//! pooler in front of a Postgres. Nothing here is asynchronous: starting a server blocks the
//! thread, for about 50 ms with Redis and a second with Postgres.
//!
//! With the feature `containers`, the two shared servers run in containers if a Docker daemon
//! answers and has the image or can pull it. The other servers never do, because a test that stops
//! a server or shifts its clock needs the process.
//!
//! The parent of each server is a small shell that holds the reading end of a pipe. However this
//! process ends, the pipe is then closed, and the shell kills the server and removes its folder. So
//! no `Drop` has to run, and a killed test leaves nothing behind. It needs Linux, for `/proc`.
//!
//! ```no_run
//! use stanchion_testbed::servers::{RedisOptions, RedisServer};
//!
//! let server = RedisServer::start(RedisOptions::default().append_only(true))?;
//! server.kill()?;
//! server.restart()?; // the same port, the same data
//! # Ok::<(), stanchion_testbed::servers::ServerError>(())
//! ```

mod account;
#[cfg(feature = "containers")]
mod container;
#[cfg(feature = "containers")]
mod docker;
mod error;
mod find;
pub mod install;
mod launch;
mod package;
mod pgbouncer;
mod postgres;
mod postgres_access;
mod postgres_data;
mod postgres_sessions;
mod postgres_standby;
mod prometheus;
mod redis;
mod redis_clients;
mod redis_cluster;
mod redis_sentinel;
mod redis_wire;
mod server;
mod shared;
mod supervisor;
mod tls;
mod wait;

pub(crate) use launch::free_port;
pub(crate) use supervisor::{Supervisor, last_lines};

#[cfg(feature = "containers")]
pub use container::{Container, POSTGRES_IMAGE_VARIABLE, REDIS_IMAGE_VARIABLE};
pub use error::ServerError;
pub use find::{pgbouncer, postgres_folder, redis_server};
pub use launch::folder as temporary_folder;
pub use pgbouncer::PgBouncer;
pub use postgres::{PostgresOptions, PostgresServer};
pub use prometheus::Prometheus;
pub use redis::{RedisOptions, RedisServer};
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
pub use server::Server;
pub use shared::{POSTGRES_URL_VARIABLE, REDIS_URL_VARIABLE, SharedServer, postgres, redis};
pub use wait::wait_until;
