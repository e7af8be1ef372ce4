//! What the errors of connecting say: the cause, the address, the part of a URL that is wrong, and
//! never a password.

#![cfg(all(feature = "redis", feature = "postgres"))]

use std::error::Error as StdError;
use std::io;
use std::iter;
use std::sync::Arc;

use stanchion::{Error, ErrorKind};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

use crate::connect::{assert_hidden, refused, texts};

const PASSWORD: &str = "hunter2-s3cret";
const STORES: [&str; 2] = ["redis", "postgres"];

/// Checks an error of connecting: its context, its address, words of its text, and that the
/// password is in no text.
fn assert_says(error: &Error, kind: ErrorKind, address: &str, words: &[&str]) {
    let text = error.to_string();
    assert_eq!((error.kind(), error.operation()), (kind, Some("connect")), "{text}");
    assert_eq!(error.address(), Some(address), "{text}");
    assert!(text.contains(&format!(" on {} at {address}: ", error.store().unwrap())), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert_hidden(PASSWORD, &texts(error));
}

/// Checks the error of a connection that was not made.
fn assert_unreached(error: &Error, address: &str, words: &str) {
    assert_says(error, ErrorKind::Unavailable, address, &[words]);
    assert!(error.is_retryable() && error.source().is_some(), "{error:?}");
}

/// Returns the kind of the I/O error among the causes. The Redis client shares it among the clones
/// of its error.
fn io_cause(error: &Error) -> Option<io::ErrorKind> {
    iter::successors(error.source(), |&cause| cause.source()).find_map(|cause| {
        let shared = cause.downcast_ref::<Arc<dyn StdError + Send + Sync>>();
        let shared = shared.and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.downcast_ref::<io::Error>().or(shared).map(io::Error::kind)
    })
}

#[tokio::test]
async fn c21_a_refused_port_is_told_with_its_address() {
    for store in STORES {
        // No server listens there.
        let error = refused(&format!("{store}://me:{PASSWORD}@127.0.0.1:1/")).await;
        assert_unreached(&error, "127.0.0.1:1", "the server could not be reached: connection refused");
        assert_eq!(io_cause(&error), Some(io::ErrorKind::ConnectionRefused), "{error:?}");
    }
}

#[tokio::test]
async fn c21_an_unknown_host_is_told_with_its_address() {
    for store in STORES {
        // Two dots in a row: the system refuses it without a question to a name server.
        let error = refused(&format!("{store}://me:{PASSWORD}@no-such-host..invalid:7/")).await;
        assert_unreached(
            &error,
            "no-such-host..invalid:7",
            "the server could not be reached: unknown host: ",
        );
        assert!(io_cause(&error).is_some(), "{error:?}");
        let long = refused(&format!("{store}://me:{PASSWORD}@{}..invalid:7/", "x".repeat(100))).await;
        assert_eq!(long.kind(), ErrorKind::Unavailable, "{long}");
        assert!(long.to_string().contains("… (109 bytes):7: "), "{long}");
        assert_hidden(&"x".repeat(65), &[long.to_string(), format!("{long:?}")]);
    }
}

#[tokio::test]
async fn c21_the_port_of_the_other_database_is_told() {
    let postgres = PostgresServer::start(PostgresOptions::default()).unwrap();
    let address = format!("127.0.0.1:{}", postgres.port());
    let error = refused(&format!("redis://:{PASSWORD}@{address}/")).await;
    assert_unreached(&error, &address, "speak Redis");
    // It waits for the end of a line, and says nothing.
    let redis = RedisServer::start(RedisOptions::default()).unwrap();
    let address = format!("127.0.0.1:{}", redis.port());
    let url = format!("postgres://me:{PASSWORD}@{address}/?request_timeout_ms=1000");
    assert_unreached(&refused(&url).await, &address, "speak Postgres?");
}

#[tokio::test]
async fn c21_a_plain_port_is_asked_whether_it_speaks_tls() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    for (scheme, path) in [("rediss", "0"), ("rediss+cluster", ""), ("rediss+sentinel", "service")] {
        // The server waits for the end of a line, unless there happens to be one in what the client
        // sends.
        let error = refused(&format!("{scheme}://:{PASSWORD}@{address}/{path}")).await;
        assert_unreached(&error, &address, "speak TLS?");
    }
}

#[tokio::test]
async fn c21_a_certificate_that_is_not_trusted_is_told() {
    let redis = RedisServer::start(RedisOptions::default().tls(true).password(PASSWORD)).unwrap();
    let postgres = PostgresServer::start(PostgresOptions::default().tls(true)).unwrap();
    for (url, parameters, port) in
        [(redis.url(), "", redis.port()), (postgres.url(), "?sslmode=verify-full", postgres.port())]
    {
        let (bare, _) = url.split_once('?').unwrap();
        let error = refused(&format!("{bare}{parameters}")).await;
        let words = "no secure connection was made: invalid peer certificate";
        assert_unreached(&error, &format!("127.0.0.1:{port}"), words);
    }
}

#[tokio::test]
async fn c21_a_server_that_is_no_sentinel_is_told() {
    let server = RedisServer::start(RedisOptions::default().password(PASSWORD)).unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    let url = format!("redis+sentinel://:{PASSWORD}@{address}/service?sentinel_password={PASSWORD}");
    let error = refused(&url).await;
    assert_says(&error, ErrorKind::InvalidArgument, &address, &["the server is not a sentinel"]);
    assert!(!error.is_retryable() && error.source().is_some(), "{error:?}");
}

#[tokio::test]
async fn c21_a_role_without_rights_is_told_what_makes_the_schema_and_where_to_read_of_it() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    let url = server.role("app", PASSWORD, "SELECT 1").unwrap();
    let words = ["`stanchion::postgres::schema_sql()`", "`stanchion::guide::operating_postgres`"];
    let may_not_make = refused(&url).await;
    assert_says(&may_not_make, ErrorKind::Unauthorized, &address, &words);
    assert!(may_not_make.source().is_some(), "{may_not_make:?}");
    let missing = refused(&format!("{url}?migrate=off")).await;
    assert_says(&missing, ErrorKind::ConfigMismatch, &address, &words);
    stanchion::connect(&server.url()).await.unwrap().close().await.unwrap();
    let may_not_use = refused(&url).await;
    assert_says(&may_not_use, ErrorKind::Unauthorized, &address, &words);
    for error in [may_not_make, missing, may_not_use] {
        assert!(!error.to_string().contains("xtask"), "users of the library have no xtask: {error}");
    }
}

/// The same mistake gets the same text on every store.
#[tokio::test]
async fn c21_a_malformed_url_says_which_part_is_wrong() {
    for (rest, words) in [
        (":/localhost", "two slashes and a host follow the scheme"),
        (":me:hunter2@localhost", "two slashes and a host follow the scheme"),
        ("://h:notaport", "the port of the URL is not a number"),
        ("://me:hunter2@h:65536/0", "the port of the URL is not a number"),
        ("://me:hunter2@:6379/0", "the host of the URL is missing"),
        ("://me:%ff@h/0", "the user, password or host of the URL"),
        ("://me:hunter2@s3cret#hunter2/s3cret@h/0", "percent-encode `#` as %23"),
        ("://me:hunter2/s3cret@h/0", "`/` as %2F"),
        ("://me:hunter2@s3cret/hunter2@h/0", "`/` as %2F"),
        ("://me:1?hunter2=s3cret@h/0", "`?` as %3F"),
        ("://me:hunter2@h/0?namespaze=a", "unknown URL parameter \"namespaze\""),
    ] {
        let mut told = Vec::new();
        for store in STORES {
            let error = refused(&format!("{store}{rest}")).await;
            assert_eq!((error.kind(), error.store()), (ErrorKind::InvalidArgument, Some(store)), "{error}");
            assert!(error.to_string().contains(words), "{store}{rest}: {error}");
            for secret in ["hunter2", "s3cret"] {
                assert_hidden(secret, &texts(&error));
            }
            told.push(error.to_string().replace(store, "STORE"));
        }
        assert_eq!(told[0], told[1]);
    }
}

#[tokio::test]
async fn c21_a_path_that_is_no_database_and_a_text_that_is_no_url_are_told() {
    for (url, words) in [
        ("redis://h/abc", "not the number of a database"),
        ("redis+sentinel://h/service/abc", "not the number of a database"),
        ("postgres://h/?port=abc", "the value of URL parameter \"port\""),
        ("/abc", "a URL begins with one of"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(words), "{url}: {error}");
    }
}
