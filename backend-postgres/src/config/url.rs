//! Parses URLs.

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use stanchion_core::connect::{UrlParameters, UrlParts};
use stanchion_core::{Error, ErrorKind, Result};
use url::Url;

use super::host_lists::HostLists;
use super::parameters;

/// The parameters that name the authority of the server's certificate.
const ROOTS: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];

/// Parses a URL into connect options, one for each host, and the store's parameters.
///
/// # Errors
/// `InvalidArgument`, whose text contains no part of the URL that may be a password; `Unsupported`
/// for TLS without its feature.
pub(super) fn parse(text: &str) -> Result<(Vec<PgConnectOptions>, UrlParameters)> {
    let parts = UrlParts::read(text, "Postgres", &["postgres", "postgresql"])?;
    let UrlParts { scheme, userinfo, path, query, .. } = &parts;
    let of_host = |host: &&str| {
        // The errors of the parser and of the client are left out: they may quote a part of the
        // URL.
        Url::parse(&format!("{scheme}://{userinfo}{host}/{path}?{query}")).map_err(|_| parts.malformed())
    };
    let urls = parts.hosts.iter().map(of_host).collect::<Result<Vec<_>>>()?;
    let first = urls.first().ok_or_else(|| parts.malformed())?;
    let mut parameters = UrlParameters::new(&parts, first.query_pairs());
    let client = parameters::of_client(&mut parameters)?;
    let lists = HostLists::of(urls.len(), &client)?;
    let of_host = |index: usize| {
        let url = urls.get(index).unwrap_or(first);
        let client = lists.parameters(url, index);
        options(url, &client).map_err(|error| error.unwrap_or_else(|| parts.malformed()))
    };
    Ok(((0..lists.hosts).map(of_host).collect::<Result<_>>()?, parameters))
}

/// Makes the connect options of one host.
///
/// # Errors
/// What is wrong, if it is known.
fn options(url: &Url, client: &[(String, String)]) -> Result<PgConnectOptions, Option<Error>> {
    let mut url = url.clone();
    url.set_query(None);
    if !client.is_empty() {
        url.query_pairs_mut().extend_pairs(client);
    }
    let options = PgConnectOptions::from_str(url.as_str()).map_err(|_| illegal_value(client))?;
    // As the server's own clients do it: who names an authority wants it asked.
    let has_root = client.iter().any(|(key, _)| ROOTS.contains(&key.as_str()));
    let options = match options.get_ssl_mode() {
        PgSslMode::Require if has_root => options.ssl_mode(PgSslMode::VerifyCa),
        _ => options,
    };
    let demands_tls =
        matches!(options.get_ssl_mode(), PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    if demands_tls && !cfg!(feature = "tls") {
        let detail = "turn on the Cargo feature `tls`";
        return Err(Some(Error::new(ErrorKind::Unsupported, detail)));
    }
    Ok(options)
}

/// Returns the error of the parameter whose value the client library refuses, if there is one.
fn illegal_value(client: &[(String, String)]) -> Option<Error> {
    let is_refused = |key: &str, value: &str| {
        let url = Url::parse_with_params("postgres://h/", [(key, value)]).ok();
        url.is_none_or(|url| PgConnectOptions::from_str(url.as_str()).is_err())
    };
    let (key, _) = client.iter().find(|(key, value)| is_refused(key, value))?;
    Some(Error::invalid_argument(format!("the value of URL parameter {} is not legal", Error::shown(key))))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use proptest::collection;
    use proptest::prelude::*;
    use proptest::sample::select;
    use stanchion_core::MutexMode;

    use super::*;
    use crate::PostgresBuilder;

    /// Parses the URL of one host.
    fn one(url: &str) -> PgConnectOptions {
        let (mut options, _) = parse(url).unwrap();
        assert_eq!(options.len(), 1, "{url}");
        options.remove(0)
    }

    fn kind(url: &str) -> Option<ErrorKind> {
        PostgresBuilder::new(url).err().map(|error| error.kind())
    }

    #[test]
    fn the_url_of_a_server_is_understood() {
        let url = "POSTGRES://me:s%20cret@127.0.0.1:7000/my%20db?namespace=billing&schema=locks&migrate=off\
                   &mutex=session&session_ttl_ms=3000&request_timeout_ms=250&application_name=app&options=-c%20geqo%3Doff";
        let (options, builder) = (one(url), PostgresBuilder::new(url).unwrap());
        assert_eq!((options.get_host(), options.get_port()), ("127.0.0.1", 7000));
        assert_eq!((options.get_username(), options.get_database()), ("me", Some("my db")));
        assert_eq!(options.get_application_name(), Some("app"));
        assert_eq!(options.get_options(), Some("-c geqo=off"));
        assert_eq!((builder.options.namespace.as_str(), builder.schema.as_str()), ("billing", "locks"));
        assert_eq!((builder.rules.migrate, builder.mutex), (false, MutexMode::Session));
        assert_eq!(builder.session_ttl, Duration::from_secs(3));
        assert_eq!(builder.options.request_timeout, Duration::from_millis(250));
        let options = one("postgresql:///db?host=/run/postgres&user=me");
        assert!(options.get_socket().is_some_and(|socket| socket.ends_with("postgres")));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_is_demanded_as_the_url_says() {
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(kind(&format!("postgres://h/?sslmode={mode}&sslrootcert=/nowhere/ca.pem")), None);
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_its_feature_is_unsupported() {
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(kind(&format!("postgres://h/?sslmode={mode}")), Some(ErrorKind::Unsupported));
        }
        assert_eq!(kind("postgres://h/?sslmode=prefer"), None);
    }

    #[test]
    fn c19_what_is_not_understood_is_refused() {
        for url in [
            "",
            "postgres:",
            "postgres:x",
            "redis://127.0.0.1/",
            "postgres://127.0.0.1/?name=x",
            "postgres://127.0.0.1/?options[x",
            "postgres://127.0.0.1/?namespace=a&namespace=b",
            "postgres://127.0.0.1/?sslmode=disable&sslmode=require",
            "postgres://127.0.0.1/?sslmode=maybe",
            "postgres://127.0.0.1/?migrate=yes",
            "postgres://127.0.0.1/?mutex=process",
            "postgres://127.0.0.1/?request_timeout_ms=soon",
            "postgres://127.0.0.1/?channel_binding=require",
            "postgres://127.0.0.1/#insecure",
            "postgres://127.0.0.1:x/",
        ] {
            assert_eq!(kind(url), Some(ErrorKind::InvalidArgument), "{url}");
        }
        let error = PostgresBuilder::new("postgres://u:s3cret@h/?namespaze=a").err().unwrap();
        assert!(error.to_string().contains("namespaze"), "{error}");
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
        "host=",
        "schema=",
        "mutex=",
        "sslmode=",
        "password=",
    ];
    const TAILS: [&str; 7] =
        ["", "/", "/db", "/db?namespace=x", "?sslmode=x", "?request_timeout_ms=x", "/?password=s3cret&x"];

    fn pieces() -> impl Strategy<Value = String> {
        collection::vec(select(&PIECES[..]), 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn c21_no_text_shows_the_password_of_a_generated_url(
            scheme in select(&["postgres", "postgresql", "redis"][..]),
            (before, after) in (pieces(), pieces()),
            tail in select(&TAILS[..]),
        ) {
            let url = format!("{scheme}://u:{before}s3cret{after}@h{tail}");
            let mut texts = Vec::new();
            match PostgresBuilder::new(&url) {
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
            "postgres://u:s3cret@h:x/",
            "postgress://u:s3cret@h/",
            "postgres:u:s3cret@h",
            "postgres://u:p#s3cret@h/",
            "postgres://u:1,b#s3cret@h/",
            "postgres://u:1,s3cret?x@h,i/",
            "postgres://u:1,s3cret/x@h,i/",
            "postgres://u:s3cret@h,i:x/",
            "postgres://u:s3cret@h,,i/",
            "postgres://u:s3cret@h,i/?target_session_attrs=standby",
            "postgres://u:1?s3cret@h/",
            "postgres://u:s3cret@h/?sslmode=s3cret",
            "postgres://h/?password=s3cret&x=s3cret",
            "postgres://h/?password=s3cret&password=s3cret",
        ] {
            let error = PostgresBuilder::new(url).err().unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        for url in [
            "postgres://u:s3cret@h/",
            "postgres://u@h/?password=s3cret",
            "postgres://u:s3cret@h,i:5433/",
            "postgres://u:a,s3cret@h,[::1]:5433/db?target_session_attrs=any",
        ] {
            let builder = PostgresBuilder::new(url).unwrap();
            assert!(!format!("{builder:?} {builder:#?}").contains("s3cret"), "{builder:?}");
        }
    }
}
