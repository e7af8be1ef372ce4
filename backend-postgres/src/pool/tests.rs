//! Pools to real servers.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time and own their runtimes")]

mod beside;
mod gone;
mod late;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Arguments, Row};
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{eventually as comes_true, within};
use stanchion_core::ErrorKind;
use stanchion_core::connect::MAX_UNCHECKED_IDLE;
use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};
use tokio::time::{sleep, timeout};

use super::*;
use crate::connector::Origin;
use crate::schema::Schema;
use crate::session_settings::{Route, SessionSettings};

const TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of a pool whose requests must not end by it, even on a machine that stands still for a
/// while.
const LONG_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a pool through a pooler. Some requests of the case end by it, the others must not.
const POOLED_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum time until a client works again after its server is back (C18).
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(1).saturating_add(EPSILON);
const PID: &str = "SELECT pg_backend_pid()::bigint";

fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).unwrap()
}

fn connector(url: &str, route: Route, request_timeout: Duration) -> Connector {
    let connector = Connector::from(url.parse::<PgConnectOptions>().unwrap());
    connector.with(SessionSettings { route, ..SessionSettings::new(request_timeout) })
}

/// A pool over one that was made on another runtime than the engine's.
fn borrowing(users: &PgPool, engine: Option<Id>) -> Pool {
    let connector = Connector::new(Origin::UserPool(users.clone()));
    let connector = connector.with(SessionSettings::new(LONG_TIMEOUT));
    Pool::new(connector, 2, LONG_TIMEOUT).shared_on(engine).borrowing(users)
}

fn pool(url: &str) -> Pool {
    pool_within(url, LONG_TIMEOUT)
}

fn pool_within(url: &str, request_timeout: Duration) -> Pool {
    Pool::new(connector(url, Route::Direct, request_timeout), 2, request_timeout)
}

fn statement(text: &'static str) -> Statement {
    Schema::new("stanchion").unwrap().statement(text)
}

async fn run(pool: &Pool, text: &'static str) -> Result<Vec<PgRow>> {
    pool.rows(&statement(text), PgArguments::default()).await
}

async fn number(pool: &Pool, text: &'static str) -> Result<i64> {
    Ok(run(pool, text).await?[0].get(0))
}

async fn kind(pool: &Pool, text: &'static str) -> ErrorKind {
    run(pool, text).await.unwrap_err().kind()
}

/// Repeats a request until it is answered, and returns the answer.
async fn eventually(pool: &Pool, time: Duration) -> i64 {
    let asking = async {
        loop {
            match number(pool, PID).await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    within(time, "it is back", asking).await
}

#[tokio::test]
async fn c3_what_the_server_refuses_was_not_executed_and_keeps_the_connection() {
    let server = server();
    let pool = pool(&server.url());
    let pid = number(&pool, PID).await.unwrap();
    assert_eq!(kind(&pool, "SELECT 1/0").await, ErrorKind::Unavailable);
    assert_eq!(kind(&pool, "SELECT stanchion.nothing()").await, ErrorKind::ConfigMismatch);
    let missing = run(&pool, "SELECT 1 FROM stanchion.nothing").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::ConfigMismatch);
    assert!(missing.to_string().contains("stanchion::postgres::schema_sql()"), "{missing}");
    assert_eq!(number(&pool, PID).await.unwrap(), pid);
}

#[tokio::test]
async fn c3_a_session_that_is_ended_leaves_it_unknown() {
    let server = server();
    let pool = pool(&server.url());
    assert_eq!(
        kind(&pool, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(1)").await,
        ErrorKind::Unknown
    );
    number(&pool, PID).await.unwrap();
}

#[tokio::test]
async fn c3_a_server_that_takes_no_writes_is_connected_to_anew() {
    let server = server();
    let pool = pool(&server.url());
    let pid = number(&pool, PID).await.unwrap();
    run(&pool, "SELECT set_config('default_transaction_read_only', 'on', false)").await.unwrap();
    assert_eq!(kind(&pool, "CREATE TABLE public.t()").await, ErrorKind::Unavailable);
    assert_ne!(number(&pool, PID).await.unwrap(), pid);
    run(&pool, "CREATE TABLE public.t()").await.unwrap();
}

#[tokio::test]
async fn c17_the_server_itself_ends_what_takes_too_long() {
    let server = server();
    // The server ends a statement after nine tenths of this.
    let request_timeout = Duration::from_secs(4);
    let pool = pool_within(&server.url(), request_timeout);
    let pid = number(&pool, PID).await.unwrap();
    let ended = within(request_timeout + EPSILON, "it ends", kind(&pool, "SELECT pg_sleep(60)")).await;
    assert_eq!(ended, ErrorKind::Unavailable);
    // Beside the one over which the server was asked meanwhile.
    let both = tokio::join!(number(&pool, PID), number(&pool, PID));
    assert!([both.0.unwrap(), both.1.unwrap()].contains(&pid));
}

#[tokio::test]
async fn c17_a_server_that_says_nothing_leaves_it_unknown_within_the_limit() {
    let server = server();
    let pool = pool_within(&server.url(), TIMEOUT);
    let connected = now();
    eventually(&pool, RECOVERY_TIMEOUT).await;
    server.pause().unwrap();
    let first = within(TIMEOUT + EPSILON, "it ends", kind(&pool, PID)).await;
    // A connection that was idle for longer is pinged first: nothing was sent if the ping is not
    // answered.
    let is_sent = first == ErrorKind::Unknown;
    assert!(is_sent || (first == ErrorKind::Unavailable && connected.elapsed() >= MAX_UNCHECKED_IDLE));
    let second = within(TIMEOUT + EPSILON, "it ends", kind(&pool, PID)).await;
    assert_eq!(second, ErrorKind::Unavailable);
    server.resume().unwrap();
    eventually(&pool, RECOVERY_TIMEOUT).await;
}

#[tokio::test]
async fn c17_a_full_server_refuses_within_the_limit_and_recovers() {
    let options = PostgresOptions::default()
        .setting("max_connections", "5")
        .setting("superuser_reserved_connections", "0");
    let server = PostgresServer::start(options).unwrap();
    let hogs = PgPoolOptions::new().max_connections(5).connect(&server.url()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(hogs.acquire().await.unwrap());
    }
    let pool = pool_within(&server.url(), LONG_TIMEOUT);
    let error = run(&pool, PID).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("no more connections"),
        "the server refused it, not the timeout: {error}"
    );
    for held in held {
        held.close().await.unwrap();
    }
    eventually(&pool, RECOVERY_TIMEOUT).await;
}

#[tokio::test]
async fn c18_a_restarted_server_is_connected_to_at_once() {
    let server = server();
    let pool = pool(&server.url());
    number(&pool, PID).await.unwrap();
    server.kill().unwrap();
    assert!(run(&pool, PID).await.unwrap_err().is_retryable());
    assert_eq!(kind(&pool, PID).await, ErrorKind::Unavailable);
    server.restart().unwrap();
    eventually(&pool, RECOVERY_TIMEOUT).await;
}

#[tokio::test]
async fn c18_connections_that_ended_while_idle_are_replaced_without_an_error() {
    let server = server();
    let pool = Arc::new(pool(&server.url()));
    let both = tokio::join!(run(&pool, "SELECT pg_sleep(0.1)"), run(&pool, "SELECT pg_sleep(0.1)"));
    assert!(both.0.is_ok() && both.1.is_ok());
    sleep(MAX_UNCHECKED_IDLE + Duration::from_millis(50)).await;
    let end =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'stanchion'";
    assert_eq!(server.sql(end).unwrap().trim(), "2");
    let both = tokio::join!(number(&pool, PID), number(&pool, PID));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
}

#[tokio::test]
async fn c4_a_dropped_request_leaves_the_others_answers_in_order() {
    let server = server();
    let pool = pool(&server.url());
    let echo = statement("SELECT $1::bigint FROM pg_sleep(0.001)");
    let ask = |value: i64| {
        let mut arguments = PgArguments::default();
        arguments.add(value).unwrap();
        pool.rows(&echo, arguments)
    };
    for round in 0..200 {
        let dropped = timeout(Duration::from_micros(u64::try_from(round).unwrap() * 20), ask(-1)).await;
        drop(dropped);
        assert_eq!(ask(round).await.unwrap()[0].get::<i64, _>(0), round);
    }
}

#[test]
fn c12_each_runtime_has_connections_of_its_own() {
    let server = server();
    let pool = pool(&server.url());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let pid = first.block_on(number(&pool, PID)).unwrap();
    let other = second.block_on(number(&pool, PID)).unwrap();
    assert_ne!(pid, other);
    assert_eq!(first.block_on(number(&pool, PID)).unwrap(), pid);
    drop(first);
    assert_eq!(second.block_on(number(&pool, PID)).unwrap(), other);
    for _ in 0..10 {
        runtime().block_on(number(&pool, PID)).unwrap();
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion'";
    let are_few = || async { server.sql(count).unwrap().trim().parse::<usize>().unwrap() <= 2 + 1 };
    // The server lists a closed connection until its process has ended.
    let closed = "the connections of ended runtimes are closed at the next request";
    runtime().block_on(comes_true(RECOVERY_TIMEOUT, closed, are_few));
}

#[test]
fn c15_runtimes_that_take_turns_keep_their_connections() {
    let server = server();
    let pool = pool(&server.url());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtimes: Vec<_> = (0..8).map(|_| runtime()).collect();
    let pids = || -> Vec<i64> {
        runtimes.iter().map(|runtime| runtime.block_on(number(&pool, PID)).unwrap()).collect()
    };
    let first = pids();
    assert_eq!(pids(), first);
}

#[tokio::test]
async fn c13_a_request_with_little_time_costs_the_others_no_connection() {
    let server = server();
    let pool = pool_within(&server.url(), LONG_TIMEOUT);
    // Two connections: one of them executes a slow statement.
    let (slow, pid) = tokio::join!(run(&pool, "SELECT pg_sleep(0.1)"), number(&pool, PID));
    slow.unwrap();
    // Longer than a machine stands still.
    let slow = statement("SELECT pg_sleep(3)");
    let cut = pool.rows_by(&slow, PgArguments::default(), now() + Duration::from_millis(50)).await;
    assert_eq!(cut.unwrap_err().kind(), ErrorKind::Unknown);
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'";
    let is_over = || async { server.sql(active).unwrap().trim() == "0" };
    comes_true(LONG_TIMEOUT, "the end of the statement", is_over).await;
    let (one, other) = tokio::join!(number(&pool, PID), number(&pool, PID));
    let pids = [one.unwrap(), other.unwrap()];
    assert!(pids.contains(&pid.unwrap()), "{pids:?}");
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion'";
    assert_eq!(server.sql(count).unwrap().trim(), "2");
}

#[tokio::test]
async fn c15_requests_share_few_connections_with_their_settings() {
    let server = server();
    let pool = Arc::new(pool(&server.url()));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { number(&pool, PID).await.unwrap() })
        })
        .collect();
    let mut pids = std::collections::HashSet::new();
    for task in tasks {
        pids.insert(task.await.unwrap());
    }
    assert!(pids.len() <= 2, "{pids:?}");
    let rows = run(&pool, "SELECT current_setting('lock_timeout'), current_setting('transaction_isolation')");
    let row = &rows.await.unwrap()[0];
    let set: (String, String) = (row.get(0), row.get(1));
    assert_eq!(set, ("100ms".to_owned(), "read committed".to_owned()));
}

#[tokio::test]
async fn statements_are_not_left_behind_where_none_are_remembered() {
    let server = server();
    let pool = pool(&format!("{}?statement-cache-capacity=0", server.url()));
    for _ in 0..5 {
        number(&pool, PID).await.unwrap();
    }
    let left = number(&pool, "SELECT count(*) FROM pg_prepared_statements").await.unwrap();
    assert!(left <= 1, "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_through_a_transaction_pooler() {
    let server = server();
    let pooler = PgBouncer::start(&server, 2, &[]).unwrap();
    // The server must not end a transaction because the machine stands still between two of its
    // messages.
    let begin = Schema::new("stanchion").unwrap().filled(
        include_str!("../sql/begin_durable.sql"),
        &[("{timeout}", "3600ms"), ("{lock}", "100ms"), ("{idle}", "10s")],
    );
    let pool =
        |time| Pool::new(connector(&pooler.url(), Route::Pooled, time), 2, time).through_pooler(&begin);
    let pools = [pool(POOLED_TIMEOUT), pool(POOLED_TIMEOUT), pool(POOLED_TIMEOUT)];
    run(&pools[0], "CREATE TABLE public.t (x bigint)").await.unwrap();
    // All of them share two sessions of the server, which takes its time.
    let patient = Arc::new([(); 4].map(|()| pool(LONG_TIMEOUT)));
    let tasks: Vec<_> = (0..100)
        .map(|index| {
            let patient = Arc::clone(&patient);
            tokio::spawn(
                async move { run(&patient[index % 4], "INSERT INTO public.t VALUES (1)").await.unwrap() },
            )
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&pools[1], "SELECT count(*) FROM public.t").await.unwrap(), 100);
    assert_eq!(kind(&pools[0], "SELECT 1/0").await, ErrorKind::Unavailable);
    assert_eq!(kind(&pools[0], "SELECT pg_sleep(10)").await, ErrorKind::Unavailable);
    let ended = "INSERT INTO public.t SELECT 1 FROM pg_terminate_backend(pg_backend_pid()), pg_sleep(1)";
    assert_eq!(kind(&pools[0], ended).await, ErrorKind::Unavailable);
    let row = run(&pools[0], "SELECT current_setting('lock_timeout'), count(*) FROM public.t").await.unwrap();
    assert_eq!((row[0].get::<String, _>(0), row[0].get::<i64, _>(1)), ("100ms".to_owned(), 100));
    server.pause().unwrap();
    assert_eq!(kind(&pools[2], "INSERT INTO public.t VALUES (1)").await, ErrorKind::Unavailable);
    server.resume().unwrap();
    assert_eq!(eventually_count(&pools[2]).await, 100);
}

async fn eventually_count(pool: &Pool) -> i64 {
    eventually(pool, Duration::from_secs(2)).await;
    number(pool, "SELECT count(*) FROM public.t").await.unwrap()
}

#[test]
fn c4_a_pools_connection_in_doubt_is_closed_also_where_there_is_no_runtime() {
    let server = server();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let users_pool = runtime.block_on(async {
        PgPoolOptions::new().min_connections(1).max_connections(2).connect(&server.url()).await.unwrap()
    });
    let pool = borrowing(&users_pool, None);
    let slow = statement("SELECT pg_sleep(5)");
    let mut request = Box::pin(pool.rows(&slow, PgArguments::default()));
    runtime.block_on(async { assert!(timeout(Duration::from_millis(100), &mut request).await.is_err()) });
    drop(request);
    runtime.block_on(async {
        for _ in 0..20 {
            number(&pool, PID).await.unwrap();
        }
        assert!(users_pool.size() <= 2);
        users_pool.close().await;
        // Over a connection of its own.
        number(&pool, PID).await.unwrap();
    });
}

#[test]
fn c12_a_pool_gets_no_connection_that_the_engine_drives() {
    let server = server();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (users, engine) = (runtime(), runtime());
    let users_pool = users
        .block_on(async { PgPoolOptions::new().max_connections(2).connect(&server.url()).await.unwrap() });
    let pool = borrowing(&users_pool, Some(engine.handle().id()));
    let pooled = users.block_on(number(&pool, PID)).unwrap();
    let taken =
        [users.block_on(users_pool.acquire()).unwrap(), users.block_on(users_pool.acquire()).unwrap()];
    let own = engine.block_on(number(&pool, PID)).unwrap();
    assert_eq!(engine.block_on(number(&pool, PID)).unwrap(), own);
    assert_ne!(own, pooled);
    users.block_on(async { drop(taken) });
    drop(engine);
    assert_ne!(users.block_on(number(&pool, PID)).unwrap(), own);
    assert_eq!(users_pool.size(), 2);
}
