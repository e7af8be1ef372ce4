//! The address of a server.

use std::fmt;

/// Host and port of a server. A server behind a Unix socket has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads the `host:port` of a redirection. An empty host, or `?`, means the host of the node
    /// that sent it.
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
