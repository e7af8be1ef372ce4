//! The server of a campaign, and how the store keeps its state on it.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;
use std::{fmt, fs};

use stanchion_core::Kind;

use super::Fault;
use super::audit::append_only::AofTail;
use super::audit::triggers;
use crate::history::AUDIT;
use stanchion_testbed::faults::{Clock, Proxy};
use stanchion_testbed::servers::{
    PostgresOptions, PostgresServer, RedisCluster, RedisOptions, RedisServer, Server, ServerError,
};

/// The number of a cluster's primaries: its first nodes.
const PRIMARIES: usize = 3;

/// A store and its mode of keeping mutexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deployment {
    /// Redis, with an append-only file that is flushed for each write.
    Redis,
    /// Redis Cluster. Its nodes announce their own addresses, so that no proxy stands between them
    /// and the workers.
    RedisCluster,
    /// Postgres, mutexes in lease mode.
    Postgres,
    /// Postgres, mutexes in session mode; no other kinds.
    PostgresSessions,
}

impl Deployment {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Redis, Self::RedisCluster, Self::Postgres, Self::PostgresSessions];

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::RedisCluster => "redis-cluster",
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
            Self::Redis | Self::RedisCluster | Self::Postgres => {
                &[Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter]
            }
        }
    }

    /// Returns whether a fault can strike this deployment.
    #[must_use]
    pub fn has(self, fault: Fault) -> bool {
        match fault {
            Fault::NodeStall | Fault::SlotMove => self == Self::RedisCluster,
            Fault::HolderKill
            | Fault::HolderPause
            | Fault::WaiterKill
            | Fault::CrowdKill
            | Fault::TaskCancel
            | Fault::ClientClockStep => true,
            _ if fault.deed().is_some() => matches!(self, Self::Postgres | Self::PostgresSessions),
            Fault::ConnectionStorm | Fault::NeighbourScript | Fault::ServerClockStep => self == Self::Redis,
            _ => self != Self::RedisCluster,
        }
    }

    /// Returns the faults that can strike this deployment.
    pub fn faults(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }

    /// Returns whether the contract calls a fault safe for this deployment. A fault by which the
    /// server ends sessions is not safe for session mode: the server frees the sessions' locks at
    /// once.
    #[must_use]
    pub fn is_safe(self, fault: Fault) -> bool {
        if fault == Fault::ServerClockStep {
            return false;
        }
        let ends_sessions = matches!(
            fault,
            Fault::StoreCrash
                | Fault::ConnectionKill
                | Fault::BackendTerminate
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
    Redis(RedisServer, Clock),
    Cluster(RedisCluster),
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
                let clock = Clock::new()?;
                Running::Redis(RedisServer::start(options.clock(&clock))?, clock)
            }
            Deployment::RedisCluster => Running::Cluster(RedisCluster::start(
                RedisOptions::default().failover_after(Duration::from_secs(5)),
            )?),
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
            Running::Redis(server, _) => server.url(),
            Running::Cluster(cluster) => cluster.url(),
            Running::Postgres(server) => server.url(),
        }
    }

    /// Returns the URL that the proxies lead to, without parameters.
    pub(super) fn proxied_url(&self) -> String {
        match &self.running {
            Running::Cluster(cluster) => cluster.nodes()[0].url(),
            _ => self.url(),
        }
    }

    /// Returns the URL of a worker with this proxy, without parameters.
    pub(super) fn worker_url(&self, proxy: &Proxy) -> String {
        match &self.running {
            Running::Cluster(cluster) => cluster.url(),
            _ => proxy.url(&self.url()),
        }
    }

    /// Adds the parameters of a round's store to a URL.
    #[must_use]
    pub fn store_url(&self, url: &str, namespace: &str, ttl: Duration) -> String {
        let mode = match self.deployment {
            Deployment::Redis | Deployment::RedisCluster => String::new(),
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
            Running::Redis(server, _) => {
                let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.take(server.dir(), namespace)?
            }
            Running::Postgres(server) if self.deployment == Deployment::Postgres => {
                triggers::take(server, namespace)?
            }
            Running::Cluster(_) | Running::Postgres(_) => return Ok(()),
        };
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        Ok(fs::write(folder.join(AUDIT), lines)?)
    }

    /// Returns the server, if it is a Postgres.
    pub(super) fn postgres(&self) -> Option<&PostgresServer> {
        match &self.running {
            Running::Postgres(server) => Some(server),
            Running::Redis(..) | Running::Cluster(_) => None,
        }
    }

    fn server(&self) -> &Server {
        match &self.running {
            Running::Redis(server, _) => server,
            Running::Cluster(cluster) => &cluster.nodes()[0],
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
            Running::Redis(server, _) => server.kill_clients().map(drop),
            Running::Cluster(cluster) => {
                cluster.nodes().iter().try_for_each(|node| node.kill_clients().map(drop))
            }
            Running::Postgres(server) => server.terminate_sessions().map(drop),
        }
    }

    /// Shifts the server's clock by this many seconds for a time, if it is a Redis server.
    ///
    /// # Errors
    /// If the shift cannot be written.
    pub fn shift_clock(&self, seconds: u32, length: Duration) -> Result<(), ServerError> {
        if let Running::Redis(_, clock) = &self.running {
            let write = |micros| {
                clock.set(micros).map_err(|source| ServerError::Io { action: "shift a clock", source })
            };
            write(i64::from(seconds) * 1_000_000)?;
            sleep(length);
            write(0)?;
        }
        Ok(())
    }

    /// Keeps the server busy by a script of another client, if it is a Redis server.
    ///
    /// # Errors
    /// As the server.
    pub fn occupy(&self, length: Duration) -> Result<(), ServerError> {
        const BUSY: &str = "local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end \
                            local stop = now() + ARGV[1] while now() < stop do end return 1";
        if let Running::Redis(server, _) = &self.running {
            server.command(&["EVAL", BUSY, "0", &length.as_micros().to_string()])?;
        }
        Ok(())
    }

    /// Pauses a node of the cluster for a time, if it is one.
    ///
    /// # Errors
    /// As the node.
    pub fn pause_node(&self, node: usize, length: Duration) -> Result<(), ServerError> {
        if let Running::Cluster(cluster) = &self.running {
            let node = &cluster.nodes()[node % PRIMARIES];
            node.pause()?;
            sleep(length);
            node.resume()?;
        }
        Ok(())
    }

    /// Moves the slot of a key to the next primary of the cluster, if it is one.
    ///
    /// # Errors
    /// As the nodes.
    pub fn move_slot_of(&self, key: &str) -> Result<(), ServerError> {
        let Running::Cluster(cluster) = &self.running else { return Ok(()) };
        let answer = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", key])?;
        let slot = answer.trim().trim_start_matches(':').parse().unwrap_or_default();
        let from = cluster.owner(slot)?;
        cluster.move_slot(slot, (from + 1) % PRIMARIES)
    }
}
