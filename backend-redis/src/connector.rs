//! Makes connections to one server.

mod settings;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::PubSubStream;
use redis::io::AsyncDNSResolver;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisError,
    RedisFuture,
};
use stanchion_core::clock::timeout;
use stanchion_core::connect::Backoff;
use stanchion_core::{Error, Result};

pub(crate) use self::settings::ConnectorSettings;
use crate::address::Address;
use crate::connection::Connection;
use crate::error;

/// Makes connections: to one server, or to whichever server has a role.
#[async_trait]
pub(crate) trait Connect: fmt::Debug + Send + Sync {
    /// Connects, within the time limit of an attempt. One that follows a failed one waits for its
    /// time before.
    ///
    /// # Errors
    /// If no connection was made. Nothing was sent.
    async fn connect(&self) -> Result<Connection>;

    /// Returns the error of a connection that was not made in time: that of the last attempt, if it
    /// failed. Nothing was sent.
    fn unanswered(&self) -> Error;

    /// Whether the last attempt failed, and the next one may succeed: not on a server that must not
    /// be used.
    fn is_refused(&self) -> bool;

    /// Adds the address of the server to an error, if there is one server only.
    fn locate(&self, error: Error) -> Error;
}

/// The address of a server, with credentials, database, TLS and settings. For another server of the
/// same deployment it has another address.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    info: Arc<ConnectionInfo>,
    settings: ConnectorSettings,
    backoff: Arc<Backoff>,
    /// The host, where the address has the name in its certificate instead.
    host: Option<OneHost>,
}

impl Connector {
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        let (settings, backoff) = (ConnectorSettings::default(), Arc::new(Backoff::new("redis")));
        Self { info: Arc::new(info), settings, backoff, host: None }
    }

    /// Returns a connector to the same server with these settings. It knows of no failed attempt.
    pub(crate) fn configured(&self, settings: &ConnectorSettings) -> Self {
        let backoff = Arc::new(Backoff::new("redis"));
        Self { settings: settings.clone(), backoff, ..self.clone() }
    }

    /// Returns a connector to the same server, whose certificate has another name than its host.
    ///
    /// # Errors
    /// `InvalidArgument` for a socket.
    pub(crate) fn certified_as(&self, name: &str) -> Result<Self> {
        let Some(Address { host, port }) = self.address() else {
            return Err(Error::invalid_argument("server_name needs a host"));
        };
        let named = self.at(&Address { host: name.to_owned(), port });
        Ok(Self { host: Some(OneHost(host.into())), ..named })
    }

    /// Returns a connector to the same server with another login.
    pub(crate) fn with_login(&self, login: RedisConnectionInfo) -> Self {
        let info = ConnectionInfo::clone(&self.info).set_redis_settings(login);
        Self { info: Arc::new(info), ..self.clone() }
    }

    /// Returns the same connector to another server.
    pub(crate) fn at(&self, address: &Address) -> Self {
        let Address { host, port } = address.clone();
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let info = Arc::new(ConnectionInfo::clone(&self.info).set_addr(addr));
        Self { info, ..self.clone() }
    }

    #[cfg(test)]
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns the host and port, or the path of the socket, as errors show them.
    pub(crate) fn target(&self) -> String {
        match (&self.host, self.address()) {
            (Some(OneHost(host)), Some(Address { port, .. })) => format!("{host}:{port}"),
            _ => self.info.addr().to_string(),
        }
    }

    /// Returns the address of the server; `None` for a socket.
    pub(crate) fn address(&self) -> Option<Address> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }

    /// Returns the time limit of an attempt to connect.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    /// Returns the error of an attempt without an answer.
    pub(crate) fn no_answer(&self) -> Error {
        Error::unanswered(self.protocol())
    }

    /// Returns the protocol that the server should speak, as errors name it.
    fn protocol(&self) -> &'static str {
        match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => "TLS",
            _ => "Redis without TLS",
        }
    }

    /// Subscribes to a channel, on a connection of its own, within the time limit of an attempt to
    /// connect.
    ///
    /// # Errors
    /// As [`connect_at_once`](Self::connect_at_once).
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<PubSubStream> {
        let subscribed = async {
            let client = self.client().await?;
            let mut connection = client.get_async_pubsub().await.map_err(|error| self.failed(error))?;
            connection.subscribe(channel).await.map_err(|error| self.failed(error))?;
            Ok(connection.into_on_message())
        };
        timeout(self.connect_timeout(), subscribed).await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Connects, however soon after a failed attempt. If the server does not pass the check, the
    /// attempt has failed.
    ///
    /// # Errors
    /// As [`error::of_connect`] and the check.
    pub(crate) async fn connect_at_once(&self) -> Result<Connection> {
        let failed = |error| self.failed(error);
        let client = self.client().await?;
        let mut config = AsyncConnectionConfig::new();
        if let Some(host) = &self.host {
            config = config.set_dns_resolver(host.clone());
        }
        let opened = Connection::open(&client, config, self.settings.is_resp2).await;
        let mut connection = opened.map_err(failed)?;
        if let Some(name) = &self.settings.name {
            let mut set = redis::cmd("CLIENT");
            set.arg("SETNAME").arg(name);
            // A user without the right to it has no name.
            drop(connection.exchange(&[set]).await.map_err(failed)?);
        }
        if let Some(check) = &self.settings.check {
            check.check(&mut connection).await.map_err(|error| error.at(&self.target()))?;
        }
        Ok(connection)
    }

    /// Makes the client for one connection, with the credentials of this moment.
    async fn client(&self) -> Result<Client> {
        #[cfg(feature = "tls")]
        if matches!(self.info.addr(), ConnectionAddr::TcpTls { .. }) {
            provide_cryptography();
        }
        let login = self.settings.login(self.info.redis_settings()).await?;
        let info = ConnectionInfo::clone(&self.info).set_redis_settings(login);
        Client::open(info.set_tcp_settings(self.settings.tcp())).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: RedisError) -> Error {
        error::of_connect(error, self.protocol(), &self.target())
    }
}

#[async_trait]
impl Connect for Connector {
    async fn connect(&self) -> Result<Connection> {
        let connecting = async {
            let made = timeout(self.connect_timeout(), self.connect_at_once()).await;
            made.map_err(|_| self.no_answer().at(&self.target())).and_then(|made| made)
        };
        self.backoff.attempt(&self.target(), connecting).await
    }

    fn unanswered(&self) -> Error {
        let target = self.target();
        self.backoff.last_error(&target).unwrap_or_else(|| self.no_answer().at(&target))
    }

    fn is_refused(&self) -> bool {
        self.backoff.last_error(&self.target()).is_some_and(|error| !error.kind().is_final())
    }

    fn locate(&self, error: Error) -> Error {
        error.at(&self.target())
    }
}

/// Finds the addresses of one host, whatever the name is that its certificate has.
#[derive(Clone, Debug)]
struct OneHost(Arc<str>);

impl AsyncDNSResolver for OneHost {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((&*self.0, port)).await?;
            Ok(Box::new(found) as Box<dyn Iterator<Item = SocketAddr> + Send + 'a>)
        })
    }
}

/// Installs *ring* as the cryptography of `rustls` in this process, unless the program has chosen
/// one. The client library uses that of the process, and panics if none is chosen and several could
/// be meant.
#[cfg(feature = "tls")]
fn provide_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};

    if CryptoProvider::get_default().is_none() {
        // Another thread may have installed one meanwhile.
        let _ = ring::default_provider().install_default();
    }
}
