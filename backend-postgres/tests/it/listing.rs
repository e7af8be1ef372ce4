//! Listings of names: the bounds of their statements, and what is no state.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::deployment::{grants, make_schema};
use crate::common::*;
use sqlx::{Connection, PgConnection, Row};
use stanchion_core::{ErrorKind, Kind, ListOptions, Listed, MutexMode, SemaphoreOptions, Store, StoreExt};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

const TTL: Duration = Duration::from_secs(10);

async fn names(store: &dyn Store, options: ListOptions) -> BTreeSet<String> {
    let (mut names, mut pages) = (BTreeSet::new(), store.pages(options));
    while let Some(page) = pages.next().await.unwrap() {
        assert!(page.entries.len() <= 1_000, "a page is bounded: {}", page.entries.len());
        names.extend(page.entries.into_iter().map(|listed| listed.name.to_string()));
    }
    names
}

async fn figures(store: &dyn Store, kind: Kind, name: &str) -> Option<Listed> {
    store.list(ListOptions::new().kind(kind).prefix(name)).await.unwrap().entries.into_iter().next()
}

/// A server that counts the time of functions, and a store on it.
async fn tracked() -> (PostgresServer, Arc<dyn Store>) {
    let options = PostgresOptions::default().setting("track_functions", "all");
    let server = PostgresServer::start(options).unwrap();
    let store = store(&server.url(), MutexMode::Lease, TTL).await;
    (server, store)
}

/// The server counts the time of functions: on average, since that of each depends on the machine.
#[tokio::test]
async fn c27_a_hundred_thousand_names_are_listed_in_bounded_statements() {
    let (server, store) = tracked().await;
    // As many mutexes are free: their rows keep fencing tokens, and they are not listed.
    let fill = "WITH x AS (
            INSERT INTO stanchion.objects (namespace, kind, name, lim, token, used, next, epoch, expires)
            SELECT 'by-lease', 'm', 'name/' || n, 1, n, n % 2, 9007199254740992, 1, 9007199254740992
            FROM generate_series(1, 200000) n RETURNING id, used
        )
        INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token)
        SELECT x.id, gen_random_uuid(), 1, 9007199254740991, 1, 1 FROM x WHERE x.used = 1";
    server.sql(fill).unwrap();
    let page = store.list(ListOptions::new()).await.unwrap();
    assert!(!page.entries.is_empty(), "the first page does not wait for the rest");
    server.sql("ANALYZE").unwrap();
    let listed = names(store.as_ref(), ListOptions::new().page(1_000)).await;
    assert_eq!(listed.len(), 100_000);
    assert!(listed.contains("name/1") && !listed.contains("name/2"));
    assert_eq!(names(store.as_ref(), ListOptions::new().prefix("name/1234")).await.len(), 55);
    store.close().await.unwrap();
    drop(store);
    let (calls, each) = counted(&server.url(), "list_permits", 2_000).await;
    println!("{calls} statements of {each:.2} ms on average");
    assert!(each < 10.0, "{each} ms for each of {calls} statements");
}

/// The time of a statement is that of its function, as above.
#[tokio::test]
async fn c23_c27_a_hundred_thousand_holds_are_told_in_bounded_statements() {
    let (server, store) = tracked().await;
    // As many end together as one request renews.
    let fill = "WITH x AS (
            INSERT INTO stanchion.objects (namespace, kind, name, lim, token, used, next, epoch, expires)
            SELECT 'by-lease', 's', name, 300000, n, n, 9007199254740000, 1, 9007199254740992
            FROM (VALUES ('many', 100000), ('other', 100000)) y (name, n) RETURNING id, used
        )
        INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token, label)
        SELECT x.id, gen_random_uuid(), 1, 9007199254740000 + n / 500, n, n, 'label ' || n
        FROM x CROSS JOIN LATERAL generate_series(1, x.used) n";
    server.sql(fill).unwrap();
    let semaphore = store.semaphore("many", SemaphoreOptions::new(1)).unwrap();
    assert_eq!(semaphore.inspect().await.unwrap().holders.len(), 100_000);
    server.sql("ANALYZE").unwrap();
    let holders = semaphore.inspect().await.unwrap().holders;
    let tokens: BTreeSet<_> = holders.iter().filter_map(|holder| holder.token).collect();
    assert_eq!((holders.len(), tokens.len()), (100_000, 100_000));
    assert!(holders.iter().map(|holder| holder.token).is_sorted(), "oldest grant first");
    assert_eq!(semaphore.available().await.unwrap(), 200_000);
    store.close().await.unwrap();
    drop((semaphore, store));
    let (calls, each) = counted(&server.url(), "inspect_part", 90).await;
    println!("{calls} statements of {each:.2} ms on average");
    assert!(calls < 150 && each < 10.0, "{each} ms for each of {calls} statements");
}

/// Returns the number of calls of a function and their time in ms on average, once there were so
/// many: a session tells its counts when it ends.
async fn counted(url: &str, function: &str, least: i64) -> (i64, f64) {
    let counts = format!(
        "SELECT * FROM (
            SELECT calls, total_time FROM pg_stat_user_functions WHERE funcname = '{function}'
        ) x UNION ALL SELECT 0, 0 LIMIT 1"
    );
    loop {
        let found = row(url, &counts).await;
        let (calls, time) = (found.get::<i64, _>(0), found.get::<f64, _>(1));
        if calls >= least {
            return (calls, time / calls as f64);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn c27_of_a_name_with_many_holds_the_weight_is_told_alone() {
    let server = server();
    let store = store(&server.url(), MutexMode::Lease, TTL).await;
    let semaphore = store.semaphore("many", SemaphoreOptions::new(5_000)).unwrap();
    let mut permits = Vec::new();
    for _ in 0..60 {
        permits.push(semaphore.acquire_many(3).await.unwrap());
        let listed = figures(store.as_ref(), Kind::Semaphore, "many").await.unwrap();
        let held = permits.len() as u64;
        assert_eq!(listed.holders, Some(held).filter(|held| *held <= 50));
        assert_eq!((listed.weight, listed.limit), (Some(3 * held), Some(5_000)));
    }
}

/// A row that could not be removed yet is no hold.
#[tokio::test]
async fn c23_a_mutex_is_listed_while_a_session_has_its_lock() {
    let server = server();
    let store = store(&server.url(), MutexMode::Session, TTL).await;
    let guard = store.mutex("held", Default::default()).unwrap().lock().await.unwrap();
    while figures(store.as_ref(), Kind::Mutex, "held").await.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = "INSERT INTO stanchion.session_grants (namespace, name, pid, started, ticket, token, granted)
        SELECT namespace, 'left', pid, started, ticket, token, granted FROM stanchion.session_grants";
    server.sql(left).unwrap();
    let listed = names(store.as_ref(), ListOptions::new()).await;
    assert_eq!(listed.into_iter().collect::<Vec<_>>(), ["held"]);
    guard.release().await.unwrap();
    assert!(names(store.as_ref(), ListOptions::new()).await.is_empty());
}

/// The locks of the server are read once, however many names are listed beside them.
#[tokio::test]
async fn c27_names_are_listed_beside_the_locks_of_many_sessions() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let store = store(&server.url(), MutexMode::Session, TTL).await;
    let guard = store.mutex("held", Default::default()).unwrap().lock().await.unwrap();
    let mut raw = PgConnection::connect(&server.url()).await.unwrap();
    let names = "INSERT INTO stanchion.session_grants (namespace, name, pid, started, ticket, token, granted)
        SELECT g.namespace, g.name || i, g.pid, g.started, g.ticket, g.token, g.granted
        FROM stanchion.session_grants g, generate_series(1, 100) i";
    while sqlx::raw_sql(names).execute(&mut raw).await.unwrap().rows_affected() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let locks = "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 4000) i";
    sqlx::raw_sql(locks).execute(&mut raw).await.unwrap();
    let read = "SELECT count(*) FROM stanchion.session_locks()";
    let list = "SELECT count(*) FROM stanchion.list_permits('by-session', 0, 'm', '', '', '~', 1000)";
    let mut times = [Duration::ZERO; 2];
    for _ in 0..20 {
        for (statement, time) in [read, list].into_iter().zip(&mut times) {
            let began = Instant::now();
            let count: i64 = sqlx::query_scalar(statement).fetch_one(&mut raw).await.unwrap();
            *time += began.elapsed();
            assert!(count >= 101, "{statement}: {count}");
        }
    }
    let [reading, listing] = times.map(|time| time / 20);
    println!("100 names beside 4,000 locks: {listing:?}; the locks alone: {reading:?}");
    assert!(listing < reading * 4, "{listing:?}, and {reading:?} for the locks alone");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn c21_a_role_that_may_not_look_is_refused() {
    let server = server();
    make_schema(&server);
    let mut rights = grants("me");
    let url = server.role("me", "pw", &rights.join("\n")).unwrap();
    let connect = async |url: &str| builder(url, MutexMode::Lease).migrate(false).connect().await.unwrap();
    connect(&url).await.list(ListOptions::new()).await.unwrap();
    rights.retain(|right| !right.contains(".limiters"));
    let rights: Vec<_> = rights.iter().map(|right| right.replace(" me;", " blind;")).collect();
    let url = server.role("blind", "pw", &rights.join("\n")).unwrap();
    let store = connect(&url).await;
    store.list(ListOptions::new().kind(Kind::Mutex)).await.unwrap();
    for options in [ListOptions::new(), ListOptions::new().kind(Kind::Limiter)] {
        let error = store.list(options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
        assert!(error.to_string().contains("limiters"), "{error}");
    }
}
