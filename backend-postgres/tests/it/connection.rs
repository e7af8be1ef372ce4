//! Checks at connecting: which servers a store accepts, and what it reports of them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::{
    MODES, REQUEST, builder, forbid_settings, lease, pool_sessions, refused, row, server, standby,
};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection};
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{eventually, on_another_runtime, unique, within};
use stanchion_core::{ErrorKind, MutexMode, MutexOptions, SemaphoreOptions, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore, schema_sql};
use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_store_says_what_it_is() {
    let server = server();
    let store = lease(&server.url()).connect().await.unwrap();
    let able = store.capabilities();
    assert_eq!((able.store, able.mutex_mode), ("postgres", MutexMode::Lease));
    assert!(able.wake_ups && able.detach && able.shared && able.limiters && able.wait_groups);
    assert_eq!(able.survives_restart, Some(false), "the test server has no fsync");
    store.ping().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    let durable = PostgresServer::start(PostgresOptions::default().fsync(true)).unwrap();
    let steps = lease(&durable.url()).steps().await.unwrap();
    assert_eq!(steps.capabilities.survives_restart, Some(true));
}

#[tokio::test]
async fn c15_connecting_leaves_one_connection() {
    let server = server();
    let steps = lease(&server.url()).steps().await.unwrap();
    steps.callers.ping().await.unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion'";
    // The server lists a closed connection until its process has ended.
    eventually(SECOND + EPSILON, "one is left", || async { server.sql(count).unwrap().trim() == "1" }).await;
}

/// C28: one runtime has connections of its own, all others go through the engine's thread.
#[tokio::test]
async fn c28_24_runtimes_make_no_connection_each() {
    let server = server();
    let store = lease(&server.url()).connect().await.unwrap();
    let own = store.mutex("own", MutexOptions::default()).unwrap();
    own.lock().await.unwrap().release().await.unwrap();
    let done = std::sync::Barrier::new(25);
    let count = std::thread::scope(|scope| {
        for index in 0..24 {
            let (mutex, done) = (store.mutex(&format!("m{index}"), MutexOptions::default()).unwrap(), &done);
            scope.spawn(move || {
                on_another_runtime(|lone| {
                    lone.drive(async {
                        for _ in 0..10 {
                            mutex.lock().await.unwrap().release().await.unwrap();
                        }
                    });
                    done.wait();
                    done.wait();
                });
            });
        }
        done.wait();
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion'";
        let count: usize = server.sql(count).unwrap().trim().parse().unwrap();
        done.wait();
        count
    });
    // Two of the first runtime, two for all others, two of the engine, and one that listens.
    assert!(count <= 7, "{count} connections");
}

#[tokio::test]
async fn c3_a_server_that_is_away_was_not_asked_and_is_named() {
    let server = server();
    let steps = lease(&server.url()).steps().await.unwrap();
    server.kill().unwrap();
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(steps.callers.ping().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = refused(lease(&server.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("127.0.0.1:{}", server.port())), "{error}");
    assert_eq!((error.operation(), error.store()), (Some("connect"), Some("postgres")));
    server.restart().unwrap();
    eventually(SECOND + EPSILON, "it is back", || async {
        let answer = steps.callers.ping().await;
        assert!(answer.as_ref().err().is_none_or(stanchion_core::Error::is_retryable), "{answer:?}");
        answer.is_ok()
    })
    .await;
}

#[tokio::test]
async fn c17_connecting_to_a_silent_server_takes_the_request_timeout() {
    let server = server();
    server.pause().unwrap();
    let error = refused(lease(&server.url()).request_timeout(SECOND));
    let error = within(SECOND + EPSILON, "it is refused", error).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c21_wrong_credentials_and_databases_are_told_without_the_password() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let url = server.role("app", "r1ght", "GRANT CREATE ON DATABASE postgres TO app").unwrap();
    lease(&url).steps().await.unwrap();
    for (url, kind) in [
        (url.replace("r1ght", "wr0ng"), ErrorKind::Unauthorized),
        (url.replace("app:r1ght", "nobody:wr0ng"), ErrorKind::Unauthorized),
        (url.replace("/postgres", "/elsewhere"), ErrorKind::InvalidArgument),
    ] {
        let error = refused(lease(&url)).await;
        assert_eq!(error.kind(), kind, "{error:?}");
        let text = format!("{error} {error:?} {error:#?} {:?}", lease(&url));
        assert!(!text.contains("wr0ng") && !text.contains("r1ght"), "{text}");
    }
}

#[tokio::test]
async fn tls_is_verified() {
    let server = PostgresServer::start(PostgresOptions::default().tls(true)).unwrap();
    lease(&server.url()).steps().await.unwrap();
    let plain = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port());
    lease(&format!("{plain}?sslmode=require")).steps().await.unwrap();
    let untrusted = refused(lease(&format!("{plain}?sslmode=verify-full"))).await;
    assert_eq!(untrusted.kind(), ErrorKind::Unavailable, "{untrusted:?}");
    // Who names an authority wants it asked.
    let root = |server: &PostgresServer| {
        let url = server.url();
        let (_, root) = url.split_once("sslrootcert=").unwrap();
        root.split('&').next().unwrap().to_owned()
    };
    let other = PostgresServer::start(PostgresOptions::default().tls(true)).unwrap();
    let by_root = |server| format!("{plain}?sslmode=require&sslrootcert={}", root(server));
    lease(&by_root(&server)).steps().await.unwrap();
    let foreign = refused(lease(&by_root(&other))).await;
    assert_eq!(foreign.kind(), ErrorKind::Unavailable, "{foreign:?}");
    let open = refused(lease(&format!("{plain}?sslmode=disable"))).await;
    assert_eq!(open.kind(), ErrorKind::Unauthorized, "{open:?}");
    let without = crate::common::server();
    let none = refused(lease(&format!("{}?sslmode=require", without.url()))).await;
    assert_eq!(none.kind(), ErrorKind::Unavailable, "{none:?}");
    assert!(none.to_string().contains("TLS"), "{none}");
}

#[tokio::test]
async fn c22_a_standby_is_refused() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    server.kill().unwrap();
    let standby = standby(&server);
    eventually(Duration::from_secs(30), "it has started", || async {
        let error = refused(lease(&server.url())).await;
        let refused = error.kind() == ErrorKind::UnsafeStore && error.to_string().contains("standby");
        assert!(refused || error.kind() == ErrorKind::Unavailable, "{error:?}");
        refused
    })
    .await;
    drop(standby);
}

#[tokio::test]
async fn c22_what_would_break_safety_is_refused() {
    let server = server();
    server
        .sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        .unwrap();
    server.sql("CREATE DATABASE frozen").unwrap();
    server.sql("ALTER DATABASE frozen SET default_transaction_read_only = on").unwrap();
    let root = format!("postgres://postgres@127.0.0.1:{}", server.port());
    for (database, word) in [("latin", "LATIN1"), ("frozen", "read_only")] {
        let error = refused(lease(&format!("{root}/{database}"))).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let options: PgConnectOptions = server.url().parse().unwrap();
    let strict = PgPoolOptions::new()
        .connect_with(options.options([("default_transaction_isolation", "serializable")]))
        .await
        .unwrap();
    let builder = PostgresBuilder::from_pool(strict).mutex(MutexMode::Lease).request_timeout(REQUEST);
    let error = refused(builder).await;
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
    assert!(error.to_string().contains("serializable"), "{error}");
}

#[tokio::test]
async fn c22_commits_that_do_not_wait_for_the_disk_are_raised() {
    let server =
        PostgresServer::start(PostgresOptions::default().setting("synchronous_commit", "off")).unwrap();
    let store = lease(&server.url()).connect().await.unwrap();
    store.ping().await.unwrap();
    // The store would be refused if `synchronous_commit` of the session were still off.
    lease(&server.url()).steps().await.unwrap();
}

/// Asks for a permit of a new name until this is the answer.
async fn answered(store: &dyn Store, kind: Option<ErrorKind>) {
    let is_answer = || async {
        let permits = store.semaphore(&unique("s"), SemaphoreOptions::new(1)).unwrap();
        let error = permits.try_acquire().await.err();
        error.map(|error| error.kind()) == kind
    };
    eventually(Duration::from_secs(30), &format!("{kind:?}"), is_answer).await;
}

const END_ALL: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'stanchion%'";

#[tokio::test]
async fn c22_a_new_connection_finds_another_layout_or_mode() {
    let server = server();
    for mode in MODES {
        let store = builder(&server.url(), mode).connect().await.unwrap();
        answered(&store, None).await;
        for (column, other) in [
            ("layout", "layout + 1"),
            ("mutex_mode", "CASE mutex_mode WHEN 'lease' THEN 'session' ELSE 'lease' END"),
        ] {
            let namespace = format!(
                "namespace = '{}'",
                if mode == MutexMode::Session { "by-session" } else { "by-lease" }
            );
            let kept = format!("SELECT {column} FROM stanchion.namespaces WHERE {namespace}");
            let kept = server.sql(&kept).unwrap();
            let set = |value: &str| {
                server
                    .sql(&format!("UPDATE stanchion.namespaces SET {column} = {value} WHERE {namespace}"))
                    .unwrap();
                server.sql(END_ALL).unwrap();
            };
            set(other);
            answered(&store, Some(ErrorKind::ConfigMismatch)).await;
            set(&format!("'{}'", kept.trim()));
            answered(&store, None).await;
        }
        // A later version of the library has changed the schema.
        let oldest = server.sql("SELECT oldest FROM stanchion.library").unwrap();
        for (oldest, refused) in [("999.0.0", Some(ErrorKind::ConfigMismatch)), (oldest.trim(), None)] {
            let set = format!("UPDATE stanchion.library SET oldest = '{oldest}'");
            server.sql(&format!("{set}; {END_ALL}")).unwrap();
            answered(&store, refused).await;
        }
    }
}

#[tokio::test]
async fn c22_a_new_connection_waits_while_somebody_has_the_settings_locked() {
    let server = server();
    for mode in MODES {
        let store = builder(&server.url(), mode).connect().await.unwrap();
        let mut raw = PgConnection::connect(&server.url()).await.unwrap();
        let lock = "BEGIN; LOCK TABLE stanchion.namespaces IN ACCESS EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut raw).await.unwrap();
        server.sql(END_ALL).unwrap();
        answered(&store, None).await;
        // The server would notice only some time after the drop of the connection.
        sqlx::raw_sql("ROLLBACK").execute(&mut raw).await.unwrap();
    }
}

#[tokio::test]
async fn c22_a_new_connection_to_a_standby_waits_for_a_primary() {
    let server = server();
    let store = lease(&server.url()).connect().await.unwrap();
    answered(&store, None).await;
    server.kill().unwrap();
    let standby = standby(&server);
    let permits = store.semaphore("s", SemaphoreOptions::new(1)).unwrap();
    // A request on a connection of the killed server may have reached it; later ones need a new
    // connection.
    eventually(Duration::from_secs(30), "the old connections are given up", || async {
        let error = permits.try_acquire().await.expect_err("there is no primary");
        assert!([ErrorKind::Unknown, ErrorKind::Unavailable].contains(&error.kind()), "{error:?}");
        error.kind() == ErrorKind::Unavailable
    })
    .await;
    eventually(Duration::from_secs(30), "it is seen", || async {
        let error = permits.try_acquire().await.expect_err("there is no primary");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        error.to_string().contains("standby")
    })
    .await;
    row(&server.url(), "SELECT pg_promote()").await;
    answered(&store, None).await;
    drop(standby);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_behind_a_pooler_leases_only_and_without_wake_ups() {
    let server = server();
    let pooler = PgBouncer::start(&server, 3, &[]).unwrap();
    let refusal = |builder: PostgresBuilder| async move {
        let error = refused(builder.request_timeout(REQUEST)).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
        assert!(error.to_string().contains("mutex=lease"), "{error}");
    };
    refusal(PostgresStore::builder(&pooler.url()).unwrap().mutex(MutexMode::Session)).await;
    // The schema is made through the pooler, too.
    let store = lease(&pooler.url()).connect().await.unwrap();
    assert!(!store.capabilities().wake_ups);
    for _ in 0..20 {
        store.ping().await.unwrap();
    }
    let lone = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(pooler.url().parse::<PgConnectOptions>().unwrap().statement_cache_capacity(0))
        .await
        .unwrap();
    refusal(PostgresBuilder::from_pool(lone.clone()).mutex(MutexMode::Session)).await;
    let builder = PostgresBuilder::from_pool(lone).mutex(MutexMode::Lease).request_timeout(REQUEST);
    let store = builder.connect().await.unwrap();
    store.ping().await.unwrap();
    forbid_settings(&pooler);
    refusal(PostgresStore::builder(&pooler.url()).unwrap().mutex(MutexMode::Session)).await;
    let store = lease(&pooler.url()).connect().await.unwrap();
    store.ping().await.unwrap();
    assert!(!store.capabilities().wake_ups);
}

/// A session whose settings were dropped would outlive its client, whatever its role has set in
/// their place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_pooler_that_drops_settings_is_found_whatever_the_role_has_set() {
    let server = server();
    let pooler = PgBouncer::start(&server, 10, &[]).unwrap();
    pool_sessions(&pooler);
    for timeout in ["0", "30s"] {
        server.sql(&format!("ALTER ROLE postgres SET statement_timeout = '{timeout}'")).unwrap();
        let by_session = builder(&pooler.url(), MutexMode::Session);
        let error = refused(by_session).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{timeout}: {error:?}");
        let store = builder(&pooler.url(), MutexMode::Lease).connect().await.unwrap();
        assert!(!store.capabilities().wake_ups, "{timeout}");
        answered(&store, None).await;
        builder(&server.url(), MutexMode::Session).connect().await.unwrap();
    }
}

#[tokio::test]
async fn c20_the_mutex_mode_belongs_to_the_namespace() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let other = |mode| lease(&server.url()).mutex(mode);
    let error = refused(other(MutexMode::Session)).await;
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch, "{error:?}");
    assert!(error.to_string().contains("by lease") && error.to_string().contains("mutex=session"), "{error}");
    other(MutexMode::Session).namespace("another").steps().await.unwrap();
    assert_eq!(refused(other(MutexMode::Lease).namespace("another")).await.kind(), ErrorKind::ConfigMismatch);
    server.sql("UPDATE stanchion.namespaces SET layout = 7").unwrap();
    let error = refused(lease(&server.url())).await;
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("layout 7"), "{error}");
}

#[tokio::test]
async fn a_store_is_made_from_a_pool() {
    let server = server();
    let pool = PgPoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap();
    let request_timeout = 4 * SECOND;
    let builder = PostgresBuilder::from_pool(pool.clone()).mutex(MutexMode::Lease);
    let store = builder.request_timeout(request_timeout).connect().await.unwrap();
    assert!(store.capabilities().wake_ups);
    for _ in 0..10 {
        store.ping().await.unwrap();
    }
    let held = pool.acquire().await.unwrap();
    let refused = within(request_timeout + EPSILON, "no connection is left for it", store.ping()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(held);
    store.ping().await.unwrap();
    pool.close().await;
    store.ping().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_builder_is_left_alone_by_a_bad_option() {
    let builder = lease("postgres://127.0.0.1:1/").namespace("no/slash");
    assert_eq!(refused(builder).await.kind(), ErrorKind::InvalidArgument);
    assert!(schema_sql("x y", None, 0).is_err());
}
