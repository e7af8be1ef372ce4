//! What a store is made from: the URL and the builder.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use stanchion_core::{Error, ErrorKind, Result};
use url::Url;

use crate::keys::Keyspace;

const OFFERED: &str = "redis://, redis+unix://";
const LONGEST_RETENTION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How long the state of an idle name stays (C25).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// For fencing tokens.
    pub(crate) tokens: Duration,
    /// For the rest.
    pub(crate) state: Duration,
}

/// Makes a [`RedisStore`](crate::RedisStore). Without I/O until [`connect`](Self::connect).
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) request_timeout: Duration,
    pub(crate) retention: Retention,
}

impl RedisBuilder {
    /// From a URL: `redis://[user][:password@]host[:port][/database]` or
    /// `redis+unix:///path[?db=…&user=…&pass=…]`, with the parameters `namespace` and `request_timeout_ms` of ours.
    ///
    /// # Errors
    /// `InvalidArgument` for a URL that does not parse or an unknown parameter; `Unsupported` for TLS, Cluster and
    /// Sentinel, which this version does not offer.
    pub fn new(url: &str) -> Result<Self> {
        // The parser's and the client's errors are left out: they may quote a part of the URL.
        let invalid = || Error::invalid_argument("this is not the URL of a Redis server");
        let mut url = Url::parse(url).map_err(|_| invalid())?;
        check_scheme(url.scheme())?;
        if url.fragment().is_some() {
            return Err(Error::invalid_argument("a Redis URL has no fragment"));
        }
        let parameters = Parameters::take(&mut url)?;
        let info = url.into_connection_info().map_err(|_| invalid())?;
        let client = Client::open(settings(info)).map_err(|_| invalid())?;
        let builder = Self {
            client,
            namespace: parameters.namespace.unwrap_or_else(|| "stanchion".to_owned()),
            request_timeout: parameters.request_timeout.unwrap_or(Duration::from_secs(2)),
            retention: Retention {
                tokens: Duration::from_secs(24 * 60 * 60),
                state: Duration::from_secs(60 * 60),
            },
        };
        builder.check()?;
        Ok(builder)
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

    /// Checks what was set.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is out of range.
    pub(crate) fn check(&self) -> Result<Keyspace> {
        if self.request_timeout < Duration::from_millis(1) {
            return Err(Error::invalid_argument("request_timeout is at least 1 ms"));
        }
        let range = Duration::from_secs(1)..=LONGEST_RETENTION;
        if !range.contains(&self.retention.tokens) || !range.contains(&self.retention.state) {
            return Err(Error::invalid_argument("a retention time is between 1 s and 366 days"));
        }
        Keyspace::new(&self.namespace)
    }
}

fn check_scheme(scheme: &str) -> Result<()> {
    match scheme {
        "redis" | "redis+unix" => Ok(()),
        "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel" => {
            let detail = format!("{scheme}:// is not offered yet; offered are {OFFERED}");
            Err(Error::new(ErrorKind::Unsupported, detail))
        }
        _ => Err(Error::invalid_argument(format!("the scheme of a Redis URL is one of {OFFERED}"))),
    }
}

/// RESP3, because only it tells at once that a connection has ended.
fn settings(info: ConnectionInfo) -> ConnectionInfo {
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    info.set_redis_settings(redis).set_tcp_settings(TcpSettings::default().set_nodelay(true))
}

#[derive(Default)]
struct Parameters {
    namespace: Option<String>,
    request_timeout: Option<Duration>,
}

impl Parameters {
    /// Takes our parameters off the URL; what is left is the client's.
    fn take(url: &mut Url) -> Result<Self> {
        let unix = url.scheme() == "redis+unix";
        let mut parameters = Self::default();
        let mut left = Vec::new();
        for (key, value) in url.query_pairs() {
            let twice = match key.as_ref() {
                "namespace" => parameters.namespace.replace(value.into_owned()).is_some(),
                "request_timeout_ms" => {
                    let milliseconds = value
                        .parse()
                        .map_err(|_| Error::invalid_argument("request_timeout_ms is a whole number"))?;
                    parameters.request_timeout.replace(Duration::from_millis(milliseconds)).is_some()
                }
                "db" | "user" | "pass" if unix => {
                    left.push((key.clone().into_owned(), value.into_owned()));
                    false
                }
                _ => return Err(Error::invalid_argument(format!("unknown URL parameter `{key}`"))),
            };
            if twice {
                return Err(Error::invalid_argument(format!("URL parameter `{key}` is given twice")));
            }
        }
        url.set_query(None);
        if !left.is_empty() {
            url.query_pairs_mut().extend_pairs(left);
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(url: &str) -> ErrorKind {
        RedisBuilder::new(url).unwrap_err().kind()
    }

    #[test]
    fn urls_are_understood() {
        let url = "redis://me:s%20cret@127.0.0.1:7000/3?namespace=billing&request_timeout_ms=250";
        let builder = RedisBuilder::new(url).unwrap();
        assert_eq!(builder.namespace, "billing");
        assert_eq!(builder.request_timeout, Duration::from_millis(250));
        let settings = builder.client.get_connection_info().redis_settings();
        assert_eq!(
            (settings.db(), settings.username(), settings.password()),
            (3, Some("me"), Some("s cret"))
        );
        let builder = RedisBuilder::new("redis+unix:///run/redis.sock?db=2&namespace=x").unwrap();
        assert_eq!(builder.client.get_connection_info().redis_settings().db(), 2);
    }

    #[test]
    fn c19_what_is_not_understood_is_refused() {
        for url in [
            "",
            "redis:",
            "postgres://127.0.0.1/",
            "redis://127.0.0.1/?name=x",
            "redis://127.0.0.1/?namespace=a&namespace=b",
            "redis://127.0.0.1/?namespace=a/b",
            "redis://127.0.0.1/?request_timeout_ms=soon",
            "redis://127.0.0.1/?request_timeout_ms=0",
            "redis://127.0.0.1/?db=1",
            "redis://127.0.0.1/one",
            "redis://127.0.0.1/#insecure",
        ] {
            assert_eq!(kind(url), ErrorKind::InvalidArgument, "{url}");
        }
        for url in ["rediss://127.0.0.1/", "redis+cluster://127.0.0.1/", "redis+sentinel://127.0.0.1/m"] {
            assert_eq!(kind(url), ErrorKind::Unsupported, "{url}");
        }
        let retention = |tokens, state| {
            let builder = RedisBuilder::new("redis://127.0.0.1/").unwrap();
            builder.retention(Duration::from_millis(tokens), Duration::from_millis(state)).check().is_ok()
        };
        assert!(retention(1_000, 1_000) && !retention(999, 1_000) && !retention(1_000, 999));
    }

    #[test]
    fn c21_no_password_in_any_text() {
        for url in [
            "redis://:s3cret@127.0.0.1/x",
            "redis://:s3cret@/",
            "redis+x://:s3cret@h/",
            "redis://u:s3cret@h:x/",
        ] {
            let error = RedisBuilder::new(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let builder = RedisBuilder::new("redis://:s3cret@127.0.0.1/").unwrap();
        assert!(!format!("{builder:?}").contains("s3cret"));
    }
}
