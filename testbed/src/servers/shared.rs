//! The servers that all tests of one process share.

use std::env;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "containers")]
use super::container::Container;
use super::error::ServerError;
use super::postgres::{PostgresOptions, PostgresServer};
use super::redis::{RedisOptions, RedisServer};

/// The environment variable with the URL of a Redis to test against.
pub const REDIS_URL_VARIABLE: &str = "STANCHION_TEST_REDIS_URL";
/// The environment variable with the URL of a Postgres to test against.
pub const POSTGRES_URL_VARIABLE: &str = "STANCHION_TEST_POSTGRES_URL";

static REDIS: Mutex<Option<SharedServer>> = Mutex::new(None);
static POSTGRES: Mutex<Option<SharedServer>> = Mutex::new(None);

/// A server that other tests use at the same time.
///
/// Each test uses its own random namespace, and must not harm the server: no `FLUSHALL`, no kill,
/// no change of settings. A test that harms a server starts its own [`RedisServer`] or
/// [`PostgresServer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedServer {
    url: &'static str,
    origin: Origin,
}

/// The origin of a shared server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Environment,
    #[cfg(feature = "containers")]
    Container,
    Machine,
}

impl SharedServer {
    /// Returns the URL; it may contain a password.
    pub fn url(self) -> &'static str {
        self.url
    }

    /// Returns whether it comes from the environment: it may have data of other users, and nothing
    /// removes the tests' data.
    pub fn is_external(self) -> bool {
        self.origin == Origin::Environment
    }

    /// Returns whether it was started in a container.
    #[cfg(feature = "containers")]
    pub fn is_in_container(self) -> bool {
        self.origin == Origin::Container
    }
}

/// Returns the shared Redis: the server in `STANCHION_TEST_REDIS_URL`, or else a private one that
/// is started at the first call. With the feature `containers`, the private one runs in a container
/// if possible, otherwise on this machine.
///
/// # Errors
///
/// The reason why the private one did not start; the next call tries again.
pub fn redis() -> Result<SharedServer, ServerError> {
    shared(&REDIS, REDIS_URL_VARIABLE, || {
        #[cfg(feature = "containers")]
        if let Some(shared) = contained("Redis", Container::redis()) {
            return Ok(shared);
        }
        let server = RedisServer::start(RedisOptions::default())?;
        Ok(leaked(server.url(), server, Origin::Machine))
    })
}

/// Returns the shared Postgres: the server in `STANCHION_TEST_POSTGRES_URL`, or else a private one
/// that is started at the first call. With the feature `containers`, the private one runs in a
/// container if possible, otherwise on this machine.
///
/// # Errors
///
/// The reason why the private one did not start; the next call tries again.
pub fn postgres() -> Result<SharedServer, ServerError> {
    shared(&POSTGRES, POSTGRES_URL_VARIABLE, || {
        #[cfg(feature = "containers")]
        if let Some(shared) = contained("Postgres", Container::postgres()) {
            return Ok(shared);
        }
        // Each store object of each concurrent test has its own connections.
        let options = PostgresOptions::default().setting("max_connections", "1000");
        let server = PostgresServer::start(options)?;
        Ok(leaked(server.url(), server, Origin::Machine))
    })
}

/// Returns the container's server, if there is one; otherwise prints why the machine's own server
/// is used.
#[cfg(feature = "containers")]
fn contained(server: &str, container: Result<Container, ServerError>) -> Option<SharedServer> {
    match container {
        Ok(container) => Some(leaked(container.url(), container, Origin::Container)),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            eprintln!("no container for {server}: {error}{}", cause.unwrap_or_default());
            None
        }
    }
}

/// Leaks the server: its supervisor ends it with the process.
fn leaked<S>(url: String, server: S, origin: Origin) -> SharedServer {
    Box::leak(Box::new(server));
    SharedServer { url: url.leak(), origin }
}

fn shared(
    slot: &Mutex<Option<SharedServer>>,
    variable: &str,
    start: impl FnOnce() -> Result<SharedServer, ServerError>,
) -> Result<SharedServer, ServerError> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = *slot {
        return Ok(server);
    }
    let server = match env::var(variable).ok().filter(|url| !url.is_empty()) {
        Some(url) => SharedServer { url: url.leak(), origin: Origin::Environment },
        None => start()?,
    };
    Ok(*slot.insert(server))
}
