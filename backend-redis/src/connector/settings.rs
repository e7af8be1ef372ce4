//! The settings of a connector: name, credentials, protocol, time limit, and what keeps its
//! connections alive.

use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ProtocolVersion, RedisConnectionInfo};
use stanchion_core::{CredentialsProvider, Error, Result};

use crate::connection::ConnectionCheck;

/// The maximum length of a client's name.
const MAX_NAME: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
/// Less than the time after which a router may forget a connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How connections are made, and what they have to pass.
#[derive(Clone, Debug)]
pub(crate) struct ConnectorSettings {
    /// Time limit of an attempt to connect.
    pub(crate) connect_timeout: Duration,
    /// The check of a server that keeps the store's data.
    pub(crate) check: Option<Arc<dyn ConnectionCheck>>,
    pub(crate) name: Option<String>,
    /// Zero for none.
    pub(crate) keepalive: Duration,
    pub(crate) is_resp2: bool,
    pub(crate) provider: Option<CredentialsProvider>,
}

impl Default for ConnectorSettings {
    fn default() -> Self {
        let (name, provider, check) = (None, None, None);
        Self { connect_timeout: SECOND, check, name, keepalive: KEEPALIVE, is_resp2: false, provider }
    }
}

impl ConnectorSettings {
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
        if !self.keepalive.is_zero() && !(SECOND..=hour).contains(&self.keepalive) {
            return Err(Error::invalid_argument("keepalive is between 1 s and 1 h, or zero for none"));
        }
        Ok(())
    }

    /// Returns the same settings for the sentinels of the servers.
    pub(crate) fn for_sentinels(&self) -> Self {
        Self { provider: None, check: None, ..self.clone() }
    }

    /// Keepalive probes begin after the time without traffic, and follow each other four times as
    /// fast.
    pub(super) fn tcp(&self) -> TcpSettings {
        let tcp = TcpSettings::default().set_nodelay(true);
        if self.keepalive.is_zero() {
            return tcp;
        }
        let interval = (self.keepalive / 4).max(SECOND);
        tcp.set_keepalive(TcpKeepalive::new().with_time(self.keepalive).with_interval(interval))
    }

    /// Returns the login of the next connection, with the credentials of this moment; `login` is
    /// that of the URL.
    ///
    /// # Errors
    /// `Unavailable` if the user's program has no credentials.
    pub(super) async fn login(&self, login: &RedisConnectionInfo) -> Result<RedisConnectionInfo> {
        let login = match &self.provider {
            None => login.clone(),
            Some(provider) => {
                let (user, password) = provider.credentials().await?.into_parts();
                // Not the name that the URL has: these are all of the credentials.
                let fresh = RedisConnectionInfo::default().set_db(login.db()).set_password(password);
                if let Some(user) = user { fresh.set_username(user) } else { fresh }
            }
        };
        // Only the newer protocol shows at once that a connection has ended.
        let protocol = if self.is_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 };
        Ok(login.set_protocol(protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_a_name_and_a_time_out_of_range_are_refused() {
        let named =
            |name: &str| ConnectorSettings { name: Some(name.to_owned()), ..ConnectorSettings::default() };
        assert!(named("billing-7").check().is_ok() && named(&"n".repeat(64)).check().is_ok());
        for name in ["", "two words", "line\nbreak", &"n".repeat(65)] {
            assert!(named(name).check().is_err(), "{name:?}");
        }
        let probing = |keepalive| ConnectorSettings { keepalive, ..ConnectorSettings::default() };
        assert!(probing(SECOND).check().is_ok() && probing(Duration::ZERO).check().is_ok());
        assert!(
            probing(Duration::from_millis(999)).check().is_err() && probing(Duration::MAX).check().is_err()
        );
    }
}
