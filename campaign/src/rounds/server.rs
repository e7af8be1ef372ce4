//! The server of a campaign, and how the store keeps its state on it.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, fs};

use stanchion_core::Kind;

use super::Fault;
use super::audit::append_only::AofTail;
use super::audit::triggers;
use crate::history::AUDIT;
use stanchion_testbed::servers::{
    PostgresOptions, PostgresServer, RedisOptions, RedisServer, Server, ServerError,
};

/// A store and its mode of keeping mutexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deployment {
    /// Redis, with an append-only file that is flushed for each write.
    Redis,
    /// Postgres, mutexes in lease mode.
    Postgres,
    /// Postgres, mutexes in session mode; no other kinds.
    PostgresSessions,
}

impl Deployment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redis, Self::Postgres, Self::PostgresSessions];

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PostgresSessions => "postgres-sessions",
        }
    }

    /// Returns the deployment of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deployment| deployment.name() == name)
    }

    /// Returns the kinds of objects that a campaign calls.
    #[must_use]
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::PostgresSessions => &[Kind::Mutex],
            Self::Redis | Self::Postgres => &[Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter],
        }
    }

    /// Returns whether the contract calls a fault safe for this deployment. A fault by which the server ends sessions
    /// is not safe for session mode: the server frees the sessions' locks at once.
    #[must_use]
    pub fn is_safe(self, fault: Fault) -> bool {
        let ends_sessions = matches!(
            fault,
            Fault::StoreCrash
                | Fault::ConnectionKill
                | Fault::ReplyDrop
                | Fault::RequestDrop
                | Fault::CutMidFrame
        );
        self != Self::PostgresSessions || !ends_sessions
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug)]
enum Running {
    Redis(RedisServer),
    Postgres(PostgresServer),
}

/// A private server. It ends when this value is dropped.
#[derive(Debug)]
pub struct CampaignServer {
    deployment: Deployment,
    running: Running,
    /// The read position in Redis' record.
    tail: Mutex<AofTail>,
}

impl CampaignServer {
    /// Starts a server.
    ///
    /// # Errors
    /// As the server.
    pub fn start(deployment: Deployment) -> Result<Self, ServerError> {
        let running = match deployment {
            Deployment::Redis => {
                let options = RedisOptions::default().append_only(true).config("appendfsync always");
                // Without rewrites, the record stays complete.
                let options = options.config("auto-aof-rewrite-percentage 0");
                Running::Redis(RedisServer::start(options)?)
            }
            Deployment::Postgres | Deployment::PostgresSessions => {
                let options = PostgresOptions::default().fsync(true).setting("max_connections", "200");
                let server = PostgresServer::start(options)?;
                if deployment == Deployment::Postgres {
                    triggers::install(&server)?;
                }
                Running::Postgres(server)
            }
        };
        Ok(Self { deployment, running, tail: Mutex::default() })
    }

    /// Returns the deployment.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        self.deployment
    }

    /// Returns the server's URL, without parameters.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.running {
            Running::Redis(server) => server.url(),
            Running::Postgres(server) => server.url(),
        }
    }

    /// Adds the parameters of a round's store to a URL.
    #[must_use]
    pub fn store_url(&self, url: &str, namespace: &str, ttl: Duration) -> String {
        let mode = match self.deployment {
            Deployment::Redis => String::new(),
            Deployment::Postgres => "&mutex=lease".to_owned(),
            Deployment::PostgresSessions => format!("&mutex=session&session_ttl_ms={}", ttl.as_millis()),
        };
        let first = if url.contains('?') { '&' } else { '?' };
        format!("{url}{first}namespace={namespace}{mode}")
    }

    /// Writes the server's own record of a namespace into the folder of its history.
    pub(super) fn record(
        &self,
        namespace: &str,
        folder: &Path,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let entries = match &self.running {
            Running::Redis(server) => {
                let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.take(server.dir(), namespace)?
            }
            Running::Postgres(server) if self.deployment == Deployment::Postgres => {
                triggers::take(server, namespace)?
            }
            Running::Postgres(_) => return Ok(()),
        };
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        Ok(fs::write(folder.join(AUDIT), lines)?)
    }

    fn server(&self) -> &Server {
        match &self.running {
            Running::Redis(server) => server,
            Running::Postgres(server) => server,
        }
    }

    /// Pauses the server: connections stay open, and no request is answered.
    ///
    /// # Errors
    /// As the server.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.server().pause()
    }

    /// Resumes the server.
    ///
    /// # Errors
    /// As the server.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.server().resume()
    }

    /// Kills the server.
    ///
    /// # Errors
    /// As the server.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.server().kill()
    }

    /// Restarts the server on its port, with its data.
    ///
    /// # Errors
    /// As the server.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.server().restart()
    }

    /// Makes the server end its clients' connections.
    ///
    /// # Errors
    /// As the server.
    pub fn end_connections(&self) -> Result<(), ServerError> {
        match &self.running {
            Running::Redis(server) => server.kill_clients().map(drop),
            Running::Postgres(server) => server.terminate_sessions().map(drop),
        }
    }
}
