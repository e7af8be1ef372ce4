//! The address of a server, from its URL.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Redis,
    Postgres,
}

impl Protocol {
    fn port(self) -> u16 {
        match self {
            Self::Redis => 6_379,
            Self::Postgres => 5_432,
        }
    }
}

/// Returns the protocol and the address of the one server in a URL.
pub(super) fn server(url: &str) -> io::Result<(Protocol, SocketAddr)> {
    let (scheme, _) = url.split_once("://").ok_or_else(|| invalid("a URL is needed"))?;
    let protocol = match scheme {
        "redis" | "rediss" => Protocol::Redis,
        "postgres" | "postgresql" => Protocol::Postgres,
        _ => return Err(invalid("the URL of a single server is needed: redis, rediss or postgres")),
    };
    let [_, host, _] = parts(url);
    if host.is_empty() || host.contains(',') {
        return Err(invalid("the URL of a single server is needed, with a host"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let host = if has_port { host.to_owned() } else { format!("{host}:{}", protocol.port()) };
    let address = host.to_socket_addrs()?.next().ok_or_else(|| invalid("the host has no address"))?;
    Ok((protocol, address))
}

/// Replaces host and port of a URL by 127.0.0.1 and `port`.
pub(super) fn with_port(url: &str, port: u16) -> String {
    let [before, _, behind] = parts(url);
    format!("{before}127.0.0.1:{port}{behind}")
}

/// Splits a URL into the part before the host, the host with its port, and the rest.
fn parts(url: &str) -> [&str; 3] {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    let host = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    [&url[..host], &url[host..end], &url[end..]]
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use super::{Protocol, server, with_port};

    #[test]
    fn a_url_keeps_all_but_its_host_and_port() {
        let urls = [
            ("redis://127.0.0.1:16379/", "redis://127.0.0.1:7/"),
            ("redis://:p%40w@localhost/?namespace=a", "redis://:p%40w@127.0.0.1:7/?namespace=a"),
            ("postgres://ann:pw@[::1]:5433/db?mutex=lease", "postgres://ann:pw@127.0.0.1:7/db?mutex=lease"),
            ("postgres://127.0.0.1", "postgres://127.0.0.1:7"),
        ];
        for (url, through) in urls {
            assert_eq!(with_port(url, 7), through);
        }
    }

    #[test]
    fn a_server_is_found_by_its_url() {
        let address = |url| server(url).map(|(protocol, address)| (protocol, address.to_string())).unwrap();
        assert_eq!(address("redis://:pw@127.0.0.1:7/"), (Protocol::Redis, "127.0.0.1:7".to_owned()));
        assert_eq!(address("postgres://127.0.0.1"), (Protocol::Postgres, "127.0.0.1:5432".to_owned()));
        assert_eq!(address("postgres://a@[::1]/b"), (Protocol::Postgres, "[::1]:5432".to_owned()));
        for url in
            ["127.0.0.1:7", "redis+cluster://127.0.0.1:7,127.0.0.1:8/", "redis:///", "redis://a:1,b:2/"]
        {
            assert!(server(url).is_err(), "{url}");
        }
    }
}
