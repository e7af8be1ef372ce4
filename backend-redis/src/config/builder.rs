//! The options of a store.

use std::time::Duration;

use redis::Client;
use redis::aio::ConnectionLike;
use stanchion_core::engine::{EngineSteps, StepsWrap};
use stanchion_core::{Error, Result};

use super::deployment::Deployment;
use super::url;
use crate::access::Access;
use crate::given::Given;
use crate::keys::Keyspace;

const LONGEST_RETENTION: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// More replicas no primary has.
const MOST_REPLICAS: u32 = 1_000;

/// How long the state of an idle name stays (C25).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// For fencing tokens.
    pub(crate) tokens: Duration,
    /// For the rest.
    pub(crate) state: Duration,
}

/// Makes a [`RedisStore`](crate::RedisStore). Without I/O until [`connect`](Self::connect), but for a file of a URL's `ca`.
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    pub(crate) deployment: Deployment,
    pub(crate) namespace: String,
    pub(crate) request_timeout: Duration,
    pub(crate) retention: Retention,
    pub(crate) replicas: u32,
    pub(crate) wrap: Option<StepsWrap>,
}

impl RedisBuilder {
    /// From a URL.
    ///
    /// | URL | servers |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | one |
    /// | `redis+unix:///PATH[?db=…&user=…&pass=…]` | one, through its socket |
    /// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]` | a cluster, from any of its nodes |
    /// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/SERVICE[/DATABASE]` | the primary that the sentinels at these hosts announce; the credentials are the servers' |
    ///
    /// With `rediss` for `redis` they speak TLS, sentinels too, and have to prove who they are.
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | `namespace` | see [`namespace`](Self::namespace) |
    /// | `request_timeout_ms` | see [`request_timeout`](Self::request_timeout) |
    /// | `replicas` | see [`replicas`](Self::replicas) |
    /// | `ca` | the path of a PEM file: the authorities that are trusted, instead of Mozilla's (TLS only) |
    /// | `sentinel_user`, `sentinel_password` | the sentinels' credentials (Sentinel only) |
    ///
    /// # Errors
    /// `InvalidArgument` for a URL that does not parse, an unknown parameter, or a file without certificates;
    /// `Unsupported` for TLS without the NameBatch feature `tls`.
    pub fn new(url: &str) -> Result<Self> {
        let (deployment, parameters) = url::parse(url)?;
        let mut builder = Self::over(deployment);
        builder.namespace = parameters.namespace.unwrap_or(builder.namespace);
        builder.request_timeout = parameters.request_timeout.unwrap_or(builder.request_timeout);
        builder.replicas = parameters.replicas.unwrap_or_default();
        builder.check()?;
        Ok(builder)
    }

    /// From a connection that the user has: a `MultiplexedConnection`, a `ConnectionManager`, or another of the client
    /// library's that can be cloned, in either version of the protocol. Not one that blocks or subscribes.
    ///
    /// Renewals and releases go through it, too, unless there is a [`wake_client`](Self::wake_client): a runtime of its
    /// own does not help them while the runtime that drives the connection is blocked (C13).
    pub fn from_connection(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        Self::over(Deployment::Given { given: Given::new(connection, false), wake: None })
    }

    /// From a `ClusterConnection` that the user has; otherwise as [`from_connection`](Self::from_connection).
    ///
    /// It sends a request again by itself, so its refusals are not certain: what a store made from a URL reports as
    /// `Unavailable` is `Unknown` here. [`replicas`](Self::replicas) is not offered.
    pub fn from_cluster_connection(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        Self::over(Deployment::Given { given: Given::new(connection, true), wake: None })
    }

    fn over(deployment: Deployment) -> Self {
        Self {
            deployment,
            namespace: "stanchion".to_owned(),
            request_timeout: Duration::from_secs(2),
            retention: Retention {
                tokens: Duration::from_secs(24 * 60 * 60),
                state: Duration::from_secs(60 * 60),
            },
            replicas: 0,
            wrap: None,
        }
    }

    /// Beside a user's connection: makes the connections for wake-ups and for renewals and releases. It has to lead to the
    /// same database, which is checked; to a cluster, to any node of it. Without one, waiters proceed by the poll floor
    /// and `capabilities().wake_ups` is `false` (C14).
    #[must_use]
    pub fn wake_client(mut self, client: Client) -> Self {
        if let Deployment::Given { wake, .. } = &mut self.deployment {
            *wake = Some(Access::new(client.get_connection_info().clone()));
        }
        self
    }

    /// The namespace, 1 to 64 of `A-Z a-z 0-9 _ . -` (default `stanchion`). Namespaces do not see each other.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Time limit of one request, at least 1 ms (default 2 s); a third of the lease is used where that is less (C17).
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long the state of an idle name stays (C25): its fencing token (default 24 h) and the rest, like a
    /// semaphore's limit (default 1 h). Both 1 s to 366 days; the keys of a name disappear an eighth of the first
    /// later at most.
    #[must_use]
    pub fn retention(mut self, tokens: Duration, state: Duration) -> Self {
        self.retention = Retention { tokens, state };
        self
    }

    /// How many replicas have to acknowledge a grant, by `WAIT`, before it is handed out (default 0, at most 1000).
    /// Where too few do within a third of the request's time limit, the grant is undone and the call gets `Unavailable`.
    ///
    /// It makes it less likely that a failover forgets a grant, and no more: renewals and releases are not waited for,
    /// a replica that has not acknowledged can be the one that is promoted, and one that has can lose it in a restart.
    /// This is not consensus; fencing tokens keep growing through all of these. Each grant takes a round trip to the
    /// replicas, during which the connection answers nobody else.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// For authors of stores: puts something between the store's steps and its engine, as
    /// `stanchion_conformance::faulty` does to lose and double requests.
    #[must_use]
    pub fn with_steps(mut self, wrap: impl Fn(EngineSteps) -> EngineSteps + Send + Sync + 'static) -> Self {
        self.wrap = Some(StepsWrap::new(wrap));
        self
    }

    /// Checks what was set.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is out of range; `Unsupported` for what a user's connection cannot do.
    pub(crate) fn check(&self) -> Result<Keyspace> {
        if self.request_timeout < Duration::from_millis(1) {
            return Err(Error::invalid_argument("request_timeout is at least 1 ms"));
        }
        let range = Duration::from_secs(1)..=LONGEST_RETENTION;
        if !range.contains(&self.retention.tokens) || !range.contains(&self.retention.state) {
            return Err(Error::invalid_argument("a retention time is between 1 s and 366 days"));
        }
        if self.replicas > MOST_REPLICAS {
            return Err(Error::invalid_argument("replicas is at most 1000"));
        }
        if self.replicas > 0
            && matches!(&self.deployment, Deployment::Given { given, .. } if given.is_cluster)
        {
            let detail =
                "replicas is not offered over a cluster connection: make the store from the cluster's URL";
            return Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail));
        }
        Keyspace::new(&self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_options_are_checked() {
        let builder = || RedisBuilder::new("redis://127.0.0.1/").unwrap();
        let retention = |tokens, state| {
            builder().retention(Duration::from_millis(tokens), Duration::from_millis(state)).check().is_ok()
        };
        assert!(retention(1_000, 1_000) && !retention(999, 1_000) && !retention(1_000, 999));
        assert!(builder().replicas(1_000).check().is_ok() && builder().replicas(1_001).check().is_err());
        assert!(builder().request_timeout(Duration::ZERO).check().is_err());
    }
}
