//! Reads a URL into a deployment.

use std::sync::Arc;

use redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use stanchion_core::{Error, Result};
use url::Url;

use super::deployment::Deployment;
use super::parameters::Parameters;
use super::tls::{self, TlsFiles};
use crate::access::{Access, Address};
use crate::sentinel::Sentinels;

const SCHEMES: &str = "redis://, rediss://, redis+unix://, redis+cluster://, rediss+cluster://, redis+sentinel://, \
                       rediss+sentinel://";
const SENTINEL_PORT: u16 = 26_379;
const NO_DATABASE: &str = "the path of a Redis URL is not the number of a database, as in redis://HOST/0";
const NO_SOCKET: &str = "a socket's URL has a path, no host, and maybe a database: redis+unix:///PATH?db=0";

/// The parts of a URL, not decoded.
struct Parts<'a> {
    url: &'a str,
    /// User, password and the `@`, if there are any.
    userinfo: &'a str,
    hosts: Vec<&'a str>,
    /// The path, without its leading slash.
    path: &'a str,
    query: &'a str,
}

/// Reads a URL.
///
/// # Errors
/// `InvalidArgument`, without any part of the URL that may be a password; `Unsupported` for TLS without its feature.
pub(super) fn parse(url: &str) -> Result<(Deployment, Parameters)> {
    let (scheme, rest) = url.split_once("://").unwrap_or((url.split(':').next().unwrap_or(url), ""));
    let scheme = scheme.to_ascii_lowercase();
    let kind = match scheme.as_str() {
        "redis" | "rediss" => "server",
        "redis+unix" => "socket",
        "redis+cluster" | "rediss+cluster" => "cluster",
        "redis+sentinel" | "rediss+sentinel" => "sentinel",
        _ => return Err(Error::invalid_argument(format!("the scheme of a Redis URL is one of {SCHEMES}"))),
    };
    let parts = Parts::of(url, rest);
    // An `@` behind the host may be the end of a password that was not escaped.
    let has_at = parts.query.contains('@') || (kind != "socket" && parts.path.contains('@'));
    if rest.is_empty() || rest.contains('#') || has_at {
        return Err(parts.malformed());
    }
    let query = Url::parse(&format!("redis://h/?{}", parts.query)).map_err(|_| parts.malformed())?;
    let parameters = Parameters::read(&scheme, &query)?;
    let tls = scheme.starts_with("rediss").then_some(&parameters.tls);
    let deployment = match kind {
        "server" => {
            let access = parts.server(tls)?;
            Deployment::Server(match &parameters.server_name {
                Some(name) => access.certified_as(name)?,
                None => access,
            })
        }
        "socket" => Deployment::Server(parts.socket(&parameters)?),
        "cluster" => parts.cluster(tls)?,
        _ => Deployment::Sentinel(Arc::new(parts.sentinels(tls, &parameters)?)),
    };
    Ok((deployment, parameters))
}

impl<'a> Parts<'a> {
    /// Takes a URL apart; `rest` is its text behind the scheme and the slashes.
    fn of(url: &'a str, rest: &'a str) -> Self {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (userinfo, hosts) = authority.split_at(at);
        Self { url, userinfo, hosts: hosts.split(',').collect(), path, query }
    }

    fn malformed(&self) -> Error {
        Error::malformed_url(self.url)
    }

    /// Returns how one of the hosts is reached. `tls` is `Some` for TLS.
    fn host(&self, host: &str, path: &str, tls: Option<&TlsFiles>) -> Result<ConnectionInfo> {
        if host.is_empty() {
            return Err(self.malformed());
        }
        // The parser's and the client's errors are left out: they may quote a part of the URL.
        let url = format!("redis://{}{host}/{path}", self.userinfo);
        let url = Url::parse(&url).map_err(|_| self.malformed())?;
        let info = url.into_connection_info().map_err(|_| {
            if is_database(path) { self.malformed() } else { Error::invalid_argument(NO_DATABASE) }
        })?;
        match tls {
            Some(files) => tls::secured(info, files),
            None => Ok(info),
        }
    }

    fn server(&self, tls: Option<&TlsFiles>) -> Result<Access> {
        match self.hosts.as_slice() {
            [host] => Ok(Access::new(self.host(host, self.path, tls)?)),
            _ => Err(Error::invalid_argument(
                "several hosts are for redis+cluster:// and redis+sentinel:// only",
            )),
        }
    }

    fn socket(&self, parameters: &Parameters) -> Result<Access> {
        let malformed = || Error::invalid_argument(NO_SOCKET);
        if !self.userinfo.is_empty() || self.hosts != [""] || self.path.is_empty() {
            return Err(malformed());
        }
        let mut url = Url::parse(&format!("redis+unix:///{}", self.path)).map_err(|_| malformed())?;
        if !parameters.socket.is_empty() {
            url.query_pairs_mut().extend_pairs(&parameters.socket);
        }
        Ok(Access::new(url.into_connection_info().map_err(|_| malformed())?))
    }

    fn cluster(&self, tls: Option<&TlsFiles>) -> Result<Deployment> {
        if !["", "0"].contains(&self.path) {
            return Err(Error::invalid_argument("a cluster has no database but 0"));
        }
        let nodes = self.hosts.iter().map(|host| Ok(Access::new(self.host(host, "", tls)?)));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        let seeds: Vec<Address> = nodes.iter().filter_map(Access::address).collect();
        let access = nodes.into_iter().next().ok_or_else(|| self.malformed())?;
        Ok(Deployment::Cluster { access, seeds })
    }

    fn sentinels(&self, tls: Option<&TlsFiles>, parameters: &Parameters) -> Result<Sentinels> {
        let (service, database) = self.path.split_once('/').unwrap_or((self.path, ""));
        let service = decoded(service).filter(|service| !service.is_empty()).ok_or_else(|| {
            Error::invalid_argument("a Sentinel URL names the service: redis+sentinel://HOST/SERVICE")
        })?;
        let mut credentials = RedisConnectionInfo::default();
        if let Some(user) = &parameters.sentinel_user {
            credentials = credentials.set_username(user);
        }
        if let Some(password) = &parameters.sentinel_password {
            credentials = credentials.set_password(password);
        }
        let (mut sentinels, mut servers) = (Vec::new(), None);
        for host in &self.hosts {
            let access = Access::new(self.host(host, database, tls)?);
            let mut address = access.address().ok_or_else(|| self.malformed())?;
            if !has_port(host) {
                address.port = SENTINEL_PORT;
            }
            sentinels.push(access.at(&address).with(credentials.clone()));
            servers = Some(access);
        }
        let servers = servers.ok_or_else(|| self.malformed())?;
        Ok(Sentinels::new(sentinels, service, servers))
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

    fn kind(url: &str) -> Option<ErrorKind> {
        parse(url).err().map(|error| error.kind())
    }

    fn server(url: &str) -> Access {
        match parse(url).unwrap().0 {
            Deployment::Server(access) => access,
            other => panic!("{url} is {other:?}"),
        }
    }

    #[test]
    fn the_url_of_a_server_is_understood() {
        let url = "redis://me:s%20cret@127.0.0.1:7000/3?namespace=billing&request_timeout_ms=250&replicas=2&fsync=on";
        let parameters = parse(url).unwrap().1;
        assert_eq!(parameters.namespace.as_deref(), Some("billing"));
        assert_eq!(parameters.request_timeout, Some(Duration::from_millis(250)));
        assert_eq!(parameters.replicas, Some(2));
        assert_eq!((parameters.fsync, parameters.confirm_renewals), (Some(true), None));
        let access = server(url);
        let settings = access.settings();
        let login = (settings.db(), settings.username(), settings.password());
        assert_eq!(login, (3, Some("me"), Some("s cret")));
        assert_eq!(server("REDIS://h").address().unwrap().to_string(), "h:6379");
        assert_eq!(server("redis://[::1]:7000/").address().unwrap().to_string(), "::1:7000");
        assert_eq!(server("redis+unix:///run/redis.sock?db=2&namespace=x").settings().db(), 2);
    }

    #[test]
    fn the_url_of_a_cluster_is_understood() {
        let (deployment, _) = parse("redis+cluster://me:pw@a:7000,b,[::1]:7002/?namespace=x").unwrap();
        let Deployment::Cluster { access, seeds } = deployment else { panic!("{deployment:?}") };
        let seeds: Vec<_> = seeds.iter().map(Address::to_string).collect();
        assert_eq!(seeds, ["a:7000", "b:6379", "::1:7002"]);
        assert_eq!((access.settings().username(), access.settings().password()), (Some("me"), Some("pw")));
        assert_eq!(kind("redis+cluster://a/1"), Some(ErrorKind::InvalidArgument));
    }

    #[test]
    fn the_url_of_sentinels_is_understood() {
        let url = "redis+sentinel://me:pw@a,b:7001/my%20service/4?sentinel_user=it&sentinel_password=p%40ss";
        let (deployment, _) = parse(url).unwrap();
        let Deployment::Sentinel(sentinels) = deployment else { panic!("{deployment:?}") };
        let hosts: Vec<_> =
            sentinels.sentinels.iter().map(|one| one.address().unwrap().to_string()).collect();
        assert_eq!(hosts, ["a:26379", "b:7001"]);
        assert_eq!(sentinels.service, "my service");
        let own = sentinels.sentinels[0].settings();
        assert_eq!((own.db(), own.username(), own.password()), (0, Some("it"), Some("p@ss")));
        let servers = sentinels.servers.settings();
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
        let access = server("rediss://a");
        assert!(matches!(access.info().addr(), redis::ConnectionAddr::TcpTls { insecure: false, .. }));
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
            match crate::RedisBuilder::new(&url) {
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
            let error = parse(url).err().unwrap();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        for url in [
            "redis://:s3cret@127.0.0.1/",
            "redis+cluster://:s3cret@a,b/",
            "redis+sentinel://:s3cret@a/s?sentinel_password=s3cret",
        ] {
            let builder = crate::RedisBuilder::new(url).unwrap();
            assert!(!format!("{builder:?} {builder:#?}").contains("s3cret"), "{builder:?}");
        }
    }
}
