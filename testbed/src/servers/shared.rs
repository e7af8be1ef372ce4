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

/// A server that others use at the same time.
///
/// Tests keep to a namespace of their own, made at random, and do it no harm: no `FLUSHALL`, no kill, no change of
/// settings. A test that must do harm starts a [`RedisServer`] or a [`PostgresServer`] for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedServer {
    url: &'static str,
    origin: Origin,
}

/// Where a shared server comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Environment,
    #[cfg(feature = "containers")]
    Container,
    Machine,
}

impl SharedServer {
    /// The URL; it may contain a password.
    pub fn url(self) -> &'static str {
        self.url
    }

    /// Whether it comes from the environment, so that data of others may be on it and nobody cleans up.
    pub fn is_external(self) -> bool {
        self.origin == Origin::Environment
    }

    /// Whether it was started in a container.
    #[cfg(feature = "containers")]
    pub fn is_in_container(self) -> bool {
        self.origin == Origin::Container
    }
}

/// The shared Redis: that of `STANCHION_TEST_REDIS_URL`, else a private one, started at the first call: with the feature
/// `containers` one in a container if that can be had, otherwise one of this machine.
///
/// # Errors
///
/// What kept the private one from starting; the next call tries again.
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

/// The shared Postgres: that of `STANCHION_TEST_POSTGRES_URL`, else a private one, started at the first call: with the
/// feature `containers` one in a container if that can be had, otherwise one of this machine.
///
/// # Errors
///
/// What kept the private one from starting; the next call tries again.
pub fn postgres() -> Result<SharedServer, ServerError> {
    shared(&POSTGRES, POSTGRES_URL_VARIABLE, || {
        #[cfg(feature = "containers")]
        if let Some(shared) = contained("Postgres", Container::postgres()) {
            return Ok(shared);
        }
        // Every store object of every test that runs at the same time has connections of its own.
        let options = PostgresOptions::default().setting("max_connections", "400");
        let server = PostgresServer::start(options)?;
        Ok(leaked(server.url(), server, Origin::Machine))
    })
}

/// The container, if there is one; otherwise says why the machine's own server has to do.
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

/// Nobody owns the server: whoever watches over it ends it with the process.
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
