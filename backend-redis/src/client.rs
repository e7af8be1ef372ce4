//! How the store presents itself to its servers: name, credentials, protocol, and what keeps its connections alive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::io::AsyncDNSResolver;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ProtocolVersion, RedisConnectionInfo, RedisFuture};
use stanchion_core::{CredentialsProvider, Error, Result};

use crate::check::Expected;

/// The maximum length of a client's name.
const MAX_NAME: usize = 64;
const SECOND: Duration = Duration::from_secs(1);

/// How the connections of a store present themselves, and what they have to find.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// Time limit of an attempt to connect.
    pub(crate) connect_timeout: Duration,
    /// Of a server that keeps the store's data.
    pub(crate) expected: Option<Arc<Expected>>,
    pub(crate) name: Option<String>,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) is_resp2: bool,
    pub(crate) provider: Option<CredentialsProvider>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        let (name, keepalive, provider, expected) = (None, None, None, None);
        Self { connect_timeout: SECOND, expected, name, keepalive, is_resp2: false, provider }
    }
}

impl ClientSettings {
    /// # Errors
    /// `InvalidArgument` naming what is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let is_legal = |name: &String| {
            (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if self.name.as_ref().is_some_and(|name| !is_legal(name)) {
            return Err(Error::invalid_argument(
                "client_name is 1 to 64 printable ASCII characters without spaces",
            ));
        }
        let hour = Duration::from_secs(60 * 60);
        if self.keepalive.is_some_and(|time| !(SECOND..=hour).contains(&time)) {
            return Err(Error::invalid_argument("keepalive is between 1 s and 1 h"));
        }
        Ok(())
    }

    /// The same, for the sentinels of its servers.
    pub(crate) fn for_sentinels(&self) -> Self {
        Self { provider: None, expected: None, ..self.clone() }
    }

    pub(crate) fn protocol(&self) -> ProtocolVersion {
        if self.is_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 }
    }

    /// Probes begin after that time without traffic, and follow each other four times as fast.
    pub(crate) fn tcp_keepalive(&self) -> Option<TcpKeepalive> {
        let time = self.keepalive?;
        Some(TcpKeepalive::new().with_time(time).with_interval((time / 4).max(SECOND)))
    }

    /// Returns the settings of the next connection, with the credentials of this moment.
    ///
    /// # Errors
    /// `Unavailable` if the user's program has none.
    pub(crate) async fn with_credentials(
        &self,
        settings: &RedisConnectionInfo,
    ) -> Result<RedisConnectionInfo> {
        let Some(provider) = &self.provider else { return Ok(settings.clone()) };
        let (user, password) = provider.credentials().await?.into_parts();
        // Not the name that the URL has: these are all of the credentials.
        let fresh = RedisConnectionInfo::default().set_db(settings.db()).set_protocol(settings.protocol());
        let fresh = fresh.set_password(password);
        Ok(match user {
            Some(user) => fresh.set_username(user),
            None => fresh,
        })
    }
}

/// Finds the addresses of one host, whatever the name is that its certificate has.
#[derive(Clone, Debug)]
pub(crate) struct OneHost(pub(crate) Arc<str>);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_a_name_and_a_time_out_of_range_are_refused() {
        let named = |name: &str| ClientSettings { name: Some(name.to_owned()), ..ClientSettings::default() };
        assert!(named("billing-7").check().is_ok() && named(&"n".repeat(64)).check().is_ok());
        for name in ["", "two words", "line\nbreak", &"n".repeat(65)] {
            assert!(named(name).check().is_err(), "{name:?}");
        }
        let kept = |keepalive| ClientSettings { keepalive: Some(keepalive), ..ClientSettings::default() };
        assert!(kept(SECOND).check().is_ok());
        assert!(kept(Duration::from_millis(999)).check().is_err() && kept(Duration::MAX).check().is_err());
    }
}
