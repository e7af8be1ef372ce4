//! Reads a URL into connectors.

use redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use stanchion_core::connect::{UrlParameters, UrlParts};
use stanchion_core::{Error, Result};
use url::Url;

use super::connectors::Connectors;
use super::tls::{self, TlsFiles};
use crate::address::Address;
use crate::connector::Connector;

const SCHEMES: [&str; 7] =
    ["redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"];
const SENTINEL_PORT: u16 = 26_379;
const NO_DATABASE: &str = "the path of a Redis URL is not the number of a database, as in redis://HOST/0";
const NO_SOCKET: &str = "a socket's URL has a path, no host, and maybe a database: redis+unix:///PATH?db=0";

/// The parts of a URL.
struct Parts<'a>(UrlParts<'a>);

/// Reads a URL. Returns also the parameters that are not about its servers.
///
/// # Errors
/// `InvalidArgument`, without any part of the URL that may be a password; `Unsupported` for TLS
/// without its feature.
pub(super) fn parse(url: &str) -> Result<(Connectors, UrlParameters)> {
    let parts = Parts(UrlParts::read(url, "Redis", &SCHEMES)?);
    let query = format!("redis://h/?{}", parts.0.query);
    let query = Url::parse(&query).map_err(|_| parts.0.malformed())?;
    let mut parameters = UrlParameters::new(&parts.0, query.query_pairs());
    let (secure, kind) = match parts.0.scheme.split_once('+') {
        Some((scheme, kind)) => (scheme == "rediss", kind),
        None => (parts.0.scheme == "rediss", "server"),
    };
    let tls = if secure { Some(TlsFiles::of_url(&mut parameters)?) } else { None };
    let tls = tls.as_ref();
    let connectors = match kind {
        "server" => {
            let connector = parts.server(tls)?;
            let name = if secure { parameters.text("server_name")? } else { None };
            Connectors::Server(match name {
                Some(name) => connector.certified_as(&name)?,
                None => connector,
            })
        }
        "unix" => Connectors::Server(parts.socket(&mut parameters)?),
        "cluster" => parts.cluster(tls)?,
        _ => parts.sentinels(tls, &mut parameters)?,
    };
    Ok((connectors, parameters))
}

impl Parts<'_> {
    /// Returns how one of the hosts is reached. `tls` is `Some` for TLS.
    fn host(&self, host: &str, path: &str, tls: Option<&TlsFiles>) -> Result<ConnectionInfo> {
        if host.is_empty() {
            return Err(self.0.malformed());
        }
        // The parser's and the client's errors are left out: they may quote a part of the URL.
        let url = format!("redis://{}{host}/{path}", self.0.userinfo);
        let url = Url::parse(&url).map_err(|_| self.0.malformed())?;
        let info = url.into_connection_info().map_err(|_| {
            if is_database(path) { self.0.malformed() } else { Error::invalid_argument(NO_DATABASE) }
        })?;
        match tls {
            Some(files) => tls::secured(info, files),
            None => Ok(info),
        }
    }

    fn server(&self, tls: Option<&TlsFiles>) -> Result<Connector> {
        match self.0.hosts.as_slice() {
            [host] => Ok(Connector::new(self.host(host, self.0.path, tls)?)),
            _ => Err(Error::invalid_argument(
                "several hosts are for redis+cluster:// and redis+sentinel:// only",
            )),
        }
    }

    fn socket(&self, parameters: &mut UrlParameters) -> Result<Connector> {
        let malformed = || Error::invalid_argument(NO_SOCKET);
        if !self.0.userinfo.is_empty() || self.0.hosts != [""] || self.0.path.is_empty() {
            return Err(malformed());
        }
        let mut url = Url::parse(&format!("redis+unix:///{}", self.0.path)).map_err(|_| malformed())?;
        let client = parameters.take_all(|key| ["db", "user", "pass"].contains(&key), |_| false)?;
        if !client.is_empty() {
            url.query_pairs_mut().extend_pairs(client);
        }
        Ok(Connector::new(url.into_connection_info().map_err(|_| malformed())?))
    }

    fn cluster(&self, tls: Option<&TlsFiles>) -> Result<Connectors> {
        if !["", "0"].contains(&self.0.path) {
            return Err(Error::invalid_argument("a cluster has no database but 0"));
        }
        let nodes = self.0.hosts.iter().map(|host| Ok(Connector::new(self.host(host, "", tls)?)));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        let seeds: Vec<Address> = nodes.iter().filter_map(Connector::address).collect();
        let connector = nodes.into_iter().next().ok_or_else(|| self.0.malformed())?;
        Ok(Connectors::Cluster { connector, seeds })
    }

    fn sentinels(&self, tls: Option<&TlsFiles>, parameters: &mut UrlParameters) -> Result<Connectors> {
        let (service, database) = self.0.path.split_once('/').unwrap_or((self.0.path, ""));
        let service = decoded(service).filter(|service| !service.is_empty()).ok_or_else(|| {
            Error::invalid_argument("a Sentinel URL names the service: redis+sentinel://HOST/SERVICE")
        })?;
        let mut login = RedisConnectionInfo::default();
        if let Some(user) = parameters.text("sentinel_user")? {
            login = login.set_username(user);
        }
        if let Some(password) = parameters.text("sentinel_password")? {
            login = login.set_password(password);
        }
        let (mut sentinels, mut primary) = (Vec::new(), None);
        for host in &self.0.hosts {
            let connector = Connector::new(self.host(host, database, tls)?);
            let mut address = connector.address().ok_or_else(|| self.0.malformed())?;
            if !has_port(host) {
                address.port = SENTINEL_PORT;
            }
            sentinels.push(connector.at(&address).with_login(login.clone()));
            primary = Some(connector);
        }
        let primary = primary.ok_or_else(|| self.0.malformed())?;
        Ok(Connectors::Sentinel { sentinels, service, primary })
    }
}

/// Whether a host of a URL has a port. The colons inside brackets belong to an address.
fn has_port(host: &str) -> bool {
    host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

/// Decodes a part of the path of a URL.
fn decoded(part: &str) -> Option<String> {
    let literal = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(literal.as_bytes()).next().map(|(part, _)| part.into_owned())
}

/// Whether the path of a URL is empty or a number.
fn is_database(path: &str) -> bool {
    let database = path.trim_matches('/');
    database.is_empty() || database.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use proptest::collection;
    use proptest::prelude::*;
    use proptest::sample::select;
    use stanchion_core::ErrorKind;

    use super::*;
    use crate::RedisBuilder;

    fn kind(url: &str) -> Option<ErrorKind> {
        RedisBuilder::new(url).err().map(|error| error.kind())
    }

    fn server(url: &str) -> Connector {
        match parse(url).unwrap().0 {
            Connectors::Server(connector) => connector,
            other => panic!("{url} is {other:?}"),
        }
    }

    #[test]
    fn the_url_of_a_server_is_understood() {
        let url = "redis://me:s%20cret@127.0.0.1:7000/3?namespace=billing&request_timeout_ms=250&replicas=2&fsync=on";
        let builder = RedisBuilder::new(url).unwrap();
        assert_eq!(builder.options.namespace, "billing");
        assert_eq!(builder.options.request_timeout, Duration::from_millis(250));
        assert_eq!(builder.durability.replicas, 2);
        assert_eq!((builder.durability.fsync, builder.durability.renewals), (true, false));
        let connector = server(url);
        let settings = connector.info().redis_settings();
        let login = (settings.db(), settings.username(), settings.password());
        assert_eq!(login, (3, Some("me"), Some("s cret")));
        assert_eq!(server("REDIS://h").address().unwrap().to_string(), "h:6379");
        assert_eq!(server("redis://[::1]:7000/").address().unwrap().to_string(), "::1:7000");
        assert_eq!(server("redis+unix:///run/redis.sock?db=2&namespace=x").info().redis_settings().db(), 2);
    }

    #[test]
    fn the_url_of_a_cluster_is_understood() {
        let (connectors, _) = parse("redis+cluster://me:pw@a:7000,b,[::1]:7002/?namespace=x").unwrap();
        let Connectors::Cluster { connector, seeds } = connectors else { panic!("{connectors:?}") };
        let seeds: Vec<_> = seeds.iter().map(Address::to_string).collect();
        assert_eq!(seeds, ["a:7000", "b:6379", "::1:7002"]);
        assert_eq!(
            (connector.info().redis_settings().username(), connector.info().redis_settings().password()),
            (Some("me"), Some("pw"))
        );
        assert_eq!(kind("redis+cluster://a/1"), Some(ErrorKind::InvalidArgument));
    }

    #[test]
    fn the_url_of_sentinels_is_understood() {
        let url = "redis+sentinel://me:pw@a,b:7001/my%20service/4?sentinel_user=it&sentinel_password=p%40ss";
        let (connectors, _) = parse(url).unwrap();
        let Connectors::Sentinel { sentinels, service, primary } = connectors else {
            panic!("{connectors:?}")
        };
        let hosts: Vec<_> = sentinels.iter().map(|one| one.address().unwrap().to_string()).collect();
        assert_eq!(hosts, ["a:26379", "b:7001"]);
        assert_eq!(service, "my service");
        let own = sentinels[0].info().redis_settings();
        assert_eq!((own.db(), own.username(), own.password()), (0, Some("it"), Some("p@ss")));
        let servers = primary.info().redis_settings();
        assert_eq!((servers.db(), servers.username(), servers.password()), (4, Some("me"), Some("pw")));
        for bad in
            ["redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a/s/x", "redis+sentinel:///s"]
        {
            assert_eq!(kind(bad), Some(ErrorKind::InvalidArgument), "{bad}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_verifies_and_takes_an_authority() {
        for url in ["rediss://a", "rediss+cluster://a,b", "rediss+sentinel://a/s"] {
            assert_eq!(kind(url), None, "{url}");
            assert_eq!(kind(&format!("{url}?ca=/nowhere/ca.pem")), Some(ErrorKind::InvalidArgument), "{url}");
            assert_eq!(kind(&format!("{url}?ca=/dev/null")), Some(ErrorKind::InvalidArgument), "{url}");
            assert_eq!(kind(&format!("{url}#insecure")), Some(ErrorKind::InvalidArgument), "{url}");
        }
        // Reading a URL changes nothing in the process.
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
        let connector = server("rediss://a");
        assert!(matches!(connector.info().addr(), redis::ConnectionAddr::TcpTls { insecure: false, .. }));
        assert_eq!(kind("redis://a?ca=/nowhere/ca.pem"), Some(ErrorKind::InvalidArgument));
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_its_feature_is_unsupported() {
        assert_eq!(kind("rediss://a"), Some(ErrorKind::Unsupported));
    }

    #[test]
    fn c19_what_is_not_understood_is_refused() {
        for url in [
            "",
            "redis:",
            "redis://",
            "postgres://127.0.0.1/",
            "redis://127.0.0.1/?name=x",
            "redis://127.0.0.1/?namespace=a&namespace=b",
            "redis://127.0.0.1/?request_timeout_ms=soon",
            "redis://127.0.0.1/?replicas=-1",
            "redis://127.0.0.1/?fsync=1",
            "redis://127.0.0.1/?fsync=on&fsync=on",
            "redis://127.0.0.1/?db=1",
            "redis://127.0.0.1/?sentinel_password=x",
            "redis://127.0.0.1/one",
            "redis://127.0.0.1/#insecure",
            "redis://a,b/",
            "redis+cluster://a,,b/",
            "redis+cluster://a:x,b/",
            "redis+unix://h/socket",
            "redis+unix:///s?db=1&db=2",
        ] {
            assert_eq!(kind(url), Some(ErrorKind::InvalidArgument), "{url}");
        }
    }

    /// What passwords and URLs are made of.
    const PIECES: [&str; 21] = [
        "x",
        "1",
        "é",
        " ",
        "?",
        "#",
        "/",
        "@",
        "&",
        "=",
        ":",
        ",",
        "%",
        "%40",
        "[",
        "]",
        "ca=",
        "db=",
        "replicas=",
        "namespace=",
        "sentinel_password=",
    ];
    const TAILS: [&str; 8] = [
        "",
        "/",
        "/0",
        "/x",
        "/svc?namespace=x",
        "?ca=/nowhere&x",
        "?replicas=x",
        "/s?sentinel_password=s3cret&x",
    ];

    fn pieces() -> impl Strategy<Value = String> {
        collection::vec(select(&PIECES[..]), 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn c21_no_text_shows_the_password_of_a_generated_url(
            scheme in select(&["redis", "rediss", "redis+unix", "redis+cluster", "rediss+sentinel", "postgres"][..]),
            (before, after) in (pieces(), pieces()),
            tail in select(&TAILS[..]),
        ) {
            let url = format!("{scheme}://u:{before}s3cret{after}@h{tail}");
            let mut texts = Vec::new();
            match RedisBuilder::new(&url) {
                Ok(builder) => texts.push(format!("{builder:?}")),
                Err(error) => {
                    texts.push(format!("{error} {error:?}"));
                    let mut source = error.source();
                    while let Some(error) = source {
                        texts.push(format!("{error} {error:?}"));
                        source = error.source();
                    }
                }
            }
            prop_assert!(!texts.concat().contains("s3cret"), "{url}: {texts:?}");
        }
    }

    #[test]
    fn c21_no_password_in_any_text() {
        for url in [
            "redis://:s3cret@127.0.0.1/x",
            "redis://:s3cret@/",
            "redis+x://:s3cret@h/",
            "redis://u:s3cret@h:x/",
            "redis://u:1?s3cret@h/",
            "redis://u:1?s3cret&x@h/",
            "rediss://u:1?ca=s3cret@h/",
            "redis://u:p#s3cret@h/",
            "redis+cluster://u:s3cret@a,b/7",
            "redis+sentinel://a/?sentinel_password=s3cret",
        ] {
            let error = RedisBuilder::new(url).err().unwrap();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        for url in [
            "redis://:s3cret@127.0.0.1/",
            "redis+cluster://:s3cret@a,b/",
            "redis+sentinel://:s3cret@a/s?sentinel_password=s3cret",
        ] {
            let builder = RedisBuilder::new(url).unwrap();
            assert!(!format!("{builder:?} {builder:#?}").contains("s3cret"), "{builder:?}");
        }
    }
}
