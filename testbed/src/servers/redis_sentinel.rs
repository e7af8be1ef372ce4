//! A private Redis with sentinels.

use super::error::ServerError;
use super::launch::READY_LIMIT;
use super::redis::{RedisOptions, RedisServer};
use super::redis_cluster::start_all;
use super::redis_wire::{quoted, url_escaped};
use super::wait::wait_until;

const SENTINELS: usize = 3;
/// The sentinels' name of the service.
const SERVICE: &str = "test";

/// A private primary, a replica and three sentinels with a quorum of two, on 127.0.0.1.
///
/// A primary that is silent is replaced only with [`RedisOptions::failover_after`].
#[derive(Debug)]
pub struct RedisSentinel {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
    password: Option<String>,
}

impl RedisSentinel {
    /// Starts all servers, and waits until the replica is in sync and the sentinels know it and
    /// each other.
    ///
    /// A password in the options applies to the servers and to the sentinels.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`]; [`ServerError::Silent`] if they do not find each other.
    pub fn start(options: RedisOptions) -> Result<Self, ServerError> {
        let options = options.certified()?;
        let primary = RedisServer::start(options.clone())?;
        let port = primary.port();
        let replica = RedisServer::start(options.clone().config(format!("replicaof 127.0.0.1 {port}")))?;
        let mut sentinel = options
            .tls_of(RedisOptions::default())
            .sentinel()
            .config(format!("sentinel monitor {SERVICE} 127.0.0.1 {port} 2"))
            .config(format!("sentinel down-after-milliseconds {SERVICE} {}", options.failover_ms()))
            .config(format!("sentinel failover-timeout {SERVICE} 6000"));
        if let Some(password) = options.secret() {
            sentinel = sentinel
                .password(password)
                .config(format!("sentinel auth-pass {SERVICE} {}", quoted(password)))
                .config(format!("sentinel sentinel-pass {}", quoted(password)));
        }
        let sentinels = start_all(SENTINELS, &sentinel)?;
        let password = options.secret().map(str::to_owned);
        let all = Self { servers: [primary, replica], sentinels, password };
        all.wait(|| all.sentinels.iter().all(is_ready).then_some(()))?;
        all.servers[0].await_replica()?;
        Ok(all)
    }

    /// Returns the servers; at first, the first one is the primary.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the URL, with all sentinels: `redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT…/test`.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
        let mut parameters: Vec<_> = self.servers[0].trust().into_iter().collect();
        parameters.extend(self.password.as_ref().map(|it| format!("sentinel_password={}", url_escaped(it))));
        self.servers[0].url_of("+sentinel", &hosts.join(","), SERVICE, &parameters)
    }

    /// Returns the server that a majority of the sentinels announces as the primary.
    ///
    /// # Errors
    ///
    /// [`ServerError::Silent`] if they do not agree within a time that is long enough for a
    /// failover.
    pub fn primary(&self) -> Result<usize, ServerError> {
        self.wait(|| {
            let announced = |index: &usize| {
                let port = self.servers[*index].port().to_string();
                let says = |one: &&RedisServer| {
                    let asked = one.probe(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
                    asked.is_ok_and(|answer| answer.lines().any(|line| line == port))
                };
                self.sentinels.iter().filter(says).count() > SENTINELS / 2
            };
            (0..self.servers.len()).find(announced)
        })
    }

    /// Makes a sentinel promote the replica although the primary works.
    ///
    /// # Errors
    ///
    /// [`ServerError::Silent`] if the sentinels refuse for too long.
    pub fn promote(&self) -> Result<(), ServerError> {
        self.wait(|| {
            let answer = self.sentinels[0].probe(&["SENTINEL", "FAILOVER", SERVICE]);
            answer.is_ok_and(|answer| answer.starts_with('+')).then_some(())
        })
    }

    fn wait<T>(&self, probe: impl FnMut() -> Option<T>) -> Result<T, ServerError> {
        wait_until(READY_LIMIT, probe).ok_or_else(|| {
            let view = self.sentinels[0].probe(&["SENTINEL", "MASTER", SERVICE]).unwrap_or_default();
            ServerError::Silent { program: "redis-server", log: view.replace("\r\n", " ") }
        })
    }
}

fn is_ready(sentinel: &RedisServer) -> bool {
    let info = sentinel.probe(&["INFO", "sentinel"]).unwrap_or_default();
    let replicas = sentinel.probe(&["SENTINEL", "REPLICAS", SERVICE]).unwrap_or_default();
    info.contains("status=ok")
        && info.contains(&format!("slaves=1,sentinels={SENTINELS}"))
        && replicas.contains("master-link-status\r\n$2\r\nok")
}
