//! The stores that `connect` opens, and its errors.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime and fails by a panic"
)]

use std::error::Error as StdError;
use std::iter;

use stanchion::{Error, ErrorKind, connect};

/// Returns the error of a URL that must not connect.
pub(crate) async fn refused(url: &str) -> Error {
    connect(url).await.err().unwrap_or_else(|| panic!("{url} was accepted"))
}

/// Returns every text as which an error and its sources can be printed.
pub(crate) fn texts(error: &Error) -> Vec<String> {
    let chain = iter::successors(Some(error as &dyn StdError), |&cause| cause.source());
    chain.flat_map(|cause| [cause.to_string(), format!("{cause:?}"), format!("{cause:#?}")]).collect()
}

pub(crate) fn assert_hidden(secret: &str, texts: &[String]) {
    for text in texts {
        assert!(!text.contains(secret), "{secret:?} is in {text:?}");
    }
}

#[tokio::test]
async fn an_unknown_scheme_is_refused_with_the_known_ones() {
    for url in ["", ":", "reddis://127.0.0.1/", "127.0.0.1:6379", "memory", " memory:", "http://h/"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url:?}: {error}");
        for scheme in [
            "memory:",
            "redis://",
            "rediss://",
            "redis+unix://",
            "redis+cluster://",
            "redis+sentinel://",
            "postgres://",
            "postgresql://",
        ] {
            assert!(error.to_string().contains(scheme), "{url:?}: {error} does not name {scheme}");
        }
    }
}

/// In a malformed URL, the password is not where a parser would look for it.
#[tokio::test]
async fn c21_a_malformed_url_does_not_tell_its_password() {
    for url in ["hunter2@127.0.0.1:6379", "reddis://:hunter2@127.0.0.1/", "hunter2", "hunter2://x"] {
        assert_hidden("hunter2", &texts(&refused(url).await));
    }
}

#[cfg(feature = "memory")]
mod memory {
    use stanchion::{ErrorKind, MutexOptions, connect};

    use super::refused;

    /// Returns whether a lock taken through the first store excludes the second one.
    async fn share(first: &str, second: &str) -> bool {
        let (first, second) = (connect(first).await.unwrap(), connect(second).await.unwrap());
        let first = first.mutex("a name", MutexOptions::default()).unwrap();
        let second = second.mutex("a name", MutexOptions::default()).unwrap();
        let _guard = first.try_lock().await.unwrap().expect("no other caller holds it");
        second.try_lock().await.unwrap().is_none()
    }

    #[tokio::test]
    async fn a_store_without_a_name_is_private() {
        assert!(!share("memory:", "memory:").await);
        assert!(!share("memory:", "memory:facade").await);
    }

    #[tokio::test]
    async fn stores_of_one_name_are_shared() {
        assert!(share("memory:facade-shared", "memory:facade-shared").await);
        assert!(share("memory:facade-shared", "MEMORY:facade-shared?").await);
        assert!(!share("memory:facade-shared", "memory:Facade-shared").await);
    }

    #[tokio::test]
    async fn c19_namespaces_of_one_name_do_not_see_each_other() {
        assert!(share("memory:facade-spaces?namespace=a", "memory:facade-spaces?namespace=%61").await);
        assert!(!share("memory:facade-spaces?namespace=a", "memory:facade-spaces?namespace=b").await);
        assert!(share("memory:facade-spaces?namespace=stanchion", "memory:facade-spaces").await);
    }

    #[tokio::test]
    async fn a_store_by_url_says_what_it_is() {
        let able = connect("memory:").await.unwrap().capabilities();
        assert_eq!((able.store, able.shared), ("memory", false));
    }

    #[tokio::test]
    async fn parameters_and_hosts_are_refused() {
        for url in [
            "memory:?namespace=",
            "memory:?namespace=%FF",
            "memory:name?x",
            "memory:name?namespace=a&namespace=b",
            "memory:name#x",
            "memory:name?namespace=a#x",
            "memory:?request_timeout_ms=1",
            "memory://",
            "memory://127.0.0.1/",
        ] {
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}: {error}");
            assert_eq!((error.operation(), error.store()), (Some("connect"), Some("memory")));
        }
    }
}

#[cfg(not(feature = "memory"))]
#[tokio::test]
async fn without_its_feature_the_memory_store_is_unsupported() {
    let error = refused("memory:").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("feature `memory`"), "{error}");
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn without_its_feature_the_redis_store_is_unsupported() {
    for scheme in ["redis", "rediss", "redis+unix", "redis+cluster", "redis+sentinel"] {
        let error = refused(&format!("{scheme}://:hunter2@127.0.0.1/")).await;
        assert_eq!((error.kind(), error.store()), (ErrorKind::Unsupported, Some("redis")));
        assert!(error.to_string().contains("feature `redis`"), "{error}");
        assert_hidden("hunter2", &texts(&error));
    }
}

#[cfg(feature = "redis")]
mod redis {
    use stanchion::{ErrorKind, connect};
    use stanchion_testbed::servers::{self, RedisCluster, RedisOptions, RedisSentinel, RedisServer};

    use super::{assert_hidden, refused, texts};

    const PASSWORD: &str = "hunter2-s3cret";

    fn server_with_password() -> RedisServer {
        RedisServer::start(RedisOptions::default().password(PASSWORD)).unwrap()
    }

    fn with_parameters(url: &str, parameters: &str) -> String {
        format!("{url}{}{parameters}", if url.contains('?') { '&' } else { '?' })
    }

    #[tokio::test]
    async fn a_store_by_url_answers() {
        let url = with_parameters(servers::redis().unwrap().url(), "namespace=facade");
        let store = connect(&url).await.unwrap();
        let able = store.capabilities();
        assert_eq!((able.store, able.shared), ("redis", true));
        store.ping().await.unwrap();
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn c21_the_right_password_connects_and_is_not_told() {
        let server = server_with_password();
        let store = connect(&server.url()).await.unwrap();
        store.ping().await.unwrap();
        assert_hidden(PASSWORD, &[format!("{store:?}"), format!("{store:#?}")]);
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn c21_a_wrong_password_is_unauthorized_and_not_told() {
        let server = server_with_password();
        let wrong = server.url().replace(PASSWORD, "wr0ng-pass");
        for url in [wrong.clone(), wrong.replace(":wr0ng-pass@", "someone:wr0ng-pass@")] {
            let error = refused(&url).await;
            assert_eq!((error.kind(), error.store()), (ErrorKind::Unauthorized, Some("redis")), "{error}");
            assert_eq!(error.operation(), Some("connect"));
            assert!(!error.is_retryable());
            assert_hidden("wr0ng-pass", &texts(&error));
        }
        let none = refused(&server.url().replace(&format!(":{PASSWORD}@"), "")).await;
        assert_eq!(none.kind(), ErrorKind::Unauthorized, "{none}");
    }

    #[tokio::test]
    async fn c21_an_unreachable_server_is_named_without_its_password() {
        let server = server_with_password();
        server.kill().unwrap();
        let error = refused(&server.url()).await;
        assert_eq!((error.kind(), error.store()), (ErrorKind::Unavailable, Some("redis")), "{error}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{}", server.port())), "{error}");
        assert!(error.is_retryable());
        assert_hidden(PASSWORD, &texts(&error));
    }

    /// No server is needed for this error, and none is there.
    #[tokio::test]
    async fn an_unknown_parameter_is_refused_and_named() {
        let error = refused(&format!("redis://:{PASSWORD}@127.0.0.1:1/?namespaze=a")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("namespaze"), "{error}");
        assert_hidden(PASSWORD, &texts(&error));
    }

    #[tokio::test]
    async fn a_malformed_url_is_refused() {
        for url in ["redis:", "redis://", "redis://:hunter2@127.0.0.1:notaport/"] {
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}: {error}");
            assert_hidden("hunter2", &texts(&error));
        }
    }

    /// No server answers there, but the URL itself is accepted.
    #[tokio::test]
    async fn every_deployment_has_a_scheme() {
        for (scheme, path) in [
            ("rediss", ""),
            ("redis+cluster", ""),
            ("rediss+cluster", ""),
            ("redis+sentinel", "service"),
            ("rediss+sentinel", "service"),
        ] {
            let error = refused(&format!("{scheme}://:{PASSWORD}@127.0.0.1:1/{path}")).await;
            assert_eq!((error.kind(), error.store()), (ErrorKind::Unavailable, Some("redis")), "{error}");
            assert_hidden(PASSWORD, &texts(&error));
        }
    }

    #[tokio::test]
    async fn a_cluster_and_a_primary_of_sentinels_are_opened_by_url() {
        let cluster = RedisCluster::start(RedisOptions::default().password(PASSWORD)).unwrap();
        let sentinel = RedisSentinel::start(RedisOptions::default().password(PASSWORD)).unwrap();
        for url in [cluster.url(), sentinel.url()] {
            let store = connect(&url).await.unwrap();
            store.ping().await.unwrap();
            assert_hidden(PASSWORD, &[format!("{store:?}"), format!("{store:#?}")]);
            store.close().await.unwrap();
        }
    }
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn without_its_feature_the_postgres_store_is_unsupported() {
    for scheme in ["postgres", "postgresql"] {
        let error = refused(&format!("{scheme}://me:hunter2@127.0.0.1/")).await;
        assert_eq!((error.kind(), error.store()), (ErrorKind::Unsupported, Some("postgres")));
        assert!(error.to_string().contains("feature `postgres`"), "{error}");
        assert_hidden("hunter2", &texts(&error));
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use stanchion::{ErrorKind, MutexMode, connect};
    use stanchion_testbed::servers::{self, PostgresOptions, PostgresServer};

    use super::{assert_hidden, refused, texts};

    const PASSWORD: &str = "hunter2-s3cret";

    #[tokio::test]
    async fn a_store_by_url_answers() {
        let url = servers::postgres().unwrap().url();
        for scheme in ["postgres://", "postgresql://"] {
            let (_, rest) = url.split_once("://").unwrap();
            let separator = if rest.contains('?') { '&' } else { '?' };
            let url = format!("{scheme}{rest}{separator}namespace=facade&mutex=lease");
            let store = connect(&url).await.unwrap();
            let able = store.capabilities();
            assert_eq!((able.store, able.shared, able.mutex_mode), ("postgres", true, MutexMode::Lease));
            store.ping().await.unwrap();
            store.close().await.unwrap();
        }
    }

    #[tokio::test]
    async fn c21_the_password_connects_and_is_not_told() {
        let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
        let grants = "GRANT CREATE ON DATABASE postgres TO app";
        let url = format!("{}?mutex=lease", server.role("app", PASSWORD, grants).unwrap());
        let store = connect(&url).await.unwrap();
        assert_hidden(PASSWORD, &[format!("{store:?}"), format!("{store:#?}")]);
        let error = refused(&url.replace(PASSWORD, "wr0ng-pass")).await;
        assert_eq!((error.kind(), error.store()), (ErrorKind::Unauthorized, Some("postgres")), "{error}");
        assert_eq!(error.operation(), Some("connect"));
        assert_hidden("wr0ng-pass", &texts(&error));
        server.kill().unwrap();
        let error = refused(&url).await;
        assert_eq!((error.kind(), error.store()), (ErrorKind::Unavailable, Some("postgres")), "{error}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{}", server.port())), "{error}");
        assert_hidden(PASSWORD, &texts(&error));
    }

    /// No server is needed for this error, and none is there.
    #[tokio::test]
    async fn what_is_not_understood_is_refused_and_named() {
        let error = refused(&format!("postgres://me:{PASSWORD}@127.0.0.1:1/?namespaze=a")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("namespaze"), "{error}");
        assert_hidden(PASSWORD, &texts(&error));
        for url in ["postgres:", "postgres:db", "postgresql://me:hunter2@127.0.0.1:notaport/"] {
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}: {error}");
            assert_hidden("hunter2", &texts(&error));
        }
    }
}
