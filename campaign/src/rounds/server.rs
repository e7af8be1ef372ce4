//! Where a campaign takes slot: a server, and how a store keeps its state there.

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

/// A way to keep holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deployment {
    /// Redis, with an append-only file that is flushed for each write.
    Redis,
    /// Postgres, mutexes in lease mode.
    Postgres,
    /// Postgres, mutexes in session mode; they alone.
    PostgresSessions,
}

impl Deployment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redis, Self::Postgres, Self::PostgresSessions];

    /// Its name, as on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PostgresSessions => "postgres-sessions",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deployment| deployment.name() == name)
    }

    /// What is called in a campaign.
    #[must_use]
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::PostgresSessions => &[Kind::Mutex],
            Self::Redis | Self::Postgres => &[Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter],
        }
    }

    /// Whether the contract calls a fault safe here: a server that ends sessions frees what they keep at once.
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

/// A server of one's own. It ends with this.
#[derive(Debug)]
pub struct CampaignServer {
    deployment: Deployment,
    running: Running,
    /// The part of Redis' record that was not taken yet.
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
                // Its record stays whole.
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

    /// How holds are kept here.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        self.deployment
    }

    /// The server's URL, without parameters.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.running {
            Running::Redis(server) => server.url(),
            Running::Postgres(server) => server.url(),
        }
    }

    /// A URL with the parameters of a round's store.
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
            Running::Postgres(server) if self.deployment == Deployment::Postgres => triggers::take(server, namespace)?,
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

    /// Stops the server where it is.
    ///
    /// # Errors
    /// As the server.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.server().pause()
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// As the server.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.server().resume()
    }

    /// Kills it.
    ///
    /// # Errors
    /// As the server.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.server().kill()
    }

    /// Starts it again on its port, with its data.
    ///
    /// # Errors
    /// As the server.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.server().restart()
    }

    /// Has it end its clients' connections.
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
