//! A private Redis.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ServerError;
use super::find;
use super::launch;
use super::redis_wire::{RedisEndpoint, ask, quoted, says_its_pid, url_escaped};
use super::server::Server;
use super::supervisor::Supervisor;
use super::tls::{CA, CERTIFICATE, Certificates, KEY};
use super::wait::wait_until;
use crate::faults::Clock;

const PROGRAM: &str = "redis-server";
const SOCKET: &str = "redis.sock";
/// Time limit of a command. It is sent once, so it is longer than a machine stands still.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// The silence after which a server is replaced, if there is to be no failover.
const NEVER: Duration = Duration::from_secs(60 * 60);

/// The options of a [`RedisServer`]. By default it has no password, no TLS, no persistence, and
/// `noeviction`.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    password: Option<String>,
    append_only: bool,
    tls: bool,
    certificates: Option<Certificates>,
    sentinel: bool,
    clock: Option<Clock>,
    failover: Option<Duration>,
    config: Vec<String>,
}

impl RedisOptions {
    /// Sets the password of clients; replicas and cluster nodes use it, too.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets whether every write is on disk before its reply (`appendonly yes`, `appendfsync
    /// always`), so that [`restart`](Server::restart) keeps the data.
    #[must_use]
    pub fn append_only(mut self, on: bool) -> Self {
        self.append_only = on;
        self
    }

    /// Makes the port accept only TLS. The certificate, for `127.0.0.1` and `localhost`, is signed
    /// by an authority that is created for this server; [`RedisServer::ca`] returns its path.
    #[must_use]
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Sets the time for which a node of a cluster, or the primary of sentinels, does not answer
    /// until it is replaced.
    ///
    /// Without it they are replaced by command alone: a busy machine lets a server be silent for
    /// seconds, and a failover loses what the replica had not received.
    #[must_use]
    pub fn failover_after(mut self, silence: Duration) -> Self {
        self.failover = Some(silence);
        self
    }

    /// Sets the server's wall clock, which can be shifted.
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Adds a user with these ACL rules, like `>password ~* +@all`.
    #[must_use]
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config(format!("user {name} on {rules}"))
    }

    /// Adds a line to `redis.conf`, like `maxmemory 1mb`. It overrides the default lines.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Creates one authority for all servers that are started with these options, if they use TLS.
    pub(super) fn certified(mut self) -> Result<Self, ServerError> {
        if self.tls && self.certificates.is_none() {
            self.certificates = Some(Certificates::new()?);
        }
        Ok(self)
    }

    pub(super) fn speaks_tls(&self) -> bool {
        self.tls
    }

    /// Returns `other` with the TLS settings of these options.
    pub(super) fn tls_of(&self, mut other: Self) -> Self {
        other.tls = self.tls;
        other.certificates.clone_from(&self.certificates);
        other
    }

    /// Makes it a sentinel instead of a data server.
    pub(super) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Returns these options, with the lines of `base` in front of their own.
    pub(super) fn over(mut self, base: Self) -> Self {
        self.config = base.config.into_iter().chain(self.config).collect();
        self
    }

    /// Returns the silence after which a server is replaced, in ms.
    pub(super) fn failover_ms(&self) -> u128 {
        self.failover.unwrap_or(NEVER).as_millis()
    }

    pub(super) fn secret(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Returns a port for the messages between the nodes of a cluster. By default it is the
    /// server's port plus 10,000, which is in the range of outgoing connections: any of them can
    /// have it.
    fn bus_port(&self) -> Result<Option<u16>, ServerError> {
        let is_node = self.config.iter().any(|line| line == CLUSTER_NODE);
        is_node.then(launch::free_port).transpose().map_err(ServerError::io("find a free port"))
    }

    fn file(&self, port: u16, bus_port: Option<u16>, folder: &Path) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", quoted(&folder.to_string_lossy())),
            "daemonize no".to_owned(),
        ];
        if self.tls {
            lines.extend([
                "port 0".to_owned(),
                format!("tls-port {port}"),
                format!("tls-cert-file {CERTIFICATE}"),
                format!("tls-key-file {KEY}"),
                format!("tls-ca-cert-file {CA}"),
                "tls-auth-clients no".to_owned(),
                "tls-replication yes".to_owned(),
                format!("unixsocket {SOCKET}"),
            ]);
        } else {
            lines.push(format!("port {port}"));
        }
        if !self.sentinel {
            let append_only = if self.append_only { "yes" } else { "no" };
            lines.extend([
                "save \"\"".to_owned(),
                "appendfsync always".to_owned(),
                format!("appendonly {append_only}"),
                // A replica is in sync within moments instead of seconds.
                "repl-diskless-sync-delay 0".to_owned(),
            ]);
            lines.extend(self.password.iter().map(|password| format!("masterauth {}", quoted(password))));
        }
        lines.extend(self.password.iter().map(|password| format!("requirepass {}", quoted(password))));
        lines.extend(self.config.iter().cloned());
        lines.extend(bus_port.map(|port| format!("cluster-port {port}")));
        lines.join("\n") + "\n"
    }
}

/// The line that makes a server a node of a cluster.
pub(super) const CLUSTER_NODE: &str = "cluster-enabled yes";

/// A private Redis server of this process, on a free port of 127.0.0.1, with its data in a
/// temporary folder.
///
/// It ends with this process, however the process ends. It can be killed, paused and restarted like
/// any [`Server`].
#[derive(Debug)]
pub struct RedisServer {
    server: Server,
    options: RedisOptions,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no `redis-server`; otherwise the reason why it did
    /// not start.
    pub fn start(options: RedisOptions) -> Result<Self, ServerError> {
        let program = find::redis_server()?;
        let options = options.certified()?;
        launch::on_free_port(|port| {
            let folder = launch::folder("redis")?;
            if let Some(certificates) = &options.certificates {
                certificates.write(folder.path())?;
            }
            let file = folder.path().join("redis.conf");
            let bus_port = options.bus_port()?;
            fs::write(&file, options.file(port, bus_port, folder.path()))
                .map_err(ServerError::io("write redis.conf"))?;
            let mut command: Vec<_> = options.clock.iter().flat_map(Clock::launcher).collect();
            command.extend([program.clone().into_os_string(), file.into_os_string()]);
            command.extend(options.sentinel.then(|| "--sentinel".into()));
            let endpoint = endpoint(&options, port, folder.path());
            let password = options.password.clone();
            let supervisor = Supervisor::new(folder, None, &command)?;
            let probe = move |pid| says_its_pid(&endpoint, password.as_deref(), pid);
            let server = Server::start(PROGRAM, supervisor, port, Box::new(probe))?;
            options.clock.iter().try_for_each(|clock| clock.check(server.pid()))?;
            Ok(Self { server, options: options.clone() })
        })
    }

    /// Returns the URL, with the password and the path of the authority: `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        let host = format!("127.0.0.1:{}", self.port());
        let parameters: Vec<_> = self.trust().into_iter().collect();
        self.url_of("", &host, "", &parameters)
    }

    /// Returns a URL of hosts with the password, TLS and the authority of this server.
    pub(super) fn url_of(&self, kind: &str, hosts: &str, path: &str, parameters: &[String]) -> String {
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
        let password = self.options.secret().map(url_escaped);
        let userinfo = password.map(|password| format!(":{password}@")).unwrap_or_default();
        format!("{scheme}{kind}://{userinfo}{hosts}/{path}{query}")
    }

    /// Returns the URL parameter with the authority.
    pub(super) fn trust(&self) -> Option<String> {
        self.ca().map(|ca| format!("ca={}", url_escaped(&ca.to_string_lossy())))
    }

    /// Returns the certificate of the authority that signed the server's, if the port uses TLS.
    pub fn ca(&self) -> Option<PathBuf> {
        self.options.tls.then(|| self.dir().join(CA))
    }

    /// Sends a command and returns the raw reply, like `+PONG`. Takes at most 10 s.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the server does not answer.
    pub fn command(&self, words: &[&str]) -> Result<String, ServerError> {
        self.command_within(COMMAND_LIMIT, words)
    }

    /// Sends a command that will be sent again: it takes at most 2 s, also if the server is paused.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub(super) fn probe(&self, words: &[&str]) -> Result<String, ServerError> {
        self.command_within(launch::ANSWER_LIMIT, words)
    }

    fn command_within(&self, limit: Duration, words: &[&str]) -> Result<String, ServerError> {
        let endpoint = endpoint(&self.options, self.port(), self.dir());
        ask(&endpoint, self.options.secret(), &[words], limit).map_err(ServerError::io("ask the server"))
    }

    /// Returns whether a replica has confirmed all writes of this server. A replica confirms once a
    /// second, and not before the first write.
    pub fn is_followed(&self) -> bool {
        let info = self.probe(&["INFO", "replication"]).unwrap_or_default();
        let offset = info.lines().find_map(|line| line.trim_end().strip_prefix("master_repl_offset:"));
        offset.is_some_and(|offset| offset != "0" && info.contains(&format!(",offset={offset},")))
    }

    /// Writes to a server that is still empty, and waits until a replica has the write: only from
    /// then on are writes sent to it at once.
    pub(super) fn await_replica(&self) -> Result<(), ServerError> {
        self.command(&["FLUSHALL"])?;
        let followed = wait_until(launch::READY_LIMIT, || self.is_followed().then_some(()));
        followed.ok_or_else(|| ServerError::Silent { program: PROGRAM, log: "the replica".to_owned() })
    }
}

/// Returns the endpoint for a client without TLS.
fn endpoint(options: &RedisOptions, port: u16, folder: &Path) -> RedisEndpoint {
    if options.tls { RedisEndpoint::Socket(folder.join(SOCKET)) } else { RedisEndpoint::Port(port) }
}

impl Deref for RedisServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
