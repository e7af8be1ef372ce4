//! A server, its clients and its counters.

use std::collections::HashMap;
use std::sync::Arc;

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client};
use stanchion_bench::Failure;
use stanchion_core::Store;
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

/// A server started for the bench, and a runtime with as many threads as the bench machines have
/// cores.
pub(crate) struct RedisFixture {
    pub(crate) runtime: Runtime,
    url: String,
    client: Client,
    watcher: OnceCell<MultiplexedConnection>,
    _server: Option<RedisServer>,
}

/// Counters of a server, since its start or between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Requests on the wire.
    pub(crate) commands: f64,
    /// Calls inside scripts.
    pub(crate) inside: f64,
    /// Bytes received and sent.
    pub(crate) bytes: f64,
    /// Seconds of processor time.
    pub(crate) processor: f64,
}

impl RedisFixture {
    pub(crate) fn new() -> Result<Self, Failure> {
        let server = RedisServer::start(RedisOptions::default())?;
        let url = server.url();
        Ok(Self { _server: Some(server), ..Self::beside(&url)? })
    }

    /// Uses a server that another process has started. Connects at the first use.
    pub(crate) fn beside(url: &str) -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let client = Client::open(url)?;
        Ok(Self { runtime, url: url.to_owned(), client, watcher: OnceCell::new(), _server: None })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn version(&self) -> Result<String, Failure> {
        let info = self.runtime.block_on(self.info("server"))?;
        let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(line.ok_or("no version")?.trim().to_owned())
    }

    /// Opens a store, as another process would.
    pub(crate) fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(Arc::new(self.runtime.block_on(RedisStore::connect(&self.url))?))
    }

    /// Opens a connection without a timeout for answers.
    pub(crate) fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(self.runtime.block_on(self.client.get_multiplexed_async_connection_with_config(&config))?)
    }

    pub(crate) fn connections(&self, count: usize) -> Result<Arc<Vec<MultiplexedConnection>>, Failure> {
        Ok(Arc::new((0..count).map(|_| self.connection()).collect::<Result<_, _>>()?))
    }

    pub(crate) fn manager(&self) -> Result<ConnectionManager, Failure> {
        Ok(self.runtime.block_on(self.client.get_connection_manager())?)
    }

    /// Returns the number of clients, without the one that asks.
    pub(crate) async fn clients(&self) -> Result<f64, Failure> {
        let mut list = redis::cmd("CLIENT");
        let list: String = list.arg("LIST").query_async(&mut self.watcher().await?).await?;
        Ok(stanchion_bench::figure::whole(list.lines().count()) - 1.0)
    }

    /// Returns the number of keys.
    pub(crate) async fn keys(&self) -> Result<f64, Failure> {
        Ok(redis::cmd("DBSIZE").query_async(&mut self.watcher().await?).await?)
    }

    /// Returns the memory of the server, in bytes.
    pub(crate) async fn memory(&self) -> Result<f64, Failure> {
        let info = self.info("memory").await?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(line.ok_or("no memory")?.trim().parse()?)
    }

    /// Reads the counters of the server. A call counts as a request on the wire if its name is one
    /// of `wire`, in lower case.
    pub(crate) async fn done(&self, wire: &[&str]) -> Result<Done, Failure> {
        let info = self.info("everything").await?;
        let calls: HashMap<&str, f64> = info
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
            .filter_map(|(name, rest)| Some((name, rest.split(',').next()?.parse().ok()?)))
            .filter(|(name, _)| !["info", "client|list"].contains(name))
            .collect();
        let commands: f64 = wire.iter().filter_map(|name| calls.get(name)).sum();
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        Ok(Done {
            commands,
            inside: calls.values().sum::<f64>() - commands,
            bytes: field("total_net_input_bytes") + field("total_net_output_bytes"),
            processor: field("used_cpu_sys") + field("used_cpu_user"),
        })
    }

    /// Returns the connection that reads counters.
    async fn watcher(&self) -> Result<MultiplexedConnection, Failure> {
        let connect = || self.client.get_multiplexed_async_connection();
        Ok(self.watcher.get_or_try_init(connect).await?.clone())
    }

    async fn info(&self, section: &str) -> Result<String, Failure> {
        Ok(redis::cmd("INFO").arg(section).query_async(&mut self.watcher().await?).await?)
    }
}

impl Done {
    /// Returns the difference to an earlier reading.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            inside: self.inside - before.inside,
            bytes: self.bytes - before.bytes,
            processor: self.processor - before.processor,
        }
    }
}
