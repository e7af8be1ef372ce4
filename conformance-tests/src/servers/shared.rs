//! The servers that all tests of one process share.

use std::env;
use std::sync::{Mutex, PoisonError};

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
    external: bool,
}

impl SharedServer {
    /// The URL; it may contain a password.
    pub fn url(self) -> &'static str {
        self.url
    }

    /// Whether it comes from the environment, so that data of others may be on it and nobody cleans up.
    pub fn is_external(self) -> bool {
        self.external
    }
}

/// The shared Redis: that of `STANCHION_TEST_REDIS_URL`, else a private one, started at the first call.
///
/// # Errors
///
/// What kept the private one from starting; the next call tries again.
pub fn redis() -> Result<SharedServer, ServerError> {
    shared(&REDIS, REDIS_URL_VARIABLE, || {
        let server = RedisServer::start(RedisOptions::default())?;
        let url = server.url();
        Ok((server, url))
    })
}

/// The shared Postgres: that of `STANCHION_TEST_POSTGRES_URL`, else a private one, started at the first call.
///
/// # Errors
///
/// What kept the private one from starting; the next call tries again.
pub fn postgres() -> Result<SharedServer, ServerError> {
    shared(&POSTGRES, POSTGRES_URL_VARIABLE, || {
        // Every store object of every test that runs at the same time has connections of its own.
        let options = PostgresOptions::default().setting("max_connections", "400");
        let server = PostgresServer::start(options)?;
        let url = server.url();
        Ok((server, url))
    })
}

fn shared<S>(
    slot: &Mutex<Option<SharedServer>>,
    variable: &str,
    start: impl FnOnce() -> Result<(S, String), ServerError>,
) -> Result<SharedServer, ServerError> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = *slot {
        return Ok(server);
    }
    let (url, external) = match env::var(variable).ok().filter(|url| !url.is_empty()) {
        Some(url) => (url, true),
        None => {
            let (server, url) = start()?;
            // Nobody owns it: its supervisor ends it with the process.
            Box::leak(Box::new(server));
            (url, false)
        }
    };
    Ok(*slot.insert(SharedServer { url: url.leak(), external }))
}
