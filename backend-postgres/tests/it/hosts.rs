//! Stores with several hosts: what is passed over, and where a store goes after a switch.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{MODES, builder, refused, server};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{eventually, within};
use stanchion_core::{ErrorKind, MutexMode, MutexOptions, Result, SemaphoreOptions, Store};
use stanchion_postgres::{PostgresBuilder, TargetSessionAttrs};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::time::timeout;

/// Of the stores of this file. A host that does not answer costs a second.
const REQUEST: Duration = Duration::from_secs(4);
/// The lease of session mode.
const TTL: Duration = Duration::from_secs(4);
/// Longer than a busy machine takes for what has no limit of its own.
const LONG: Duration = Duration::from_secs(20);
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'stanchion%'";

fn url(ports: &[u16]) -> String {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

fn of(ports: &[u16], mode: MutexMode) -> PostgresBuilder {
    builder(&url(ports), mode).request_timeout(REQUEST).session_ttl(TTL)
}

fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Makes a server take no writes in new transactions, as an administrator does it before a switch.
fn make_read_only(server: &PostgresServer) {
    server.sql("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
}

/// Uses what goes over callers' connections, over the sessions and over the one that listens.
async fn works(store: &dyn Store, other: &dyn Store, name: &str) -> Result<()> {
    let mutex = |store: &dyn Store| store.mutex(name, MutexOptions::default());
    let guard = mutex(store)?.lock_for(LONG).await?.expect("nobody else has it");
    let waiter = mutex(other)?;
    let waiting = async { waiter.lock_for(LONG).await?.expect("it is its turn").release().await };
    let release = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        guard.release().await
    };
    let (waited, released) = tokio::join!(waiting, release);
    waited.and(released)?;
    for store in [store, other] {
        let permits = store.semaphore(name, SemaphoreOptions::new(2))?;
        permits.try_acquire().await?.expect("it is free").release().await?;
    }
    Ok(())
}

async fn connected(ports: &[u16], mode: MutexMode) -> [Arc<dyn Store>; 2] {
    let connect = || async { Arc::new(of(ports, mode).connect().await.unwrap()) as Arc<dyn Store> };
    [connect().await, connect().await]
}

#[tokio::test]
async fn c22_a_host_that_refuses_connections_is_passed_over() {
    let server = server();
    for mode in MODES {
        let [one, other] = connected(&[closed_port(), server.port()], mode).await;
        works(&*one, &*other, "m").await.unwrap();
    }
}

#[tokio::test]
async fn c17_a_silent_host_costs_the_time_of_an_attempt() {
    let server = server();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [silent.local_addr().unwrap().port(), server.port()];
    of(&ports[1..], MutexMode::Lease).connect().await.unwrap();
    let connecting = of(&ports, MutexMode::Lease).connect();
    let store = within(REQUEST / 4 + EPSILON, "it is connected", connecting).await.unwrap();
    within(EPSILON, "the host that worked comes first", store.ping()).await.unwrap();
}

#[tokio::test]
async fn c22_a_standby_among_several_hosts_is_passed_over() {
    let options = PostgresOptions::default;
    let (read_only, primary) = (server(), PostgresServer::start(options()).unwrap());
    let standby = primary.start_standby(options()).unwrap();
    make_read_only(&read_only);
    let ports = [standby.port(), read_only.port(), primary.port()];
    for mode in MODES {
        let [one, other] = connected(&ports, mode).await;
        works(&*one, &*other, "m").await.unwrap();
        for server in [&standby, &read_only] {
            assert_eq!(server.sql(SESSIONS).unwrap().trim(), "0");
        }
        let error = refused(of(&ports, mode).target_session_attrs(TargetSessionAttrs::Any)).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
        let error = refused(of(&ports[..2], mode)).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
        let text = error.to_string();
        for (port, word) in [(standby.port(), "standby"), (read_only.port(), "read_only")] {
            let (_, cause) = text.split_once(&format!("store at 127.0.0.1:{port}: ")).expect(&text);
            assert!(cause.split(';').next().unwrap().contains(word), "{text}");
        }
    }
    let options = PgConnectOptions::new().username("postgres").database("postgres");
    let hosts = ports.map(|port| ("127.0.0.1", port));
    let store = PostgresBuilder::from_options(options).hosts(hosts).namespace("by-lease").connect().await;
    store.unwrap().ping().await.unwrap();
}

/// The two servers are databases of their own: what a store did on the first is not on the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_after_a_switch_a_store_goes_to_the_host_that_takes_writes() {
    for mode in MODES {
        for is_read_only in [true, false] {
            let (first, second) = (server(), server());
            of(&[second.port()], mode).connect().await.unwrap().close().await.unwrap();
            let [one, other] = connected(&[first.port(), second.port()], mode).await;
            works(&*one, &*other, "before").await.unwrap();
            let held = one.mutex("held", MutexOptions::default()).unwrap().lock().await.unwrap();
            if is_read_only {
                make_read_only(&first);
            } else {
                first.kill().unwrap();
            }
            if mode == MutexMode::Session {
                within(TTL + EPSILON, "the session's hold is lost", held.lost()).await;
            }
            let tries = AtomicUsize::new(0);
            eventually(REQUEST + EPSILON, "both stores work", || async {
                let name = format!("after-{}", tries.fetch_add(1, Ordering::Relaxed));
                works(&*one, &*other, &name).await.is_ok()
            })
            .await;
            works(&*one, &*other, "later").await.unwrap();
            assert_ne!(second.sql(SESSIONS).unwrap().trim(), "0");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_without_another_host_a_session_outlasts_a_switch_to_read_only() {
    let server = server();
    let ports = [server.port(), closed_port()];
    let [one, other] = connected(&ports, MutexMode::Session).await;
    works(&*one, &*other, "before").await.unwrap();
    let held = one.mutex("held", MutexOptions::default()).unwrap().lock().await.unwrap();
    make_read_only(&server);
    let settings =
        "SELECT count(*) FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on'";
    eventually(LONG, "it takes no writes", || async { server.sql(settings).unwrap().trim() == "1" }).await;
    assert!(timeout(TTL, held.lost()).await.is_err(), "nobody else takes writes");
    let writable = format!("{}?options=-c%20default_transaction_read_only%3Doff", server.url());
    let mut administrator = PgConnection::connect(&writable).await.unwrap();
    for statement in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&mut administrator).await.unwrap();
    }
    held.release().await.unwrap();
    eventually(LONG, "both stores work", || async { works(&*one, &*other, "after").await.is_ok() }).await;
}

/// A host that ends each connection at once. Returns its port and the number of connections so far.
fn counted_host() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    (port, count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_an_outage_of_all_hosts_costs_each_of_them_two_attempts_a_second() {
    for mode in MODES {
        let server = server();
        let (ports, counts): (Vec<_>, Vec<_>) = (0..2).map(|_| counted_host()).unzip();
        let hosts = [server.port(), ports[0], ports[1]];
        let store = of(&hosts, mode).connect().await.unwrap();
        server.kill().unwrap();
        let (outage, start) = (Duration::from_secs(6), Instant::now());
        let calls = (0..30).map(|index| {
            let mutex = store.mutex(&format!("m{index}"), MutexOptions::default()).unwrap();
            tokio::spawn(async move { mutex.lock_for(outage).await })
        });
        let mut texts = String::new();
        for call in calls.collect::<Vec<_>>() {
            let error = call.await.unwrap().expect_err("there is no server");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            texts += &format!("{error}\n");
        }
        // A call whose request was not sent at the end names none.
        for port in hosts {
            assert!(texts.contains(&format!("store unavailable at 127.0.0.1:{port}: ")), "{texts}");
        }
        // Each of the five connections of a store can have begun to connect before the first
        // failed.
        let most = usize::try_from(start.elapsed().as_millis() / 500 + 5).unwrap();
        for count in counts {
            let made = count.load(Ordering::Relaxed);
            assert!((6..=most).contains(&made), "{mode:?}: {made} attempts, {most} at most");
        }
    }
}
