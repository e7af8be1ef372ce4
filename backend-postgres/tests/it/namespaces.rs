//! Views of other namespaces, which share the thread and the connections of their store.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row;
use stanchion_conformance::support::{eventually, spawn, within};
use stanchion_core::{ErrorKind, Mutex, MutexMode, MutexOptions, Store};
use stanchion_postgres::PostgresStore;
use tokio::time::sleep;

use crate::common::*;

/// Timeout for waiters to join or to be served, also on a busy machine.
const SETTLING: Duration = Duration::from_secs(10);
const NAMESPACES: i64 = 20;
/// Two of callers, two of the engine, and one that listens.
const SHARED: i64 = 5;

fn mutex(store: &PostgresStore) -> Arc<dyn Mutex> {
    store.mutex("m", MutexOptions::default()).unwrap()
}

async fn named(url: &str, mode: MutexMode, application: &str) -> PostgresStore {
    builder(&format!("{url}?application_name={application}"), mode).connect().await.unwrap()
}

async fn connections(url: &str, application: &str) -> i64 {
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '{application}%'");
    row(url, &count).await.get(0)
}

/// In session mode each namespace has a session for its mutexes, as the documentation says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_twenty_namespaces_take_the_connections_of_one() {
    for (mode, limit) in [(MutexMode::Lease, SHARED), (MutexMode::Session, SHARED + NAMESPACES)] {
        let server = server();
        let store = named(&server.url(), mode, "held").await;
        let waiting = named(&server.url(), mode, "waits").await;
        let (mut guards, mut waiters) = (Vec::new(), Vec::new());
        for number in 0..NAMESPACES {
            let namespace = format!("n{number}");
            let view = store.namespace(&namespace).await.unwrap();
            // The names of two namespaces are two names.
            guards.push(mutex(&view).try_lock().await.unwrap().unwrap());
            let waiter = mutex(&waiting.namespace(&namespace).await.unwrap());
            waiters.push(spawn(async move { waiter.lock().await.unwrap().release().await.unwrap() }));
            let holder = mutex(&view);
            let is_queued = || async { holder.inspect().await.unwrap().waiters == 1 };
            eventually(SETTLING, "a waiter", is_queued).await;
        }
        for (application, store) in [("held", &store), ("waits", &waiting)] {
            let seen = connections(&server.url(), application).await;
            assert!(seen <= limit, "{application}, {mode:?}: {seen}");
            let is_told = || async {
                let seen = connections(&server.url(), application).await;
                store.stats().connections == usize::try_from(seen).ok()
            };
            eventually(SETTLING, "the store counts its connections", is_told).await;
        }
        for guard in guards {
            guard.release().await.unwrap();
        }
        for waiter in waiters {
            within(SETTLING, "a waiter", waiter.join()).await;
        }
    }
}

/// The one connection that listens breaks, and is made anew for the waiters of all namespaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_the_waiters_of_all_namespaces_are_told_after_the_listener_broke() {
    let server = server();
    let mode = MutexMode::Lease;
    let (store, waiting) =
        (named(&server.url(), mode, "held").await, named(&server.url(), mode, "waits").await);
    for round in 0..3 {
        let (mut guards, mut waiters) = (Vec::new(), Vec::new());
        for namespace in ["left", "right"] {
            let holder = mutex(&store.namespace(namespace).await.unwrap());
            guards.push(holder.lock().await.unwrap());
            let waiter = mutex(&waiting.namespace(namespace).await.unwrap());
            waiters.push(spawn(async move { waiter.lock().await.unwrap() }));
            let is_queued = || async { holder.inspect().await.unwrap().waiters == 1 };
            eventually(SETTLING, "a waiter", is_queued).await;
        }
        let of_listener = "application_name = 'waits' AND query LIKE '%LISTEN%'";
        if round == 1 {
            let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of_listener}");
            row(&server.url(), &end).await;
        }
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {of_listener}");
        let listens = || async { row(&server.url(), &count).await.get::<i64, _>(0) == 1 };
        eventually(SETTLING, "one connection listens", listens).await;
        // Longer than a poll of those who wait.
        sleep(Duration::from_millis(300)).await;
        for (guard, waiter) in guards.into_iter().zip(waiters) {
            guard.release().await.unwrap();
            within(SETTLING, "a waiter", waiter.join()).await.release().await.unwrap();
        }
    }
}

/// A session is in one namespace, also that of a transaction.
#[tokio::test]
async fn m1_a_transaction_locks_in_the_namespace_of_its_view() {
    use sqlx::{Connection, PgConnection};
    for mode in MODES {
        let server = server();
        let store = named(&server.url(), mode, "held").await;
        let view = store.namespace("view").await.unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        view.lock_in(&mut transaction, "m").await.unwrap();
        let again = store.namespace("view").await.unwrap();
        assert!(mutex(&again).try_lock().await.unwrap().is_none(), "{mode:?}");
        let free = mutex(&store).try_lock().await.unwrap();
        assert!(free.is_some(), "{mode:?}: another namespace");
        transaction.commit().await.unwrap();
        let guard = within(SETTLING, "it is free", mutex(&again).lock()).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn c22_a_namespace_of_the_other_mutex_mode_is_refused() {
    let server = server();
    drop(named(&server.url(), MutexMode::Session, "one").await.namespace("taken").await.unwrap());
    let store = named(&server.url(), MutexMode::Lease, "other").await;
    let error = store.namespace("taken").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("taken"), "{error}");
    store.ping().await.unwrap();
}
