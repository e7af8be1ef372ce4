//! The nodes of a deployment: their addresses and credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError,
};
use stanchion_core::clock::timeout;
use stanchion_core::connect::Backoff;
use stanchion_core::{Error, Result};

use crate::client::{ClientSettings, OneHost};
use crate::error;
use crate::link::{Driver, Silence};
use crate::request::exchange;

/// Host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads the `host:port` of a redirection. An empty host, or `?`, means the host of the node that sent it.
    pub(crate) fn parse(text: &str, sender: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if matches!(host, "" | "?") { &sender.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Credentials, database and TLS, which are the same for all nodes, with the address of one of them.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    info: Arc<ConnectionInfo>,
    backoff: Arc<Backoff>,
    client: ClientSettings,
    /// The host, where the address has the name in its certificate instead.
    host: Option<OneHost>,
}

impl Access {
    /// Takes the settings of `info`, but speaks RESP3: only that protocol tells at once that a connection has ended.
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = Arc::new(info.set_redis_settings(settings).set_tcp_settings(tcp));
        Self { info, backoff: Arc::new(Backoff::new("redis")), client: ClientSettings::default(), host: None }
    }

    /// Returns access to the same node for a client with these settings.
    pub(crate) fn configured(&self, client: &ClientSettings) -> Self {
        let settings = self.info.redis_settings().clone().set_protocol(client.protocol());
        let mut tcp = TcpSettings::default().set_nodelay(true);
        if let Some(keepalive) = client.tcp_keepalive() {
            tcp = tcp.set_keepalive(keepalive);
        }
        let info = ConnectionInfo::clone(&self.info).set_redis_settings(settings).set_tcp_settings(tcp);
        Self { info: Arc::new(info), client: client.clone(), ..self.clone() }
    }

    /// Returns access to the same node, whose certificate has another name than its host.
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

    #[cfg(test)]
    pub(crate) fn settings(&self) -> &RedisConnectionInfo {
        self.info.redis_settings()
    }

    /// Returns access to the same node with other settings.
    pub(crate) fn with(&self, settings: RedisConnectionInfo) -> Self {
        Self::new(ConnectionInfo::clone(&self.info).set_redis_settings(settings))
    }

    /// Returns the host and port, or the path of the socket, as errors show them.
    pub(crate) fn target(&self) -> String {
        match (&self.host, self.address()) {
            (Some(OneHost(host)), Some(Address { port, .. })) => format!("{host}:{port}"),
            _ => self.info.addr().to_string(),
        }
    }

    /// Returns the protocol that the node should speak, as errors name it.
    pub(crate) fn protocol(&self) -> &'static str {
        match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => "TLS",
            _ => "Redis without TLS",
        }
    }

    /// Returns the error of a connection that was not made in time: that of the last attempt, if it failed. Nothing was sent.
    pub(crate) fn unanswered(&self) -> Error {
        let target = self.target();
        let last = self.backoff.last_error(&target);
        last.unwrap_or_else(|| Error::unanswered(self.protocol()).at(&target))
    }

    /// Returns the address of the node; `None` for a socket.
    pub(crate) fn address(&self) -> Option<Address> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }

    /// Returns the same access to another node.
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

    #[cfg(all(test, feature = "tls"))]
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns the time limit of an attempt to connect.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.client.connect_timeout
    }

    /// Connects, within the time limit of an attempt. One that follows a failed one at this node waits for its time before.
    ///
    /// # Errors
    /// As [`connect_at_once`](Self::connect_at_once); without an answer in time, that of [`unanswered`](Self::unanswered).
    pub(crate) async fn connect(&self) -> Result<(MultiplexedConnection, Driver)> {
        let unanswered = |_| Error::unanswered(self.protocol()).at(&self.target());
        let connecting = async {
            timeout(self.connect_timeout(), self.connect_at_once())
                .await
                .map_err(unanswered)
                .and_then(|made| made)
        };
        self.backoff.attempt(&self.target(), connecting).await
    }

    /// Subscribes to a channel, on a connection of its own, within the time limit of an attempt to connect.
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

    /// Makes the client for one connection, with the credentials of this moment.
    async fn client(&self) -> Result<Client> {
        #[cfg(feature = "tls")]
        if matches!(self.info.addr(), ConnectionAddr::TcpTls { .. }) {
            provide_cryptography();
        }
        let settings = self.client.with_credentials(self.info.redis_settings()).await?;
        let info = ConnectionInfo::clone(&self.info).set_redis_settings(settings);
        Client::open(info).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: RedisError) -> Error {
        error::of_connect(error, self.protocol(), &self.target())
    }

    /// Connects, however soon after a failed attempt. If the server is not as the store expects it, the attempt has failed.
    ///
    /// # Errors
    /// As [`error::of_connect`] and [`Expected::check`](crate::check::Expected::check).
    pub(crate) async fn connect_at_once(&self) -> Result<(MultiplexedConnection, Driver)> {
        let failed = |error| self.failed(error);
        let client = self.client().await?;
        let silence = Arc::new(Silence::new());
        let driver = Driver::new(&silence, !self.client.is_resp2);
        let mut config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        if !self.client.is_resp2 {
            // The driver owns the receiver of pushed messages, and drops it when it ends for whatever reason.
            config = config.set_push_sender(move |_: PushInfo| -> std::result::Result<(), ()> {
                let _ = &silence;
                Ok(())
            });
        }
        if let Some(host) = &self.host {
            config = config.set_dns_resolver(host.clone());
        }
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(failed)?;
        if let Some(name) = &self.client.name {
            let mut set = redis::cmd("CLIENT");
            set.arg("SETNAME").arg(name);
            // A user without the right to it has no name.
            drop(exchange(&mut connection, &[set]).await.map_err(failed)?);
        }
        if let Some(expected) = &self.client.expected {
            expected.check(&mut connection).await.map_err(|error| error.at(&self.target()))?;
        }
        Ok((connection, driver))
    }
}

/// Installs *ring* as the cryptography of `rustls` in this process, unless the program has chosen one. The client library uses
/// that of the process, and panics if none is chosen and several could be meant.
#[cfg(feature = "tls")]
fn provide_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};

    if CryptoProvider::get_default().is_none() {
        // Another thread may have installed one meanwhile.
        let _ = ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_redirections_are_read() {
        let sender = Address { host: "10.0.0.1".to_owned(), port: 7000 };
        let read = |text| Address::parse(text, &sender).map(|address| address.to_string());
        assert_eq!(read("10.0.0.2:7001").as_deref(), Some("10.0.0.2:7001"));
        assert_eq!(read("::1:7001").as_deref(), Some("::1:7001"));
        assert_eq!(read(":7001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(read("?:7001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(read("10.0.0.2").as_deref(), None);
    }
}
