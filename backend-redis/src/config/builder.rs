//! The options of a store.

use std::time::Duration;

use redis::Client;
use redis::aio::ConnectionLike;
use stanchion_core::connect::NetworkOptions;
use stanchion_core::{Credentials, CredentialsProvider, Error, Result};

use super::connectors::Connectors;
use super::url;
use crate::connector::{Connector, ConnectorSettings};
use crate::durability::Durability;
use crate::keys::Keyspace;
use crate::user_connection::UserConnection;

/// Maximum of `replicas`; no primary has more.
const MAX_REPLICAS: u32 = 1_000;

/// Builds a [`RedisStore`](crate::RedisStore). It does no I/O before [`connect`](Self::connect),
/// except that it reads the file that `ca` in a URL names.
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    pub(crate) connectors: Connectors,
    pub(crate) options: NetworkOptions,
    /// `None`: half of that of a request, 1 s at least.
    pub(crate) connect_timeout: Option<Duration>,
    /// How long the state of an idle name stays ([C25]).
    ///
    /// [C25]: stanchion_core::contract#c25
    pub(crate) retention: Duration,
    pub(crate) durability: Durability,
    pub(crate) accept_eviction: bool,
    pub(crate) settings: ConnectorSettings,
}

impl RedisBuilder {
    /// Makes a builder from a URL.
    ///
    /// | URL | servers |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | one |
    /// | `redis+unix:///PATH[?db=…&user=…&pass=…]` | one, through its socket |
    /// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]` | a cluster, from any of its nodes |
    /// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/SERVICE[/DATABASE]` | the primary that the sentinels at these hosts announce; the credentials are for the servers |
    ///
    /// With `rediss` in place of `redis` the servers and sentinels speak TLS, and their
    /// certificates are verified.
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | `namespace` | see [`namespace`](Self::namespace) |
    /// | `request_timeout_ms` | see [`request_timeout`](Self::request_timeout) |
    /// | `connect_timeout_ms` | see [`connect_timeout`](Self::connect_timeout) |
    /// | `replicas` | see [`replicas`](Self::replicas) |
    /// | `fsync` | `on` or `off`; see [`fsync`](Self::fsync) |
    /// | `confirm_renewals` | `on` or `off`; see [`confirm_renewals`](Self::confirm_renewals) |
    /// | `client_name` | see [`client_name`](Self::client_name) |
    /// | `keepalive_ms` | see [`keepalive`](Self::keepalive) |
    /// | `protocol` | `resp3` (default) or `resp2`, for a proxy that speaks nothing else: then the end of a connection is noticed at the next request |
    /// | `ca` | the path of a PEM file with the authorities to trust in place of Mozilla's (TLS only) |
    /// | `cert`, `key` | the paths of PEM files with the client's certificate and its key (TLS only) |
    /// | `server_name` | the name in the server's certificate, if it is not that of the host (`rediss://` only) |
    /// | `sentinel_user`, `sentinel_password` | the credentials for the sentinels (Sentinel only) |
    ///
    /// # Errors
    /// `InvalidArgument` for a URL that does not parse, an unknown parameter, or a file without
    /// certificates; `Unsupported` for TLS without the Cargo feature `tls`.
    pub fn new(url: &str) -> Result<Self> {
        let (connectors, mut parameters) = url::parse(url)?;
        let mut builder = Self::over(connectors);
        builder.options = NetworkOptions::of_url(&mut parameters)?;
        builder.connect_timeout = parameters.milliseconds("connect_timeout_ms")?;
        builder.settings.name = parameters.text("client_name")?;
        if let Some(keepalive) = parameters.milliseconds("keepalive_ms")? {
            builder.settings.keepalive = keepalive;
        }
        let protocols = [("resp2", true), ("resp3", false)];
        builder.settings.is_resp2 = parameters.one_of("protocol", &protocols)?.unwrap_or_default();
        builder.durability = Durability {
            replicas: parameters.number("replicas")?.unwrap_or_default(),
            fsync: parameters.switch("fsync")?.unwrap_or_default(),
            renewals: parameters.switch("confirm_renewals")?.unwrap_or_default(),
        };
        parameters.end()?;
        builder.check()?;
        Ok(builder)
    }

    /// Makes a builder from a connection of the user: a `MultiplexedConnection`, a
    /// `ConnectionManager`, or another type of the client library that can be cloned, in either
    /// version of the protocol. The connection must not block or subscribe.
    ///
    /// A `MultiplexedConnection` that breaks stays broken, also because the runtime that drove it
    /// has ended: from then on every call ends with `Closed`, but for decisions of a limiter's
    /// outage policy. A `ConnectionManager` connects again.
    ///
    /// Without a [`wake_client`](Self::wake_client), renewals and releases use this connection,
    /// too. Then the runtime of the engine does not help them while the runtime that drives the
    /// connection is blocked ([C13]).
    ///
    /// # Examples
    /// ```no_run
    /// use redis::Client;
    /// use stanchion_core::Store;
    /// use stanchion_redis::RedisBuilder;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::open("redis://127.0.0.1/")?;
    /// let connection = client.get_connection_manager().await?;
    /// let store = RedisBuilder::from_connection(connection).wake_client(client).connect().await?;
    /// let guard = store.mutex("report", Default::default())?.lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C13]: stanchion_core::contract#c13
    pub fn from_connection(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        Self::over(Connectors::UserConnection {
            connection: UserConnection::new(connection, false),
            wake: None,
        })
    }

    /// Makes a builder from a `ClusterConnection` of the user; otherwise as
    /// [`from_connection`](Self::from_connection).
    ///
    /// Such a connection sends requests again by itself, so that its refusals are not certain.
    /// Where a store made from a URL reports `Unavailable`, this one reports `Unknown`.
    /// [`replicas`](Self::replicas) and [`fsync`](Self::fsync) are not offered.
    pub fn from_cluster_connection(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        Self::over(Connectors::UserConnection {
            connection: UserConnection::new(connection, true),
            wake: None,
        })
    }

    fn over(connectors: Connectors) -> Self {
        Self {
            connectors,
            options: NetworkOptions::default(),
            connect_timeout: None,
            retention: Duration::from_secs(60 * 60),
            durability: Durability::default(),
            accept_eviction: false,
            settings: ConnectorSettings::default(),
        }
    }

    /// Sets a client beside a user's connection: it makes the connections for wake-ups, renewals
    /// and releases. The client has to lead to the same database, which is checked; for a cluster,
    /// it may lead to any node. Without a client, waiters proceed by the poll floor and
    /// `capabilities().wake_ups` is `false` ([C14]).
    ///
    /// [C14]: stanchion_core::contract#c14
    #[must_use]
    pub fn wake_client(mut self, client: Client) -> Self {
        if let Connectors::UserConnection { wake, .. } = &mut self.connectors {
            *wake = Some(Connector::new(client.get_connection_info().clone()));
        }
        self
    }

    stanchion_core::network_options!();

    /// Sets the time limit of one attempt to connect, login included: 1 ms to 1 h (default half of
    /// the [`request_timeout`](Self::request_timeout), 1 s at least). [`connect`](Self::connect)
    /// waits for its first answer for the longer of the two. A later request does not wait longer
    /// than its own time limit, but the attempt goes on, and the next request finds its connection.
    /// A user's connection is made by the user.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sets the name of the store's connections in `CLIENT LIST`: 1 to 64 printable ASCII
    /// characters without spaces (default none). A user without the right to `CLIENT SETNAME` has
    /// none.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Sets after what time without traffic TCP probes the other side, 1 s to 1 h (default: 30 s);
    /// zero for never. It keeps a connection from being dropped by what is in between; a server
    /// that does not answer is noticed by its requests.
    #[must_use]
    pub fn keepalive(mut self, time: Duration) -> Self {
        self.settings.keepalive = time;
        self
    }

    /// Sets what gives the credentials, which is asked before each connection is made: for
    /// passwords and tokens that change. They replace those of the URL, also for a
    /// [`wake_client`](Self::wake_client); sentinels have their own. While it fails, calls get
    /// `Unavailable`. It has the time of [`connect_timeout`](Self::connect_timeout), and runs on
    /// the runtime that connects.
    ///
    /// # Examples
    /// ```no_run
    /// use stanchion_redis::{Credentials, RedisBuilder};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # fn run() -> stanchion_core::Result<()> {
    /// let builder = RedisBuilder::new("rediss://cache.example/")?
    ///     .credentials(|| async { Ok(Credentials::user("worker", token().await?)) });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Credentials, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        self.settings.provider = Some(CredentialsProvider::new(provide));
        self
    }

    /// Accepts servers that evict keys, for limiters alone: an evicted limiter is a full bucket
    /// again. The store then refuses mutexes, semaphores, wait groups and Bloom filters with
    /// `Unsupported` (default: such a server is refused with `UnsafeStore`, [C22]).
    ///
    /// [C22]: stanchion_core::contract#c22
    #[must_use]
    pub fn accept_eviction(mut self, accept: bool) -> Self {
        self.accept_eviction = accept;
        self
    }

    /// Returns the time limit of an attempt to connect.
    pub(crate) fn time_to_connect(&self) -> Duration {
        // Shorter than a request: an attempt that met an outage must not hold up the later ones.
        self.connect_timeout.unwrap_or_else(|| (self.options.request_timeout / 2).max(Duration::from_secs(1)))
    }

    /// Sets how long the state of an idle name stays ([C25]), such as the limit of a semaphore or
    /// the last outcomes of a wait group: 1 s to 366 days (default 1 h). Its keys disappear later
    /// by at most an eighth of that. A mutex has no state while it is free, and fencing tokens need
    /// none: the largest token of each of the 16 stripes stays for good.
    ///
    /// [C25]: stanchion_core::contract#c25
    #[must_use]
    pub fn retention(mut self, time: Duration) -> Self {
        self.retention = time;
        self
    }

    /// Sets how many replicas have to acknowledge a grant, by `WAIT`, before it is handed out
    /// (default 0, at most 1000). If too few do so within a third of the time limit of the request,
    /// the grant is undone and the call gets `Unavailable`.
    ///
    /// This only makes it less likely that a failover forgets a grant. Releases do not wait, and
    /// renewals only if [`confirm_renewals`](Self::confirm_renewals) says so. A replica that has
    /// not acknowledged can be promoted, and a replica that has acknowledged can lose the grant in
    /// a restart. This is not consensus; fencing tokens keep growing through all of these. Each
    /// grant takes a round trip to the replicas, on a connection of its own: other requests do not
    /// wait for it.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.durability.replicas = replicas;
        self
    }

    /// Sets whether a grant is handed out only once the append-only file of the server has it on
    /// disk, by `WAITAOF` (Redis 7.2; default no), with [`replicas`](Self::replicas) also that of
    /// so many replicas. Otherwise as there. Connecting refuses a server without such a file with
    /// `UnsafeStore`.
    ///
    /// With `appendfsync always` the server has written before it answers, and this adds nothing
    /// but for replicas. With `everysec` a grant takes a second or more, and the requests that wait
    /// so follow one another on their connection: the [`request_timeout`](Self::request_timeout), a
    /// third of which is for this, has to be 6 s at least, the leases three times as long, and
    /// locks few.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.durability.fsync = fsync;
        self
    }

    /// Sets whether renewals wait for what grants wait for, [`replicas`](Self::replicas) or
    /// [`fsync`](Self::fsync) (default no). One that too little keeps counts as not made, and is
    /// made again until the deadline of the hold: while the replicas are away, holds are lost.
    /// Without this, the hold of a long task is in a replica that is promoted as it was granted or
    /// as some later renewal left it.
    #[must_use]
    pub fn confirm_renewals(mut self, confirm: bool) -> Self {
        self.durability.renewals = confirm;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// `InvalidArgument` naming an option that is out of range; `Unsupported` for one that a user's
    /// connection cannot offer.
    pub(crate) fn check(&self) -> Result<Keyspace> {
        self.options.check(&[self.retention])?;
        self.settings.check()?;
        let hour = Duration::from_secs(60 * 60);
        if !(Duration::from_millis(1)..=hour).contains(&self.time_to_connect()) {
            return Err(Error::invalid_argument("connect_timeout is between 1 ms and 1 h"));
        }
        if self.durability.replicas > MAX_REPLICAS {
            return Err(Error::invalid_argument("replicas is at most 1000"));
        }
        if self.durability.waits()
            && matches!(&self.connectors, Connectors::UserConnection { connection, .. } if connection.is_cluster)
        {
            let detail = "replicas and fsync are not offered over a cluster connection: make the store from the cluster's URL";
            return Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail));
        }
        Keyspace::new(&self.options.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_options_are_checked() {
        let builder = || RedisBuilder::new("redis://127.0.0.1/").unwrap();
        let retention = |time| builder().retention(Duration::from_millis(time)).check().is_ok();
        assert!(retention(1_000) && !retention(999));
        assert!(builder().replicas(1_000).check().is_ok() && builder().replicas(1_001).check().is_err());
        assert!(builder().request_timeout(Duration::ZERO).check().is_err());
        assert!(builder().request_timeout(Duration::MAX).check().is_err());
        assert!(builder().connect_timeout(Duration::ZERO).check().is_err());
        assert!(builder().connect_timeout(Duration::MAX).check().is_err());
    }
}
