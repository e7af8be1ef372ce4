//! Connecting where something is in the way: silent links, poolers and proxies, locked tables.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MODES, builder, lease, pool_sessions, pool_statements, refused, server};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::within;
use stanchion_core::{ErrorKind, MutexMode, MutexOptions, Store};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::faults::{Action, Proxy, Then, When};
use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_connecting_over_a_link_that_falls_silent_ends_in_time() {
    let server = server();
    for mode in MODES {
        drop(builder(&server.url(), mode).connect().await.unwrap());
        let mut connecting = JoinSet::new();
        for silent_from in 1..64 {
            let url = server.url();
            connecting.spawn(async move {
                let proxy = Proxy::to(&url).unwrap();
                proxy.on(When::from_nth(silent_from), Action::DropRequest(Then::Silence));
                let connecting = builder(&proxy.url(&url), mode).request_timeout(SECOND).connect();
                let connected = within(SECOND * 3 + EPSILON, "it ends", connecting).await;
                connected.map(drop).map_err(|error| error.kind())
            });
        }
        let ended = connecting.join_all().await;
        assert!(ended.contains(&Ok(())), "it was silent before the end in each of them");
        assert!(ended.iter().all(|ended| [Ok(()), Err(ErrorKind::Unavailable)].contains(ended)), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_connecting_behind_a_pooler_with_one_session_says_what_it_waits_for() {
    let server = server();
    drop(lease(&server.url()).connect().await.unwrap());
    let pooler = PgBouncer::start(&server, 1, &[]).unwrap();
    pool_sessions(&pooler);
    let connecting = refused(lease(&pooler.url()).request_timeout(SECOND));
    let error = within(SECOND * 3 + EPSILON, "it is refused", connecting).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("no session left"), "{error}");
}

/// Somebody changes a table while a store connects, as a migration of another tool does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_connecting_waits_for_tables_that_are_locked_for_a_moment() {
    let server = server();
    drop(lease(&server.url()).connect().await.unwrap());
    for table in ["migrations", "library", "namespaces"] {
        let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
        let lock = format!("BEGIN; LOCK TABLE stanchion.{table}");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut neighbour).await.unwrap();
        let connecting = tokio::spawn(lease(&server.url()).connect());
        sleep(EPSILON).await;
        assert!(!connecting.is_finished(), "{table}");
        sqlx::raw_sql("COMMIT").execute(&mut neighbour).await.unwrap();
        drop(connecting.await.unwrap().unwrap());
        // As long as its own time allows.
        let lock = format!("BEGIN; LOCK TABLE stanchion.{table}");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut neighbour).await.unwrap();
        let connecting = refused(lease(&server.url()).request_timeout(SECOND));
        let error = within(SECOND * 3 + EPSILON, "it is refused", connecting).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{table}: {error:?}");
        assert!(error.to_string().contains("locked"), "{table}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_pooler_of_statements_is_told_by_name() {
    let server = server();
    let pooler = PgBouncer::start(&server, 3, &[]).unwrap();
    pool_statements(&pooler);
    let error = refused(lease(&pooler.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("statement mode"), "{error}");
}

/// Starts what stands before a server and refuses start-up options with this code, as proxies do
/// with codes of their own. Returns its port.
async fn front_without_options(server: u16, code: &'static str) -> u16 {
    front_without(server, "options", code).await.0
}

/// As [`front_without_options`], where the packet has a word. Returns also how often that was so.
async fn front_without(server: u16, word: &'static str, code: &'static str) -> (u16, Arc<AtomicUsize>) {
    let refusals = Arc::<AtomicUsize>::default();
    let refused = Arc::clone(&refusals);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let refused = Arc::clone(&refused);
            tokio::spawn(async move {
                let mut hello = vec![0; 4];
                client.read_exact(&mut hello).await?;
                let length = u32::from_be_bytes([hello[0], hello[1], hello[2], hello[3]]);
                hello.resize(usize::try_from(length).unwrap(), 0);
                client.read_exact(&mut hello[4..]).await?;
                if hello.windows(word.len()).any(|part| part == word.as_bytes()) {
                    refused.fetch_add(1, Ordering::Relaxed);
                    let fields = format!("SFATAL\0VFATAL\0C{code}\0Mnot \"{word}\", please\0\0");
                    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
                    return client.write_all(&[b"E", &length[..], fields.as_bytes()].concat()).await;
                }
                let mut server = TcpStream::connect(("127.0.0.1", server)).await?;
                server.write_all(&hello).await?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            });
        }
    });
    (port, refusals)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_proxy_that_refuses_settings_is_asked_without_them() {
    let server = server();
    for code in ["0A000", "08P01", "42704", "XX000"] {
        let port = front_without_options(server.port(), code).await;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
        let store = lease(&url).connect().await.unwrap();
        let mutex = store.mutex("m", MutexOptions::default()).unwrap();
        mutex.lock().await.unwrap().release().await.unwrap();
        let session = PostgresStore::builder(&url).unwrap().mutex(MutexMode::Session);
        assert_eq!(refused(session).await.kind(), ErrorKind::UnsafeStore);
    }
    // A refusal that says nothing of the settings is told as it is.
    let port = front_without_options(server.port(), "53300").await;
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
    let error = refused(lease(&url).request_timeout(SECOND)).await;
    assert!(error.to_string().contains("no more connections"), "{error}");
}

/// On some systems a server cannot look for clients that are gone, and on some proxies no session
/// can be had that keeps mutexes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_session_mode_does_without_a_setting_and_says_where_it_cannot() {
    let server = server();
    let (port, refusals) = front_without(server.port(), "client_connection_check_interval", "22023").await;
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
    let by_session = |url: &str| PostgresStore::builder(url).unwrap().mutex(MutexMode::Session);
    let store = by_session(&url).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    within(SECOND * 3, "a lock", mutex.lock()).await.unwrap().release().await.unwrap();
    let other = store.namespace("other").await.unwrap().mutex("m", MutexOptions::default()).unwrap();
    within(SECOND * 3, "a lock", other.lock()).await.unwrap().release().await.unwrap();
    assert_eq!(refusals.load(Ordering::Relaxed), 1, "the store knows it from then on");
    let (port, _) = front_without(server.port(), "tcp_user_timeout", "22023").await;
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
    let connecting = refused(by_session(&url).request_timeout(SECOND));
    let error = within(SECOND * 5 + EPSILON, "it is refused", connecting).await;
    assert!(error.to_string().contains("tcp_user_timeout"), "{error}");
}

/// A transaction that is prepared keeps its locks, and no session has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c23_a_mutex_of_a_prepared_transaction_is_looked_at() {
    let server = PostgresServer::start(PostgresOptions::default().setting("max_prepared_transactions", "2"));
    let server = server.unwrap();
    let builder = PostgresStore::builder(&server.url()).unwrap().mutex(MutexMode::Session);
    let store = builder.namespace("n").connect().await.unwrap();
    server
        .script(
            "BEGIN; SELECT pg_advisory_xact_lock(stanchion.session_key('n', 'm')); PREPARE TRANSACTION 'p'",
        )
        .unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none(), "a transaction has it");
    assert!(mutex.inspect().await.unwrap().holders.is_empty(), "not by a guard");
    assert!(!mutex.force_unlock().await.unwrap(), "no session can give it up");
    server.sql("COMMIT PREPARED 'p'").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
}
