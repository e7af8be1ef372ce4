//! Mutexes in users' transactions, in both modes.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use rand::RngExt;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_conformance::support::{definite, eventually, spawn, stays_pending, within};
use stanchion_core::{ErrorKind, Mutex, MutexMode, MutexOptions, Store};
use stanchion_postgres::{LockInOptions, PostgresBuilder, PostgresFence, PostgresStore, schema_sql};
use stanchion_testbed::faults::Proxy;
use stanchion_testbed::servers::PostgresServer;

const SECOND: Duration = Duration::from_secs(1);

async fn connect(server: &PostgresServer) -> PgConnection {
    PgConnection::connect(&server.url()).await.unwrap()
}

async fn store_of(server: &PostgresServer, mode: MutexMode) -> PostgresStore {
    builder(&server.url(), mode).connect().await.unwrap()
}

fn mutex(store: &PostgresStore, name: &str) -> Arc<dyn Mutex> {
    store.mutex(name, MutexOptions::default()).unwrap()
}

async fn is_free(store: &PostgresStore, name: &str) -> bool {
    let mutex = mutex(store, name);
    let taken = definite(|| mutex.try_lock()).await.unwrap();
    let is_free = taken.is_some();
    if let Some(guard) = taken {
        guard.release().await.unwrap();
    }
    is_free
}

#[tokio::test]
async fn m1_a_transaction_excludes_the_others() {
    let server = server();
    for mode in MODES {
        let (a, b) = (store_of(&server, mode).await, store_of(&server, mode).await);
        let (mut connection, mut other) = (connect(&server).await, connect(&server).await);
        let mut transaction = connection.begin().await.unwrap();
        let lock = a.lock_in(&mut transaction, "x").await.unwrap();
        for store in [&a, &b] {
            assert!(!is_free(store, "x").await, "{mode:?}");
            let mut second = other.begin().await.unwrap();
            assert!(store.try_lock_in(&mut second, "x").await.unwrap().is_none(), "{mode:?}");
        }
        let again = a.lock_in(&mut transaction, "x").await.unwrap();
        assert!(again.fencing_token() > lock.fencing_token(), "{mode:?}");
        lock.check(&mut transaction).await.unwrap();
        transaction.rollback().await.unwrap();
        let guard = within(SECOND * 3, "the next", mutex(&b, "x").lock()).await.unwrap();
        assert!(guard.fencing_token() > again.fencing_token(), "{mode:?}");
        let mut transaction = connection.begin().await.unwrap();
        assert!(a.try_lock_in(&mut transaction, "x").await.unwrap().is_none(), "{mode:?}");
        let free = a.try_lock_in(&mut transaction, "y").await.unwrap().unwrap();
        free.check(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        guard.release().await.unwrap();
        for name in ["x", "y"] {
            assert!(is_free(&b, name).await, "{mode:?} {name}");
        }
    }
}

/// A waiter of either sort is served after the end of a transaction, and a transaction after a
/// guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_transactions_and_guards_wait_for_each_other() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        store.lock_in(&mut transaction, "x").await.unwrap();
        let waiting = mutex(&store, "x");
        let mut guard = Box::pin(spawn(async move { waiting.lock().await }).join());
        stays_pending(SECOND / 5, "guard", &mut guard).await;
        transaction.commit().await.unwrap();
        let guard = within(SECOND * 5, "a guard", guard).await.unwrap();
        let (own, mut user) = (store.clone(), connect(&server).await);
        let mut locked = Box::pin(
            spawn(async move {
                let mut transaction = user.begin().await.unwrap();
                let lock = own.lock_in(&mut transaction, "x").await;
                transaction.commit().await.unwrap();
                lock
            })
            .join(),
        );
        stays_pending(SECOND / 5, "locked", &mut locked).await;
        let token = guard.fencing_token();
        guard.release().await.unwrap();
        let lock = within(SECOND * 5, "a transaction", locked).await.unwrap();
        assert!(lock.fencing_token() > token, "{mode:?}");
    }
}

#[tokio::test]
async fn m1_a_transaction_that_may_not_see_the_last_change_is_refused() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            let begin = AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
            let mut transaction = connection.begin_with(begin).await.unwrap();
            let error = store.lock_in(&mut transaction, "x").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{mode:?} {level}");
            let options = LockInOptions::default().allow_old_snapshot();
            let lock = store.lock_in_with(&mut transaction, "x", options).await.unwrap();
            lock.check(&mut transaction).await.unwrap();
            transaction.rollback().await.unwrap();
        }
    }
}

#[tokio::test]
async fn m1_a_transaction_of_another_database_is_refused() {
    let server = server();
    sqlx::raw_sql("CREATE DATABASE other").execute(&mut connect(&server).await).await.unwrap();
    let options: PgConnectOptions = server.url().parse().unwrap();
    let mut connection = PgConnection::connect_with(&options.database("other")).await.unwrap();
    let schema = schema_sql("stanchion", None, 0).unwrap();
    sqlx::raw_sql(AssertSqlSafe(schema)).execute(&mut connection).await.unwrap();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut transaction = connection.begin().await.unwrap();
        let error = store.lock_in(&mut transaction, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{mode:?} {error}");
        eventually(SECOND * 5, "it is free", async || is_free(&store, "x").await).await;
    }
}

/// The lock would be free again with the end of its own statement. The connection inside of a
/// transaction is as good as that.
#[tokio::test]
async fn m1_a_connection_outside_of_a_transaction_is_refused() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        let error = store.lock_in(&mut connection, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{mode:?} {error}");
        let mut transaction = connection.begin().await.unwrap();
        let inside: &mut PgConnection = &mut transaction;
        let lock = store.lock_in(inside, "x").await.unwrap();
        lock.check(inside).await.unwrap();
        assert!(store.mutex("x", MutexOptions::default()).unwrap().try_lock().await.unwrap().is_none());
    }
}

/// Also those of the turn, which is taken by another call.
#[tokio::test]
async fn c21_the_errors_of_a_transaction_name_the_call() {
    let server = server();
    for mode in MODES {
        let (store, holder) = (store_of(&server, mode).await, store_of(&server, mode).await);
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL lock_timeout = '50ms'").execute(&mut *transaction).await.unwrap();
        let held = holder.mutex("x", MutexOptions::default()).unwrap().lock().await.unwrap();
        let error = store.lock_in(&mut transaction, "x").await.unwrap_err();
        assert_eq!((error.operation(), error.name()), (Some("lock_in"), Some("x")), "{mode:?} {error}");
        drop(held);
        store.close().await.unwrap();
        let error = store.lock_in(&mut transaction, "x").await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Closed, Some("lock_in")), "{mode:?}");
        let error = store.try_lock_in(&mut transaction, "x").await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Closed, Some("try_lock_in")), "{mode:?}");
    }
}

#[tokio::test]
async fn m1_a_rollback_to_an_older_savepoint_is_told() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        let mut inner = transaction.begin().await.unwrap();
        let lock = store.lock_in(&mut inner, "x").await.unwrap();
        lock.check(&mut inner).await.unwrap();
        inner.rollback().await.unwrap();
        assert_eq!(lock.check(&mut transaction).await.unwrap_err().kind(), ErrorKind::Lost, "{mode:?}");
        assert!(is_free(&store, "x").await, "{mode:?}");
    }
}

/// The transaction's own time limit bounds the wait, and a limit that a call sets for a while is
/// set back.
#[tokio::test]
async fn c4_a_lock_timeout_ends_the_wait() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let (mut holding, mut connection) = (connect(&server).await, connect(&server).await);
        let mut holder = holding.begin().await.unwrap();
        store.lock_in(&mut holder, "x").await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL lock_timeout = '300ms'").execute(&mut *transaction).await.unwrap();
        let error = within(SECOND * 10, "its end", store.lock_in(&mut transaction, "x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{mode:?} {error}");
        transaction.rollback().await.unwrap();
        holder.rollback().await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL lock_timeout = '7s'").execute(&mut *transaction).await.unwrap();
        within(SECOND * 5, "a grant", store.lock_in(&mut transaction, "x")).await.unwrap();
        let kept: String =
            sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *transaction).await.unwrap();
        assert_eq!(kept, "7s", "{mode:?}");
    }
}

/// A holds the mutex and waits for a row that B has, which waits for the mutex: one of the two is
/// ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_circle_of_row_locks_and_mutexes_is_found() {
    let server = server();
    sqlx::raw_sql("CREATE TABLE rows (id int PRIMARY KEY); INSERT INTO rows VALUES (1)")
        .execute(&mut connect(&server).await)
        .await
        .unwrap();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let (mut first, mut second) = (connect(&server).await, connect(&server).await);
        let mut a = first.begin().await.unwrap();
        store.lock_in(&mut a, "x").await.unwrap();
        let own = store.clone();
        let mut b = Box::pin(
            spawn(async move {
                let mut b = second.begin().await.unwrap();
                sqlx::raw_sql("SELECT FROM rows FOR UPDATE").execute(&mut *b).await.unwrap();
                own.lock_in(&mut b, "x").await.map(drop).map_err(|error| error.kind())
            })
            .join(),
        );
        stays_pending(SECOND / 5, "b", &mut b).await;
        let waited = within(SECOND * 20, "the row", async {
            sqlx::raw_sql("SELECT FROM rows FOR UPDATE").execute(&mut *a).await.is_ok()
        })
        .await;
        drop(a);
        first.close().await.unwrap();
        let locked = within(SECOND * 20, "the mutex", b).await;
        assert!(waited != locked.is_ok(), "{mode:?}: {waited}, {locked:?}");
    }
}

/// A transaction that has the mutex waits for a row of one that is queued behind another: the
/// server sees that circle, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_circle_through_a_queued_transaction_is_found() {
    let server = server();
    sqlx::raw_sql("CREATE TABLE rows (id int PRIMARY KEY); INSERT INTO rows VALUES (1)")
        .execute(&mut connect(&server).await)
        .await
        .unwrap();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut first = connect(&server).await;
        let mut a = first.begin().await.unwrap();
        store.lock_in(&mut a, "x").await.unwrap();
        let call = |has_row: bool| {
            let (own, server) = (store.clone(), server.url());
            async move {
                let mut connection = PgConnection::connect(&server).await.unwrap();
                let mut transaction = connection.begin().await.unwrap();
                if has_row {
                    sqlx::raw_sql("SELECT FROM rows FOR UPDATE").execute(&mut *transaction).await.unwrap();
                }
                own.lock_in(&mut transaction, "x").await.map(drop).map_err(|error| error.kind())
            }
        };
        let mut second = Box::pin(spawn(call(false)).join());
        stays_pending(SECOND / 2, "second", &mut second).await;
        let mut third = Box::pin(spawn(call(true)).join());
        stays_pending(SECOND / 2, "third", &mut third).await;
        let waited = within(SECOND * 20, "the row", async {
            sqlx::raw_sql("SELECT FROM rows FOR UPDATE").execute(&mut *a).await.is_ok()
        })
        .await;
        drop(a);
        first.close().await.unwrap();
        // The second waits for the same mutex: the server may end it before it finds one of the
        // circle.
        let second = within(SECOND * 20, "the second", second).await;
        assert!(matches!(second, Ok(()) | Err(ErrorKind::Unavailable)), "{mode:?}: {second:?}");
        let locked = within(SECOND * 20, "the third", third).await;
        assert!(waited != locked.is_ok(), "{mode:?}: {waited}, {locked:?}");
    }
}

/// All connections of the pool may have transactions that wait.
#[tokio::test]
async fn c17_a_pool_of_one_connection_is_enough() {
    let server = server();
    for mode in MODES {
        let pool = PgPoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap();
        let namespace = format!("pool-{mode:?}");
        let builder = PostgresBuilder::from_pool(pool.clone()).mutex(mode).namespace(namespace);
        let store = builder.request_timeout(REQUEST).connect().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let lock =
            within(SECOND * 5, &format!("{mode:?}"), store.lock_in(&mut transaction, "x")).await.unwrap();
        lock.check(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// A session that is idle in its transaction can be ended by the server's settings; one that waits
/// is not idle for long.
#[tokio::test]
async fn c17_a_call_that_waits_is_not_idle_in_its_transaction() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let held = mutex(&store, "x");
        let guard = definite(|| held.lock_for(SECOND)).await.unwrap().unwrap();
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        let limit = "SET LOCAL idle_in_transaction_session_timeout = '2s'";
        sqlx::raw_sql(limit).execute(&mut *transaction).await.unwrap();
        let mut call = Box::pin(store.lock_in(&mut transaction, "x"));
        stays_pending(SECOND * 5, "a guard has it", &mut call).await;
        guard.release().await.unwrap();
        within(SECOND * 5, "a grant", call).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// A token is drawn once the transaction has the mutex: what the one before it drew meanwhile is
/// smaller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_transaction_that_waited_has_the_larger_token() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        store.lock_in(&mut transaction, "x").await.unwrap();
        let (own, mut user) = (store.clone(), connect(&server).await);
        let mut next = Box::pin(
            spawn(async move {
                let mut transaction = user.begin().await.unwrap();
                own.lock_in(&mut transaction, "x").await
            })
            .join(),
        );
        stays_pending(SECOND / 2, "the next", &mut next).await;
        let again = store.lock_in(&mut transaction, "x").await.unwrap();
        transaction.commit().await.unwrap();
        let next = within(SECOND * 5, "the next", next).await.unwrap();
        assert!(next.fencing_token() > again.fencing_token(), "{mode:?}");
    }
}

/// A fence takes token and ticket of a transaction as it takes those of a guard.
#[tokio::test]
async fn m2_a_fence_refuses_an_earlier_transaction() {
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let fence = PostgresFence::new(format!("{mode:?}"));
        let mut connection = connect(&server).await;
        let mut transaction = connection.begin().await.unwrap();
        let earlier = store.lock_in(&mut transaction, "x").await.unwrap();
        transaction.commit().await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let later = store.lock_in(&mut transaction, "x").await.unwrap();
        fence.check(&mut *transaction, &later).await.unwrap();
        transaction.commit().await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let late = fence.check(&mut *transaction, &earlier).await;
        assert!(late.is_err(), "{mode:?}");
    }
}

/// The turn of a call is a hold, which can end before the transaction has the mutex: then the call
/// must not tell that it has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m1_a_turn_that_has_ended_gives_no_transaction_the_mutex() {
    let server = server();
    let (a, b) = (store_of(&server, MutexMode::Lease).await, store_of(&server, MutexMode::Lease).await);
    let mut holding = connect(&server).await;
    let mut holder = holding.begin().await.unwrap();
    a.lock_in(&mut holder, "x").await.unwrap();
    let mut user = connect(&server).await;
    let mut call = Box::pin(
        spawn(async move {
            let mut transaction = user.begin().await.unwrap();
            a.lock_in(&mut transaction, "x").await.map_err(|error| error.kind())
        })
        .join(),
    );
    let operator = mutex(&b, "x");
    let is_turn = async || definite(|| operator.inspect()).await.unwrap().holders.len() == 1;
    eventually(SECOND * 5, "its turn", is_turn).await;
    stays_pending(SECOND / 5, "the transaction before", &mut call).await;
    assert!(definite(|| operator.force_unlock()).await.unwrap());
    assert!(definite(|| operator.try_lock()).await.unwrap().is_none(), "the transaction has it");
    holder.commit().await.unwrap();
    let locked = within(SECOND * 5, "an answer", call).await;
    assert_eq!(locked.unwrap_err(), ErrorKind::Unavailable);
    eventually(SECOND * 5, "the next", async || is_free(&b, "x").await).await;
}

/// A process that is killed in its turn, before its transaction has the mutex, does not hold up the
/// next one for a whole default lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_killed_process_in_its_turn_delays_the_next_by_a_short_lease() {
    let server = server();
    for mode in MODES {
        let proxy = Proxy::to(&server.url()).unwrap();
        let url = proxy.url(&server.url());
        let (killed, next) = (builder(&url, mode).connect().await.unwrap(), store_of(&server, mode).await);
        let (mut holding, mut connection) = (connect(&server).await, connect(&server).await);
        let mut holder = holding.begin().await.unwrap();
        next.lock_in(&mut holder, "x").await.unwrap();
        let mut user = PgConnection::connect(&url).await.unwrap();
        let call = spawn(async move {
            let mut transaction = user.begin().await.unwrap();
            killed.lock_in(&mut transaction, "x").await.map(drop)
        });
        let operator = mutex(&next, "x");
        let is_turn = async || definite(|| operator.inspect()).await.unwrap().holders.len() == 1;
        eventually(SECOND * 5, "its turn", is_turn).await;
        proxy.refuse();
        proxy.reset();
        holder.commit().await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        within(SECOND * 12, "the next", next.lock_in(&mut transaction, "x")).await.unwrap();
        drop(call);
    }
}

/// As long as a transaction has a mutex, its row is not swept, however short the retention.
#[tokio::test]
async fn c25_the_row_of_a_transactions_mutex_is_not_swept() {
    let server = server();
    let short = builder(&server.url(), MutexMode::Lease).retention(SECOND, SECOND);
    let store = short.connect().await.unwrap();
    let mut connection = connect(&server).await;
    let mut transaction = connection.begin().await.unwrap();
    let lock = store.lock_in(&mut transaction, "x").await.unwrap();
    let mut raw = connect(&server).await;
    sqlx::raw_sql("UPDATE stanchion.objects SET expires = 0").execute(&mut raw).await.unwrap();
    let sweep = "SELECT stanchion.sweep_permits('by-lease', 500)";
    sqlx::raw_sql(sweep).execute(&mut raw).await.unwrap();
    assert!(!is_free(&store, "x").await);
    lock.check(&mut transaction).await.unwrap();
    transaction.commit().await.unwrap();
    sqlx::raw_sql(sweep).execute(&mut raw).await.unwrap();
    assert!(is_free(&store, "x").await);
}

async fn cancel(connection: &mut PgConnection, pid: i32) {
    sqlx::query("SELECT pg_cancel_backend($1)").bind(pid).execute(connection).await.unwrap();
}

/// Whatever the moment at which a call is dropped or its statement cancelled, its session keeps no
/// lock, and nobody is held up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_thousand_cancelled_calls_leave_no_lock() {
    const CALLS: usize = 1_000;
    let server = server();
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let held = mutex(&store, "held");
        let guard = definite(|| held.lock_for(SECOND)).await.unwrap().unwrap();
        let (mut connection, mut other) = (connect(&server).await, connect(&server).await);
        let mut granted = 0;
        for call in 0..CALLS {
            // Both at random, so that the cancel meets all parts of the call.
            let delay = Duration::from_micros(rand::rng().random_range(0..6_000));
            let name = ["held", "free"][call % 2];
            let pid: i32 =
                sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
            let mut transaction = connection.begin().await.unwrap();
            let locked = {
                let mut call = std::pin::pin!(store.lock_in(&mut transaction, name));
                let mut locked = None;
                // Not dropped before it is answered: a cancel that is under way would meet a later
                // statement.
                let mut cancelled = std::pin::pin!(async {
                    tokio::time::sleep(delay).await;
                    cancel(&mut other, pid).await;
                });
                loop {
                    tokio::select! {
                        answer = &mut call, if locked.is_none() => locked = Some(answer),
                        () = &mut cancelled => break,
                    }
                }
                if locked.is_none() {
                    // A wait for a turn is no statement, and is not cancelled: the call is dropped.
                    locked = tokio::time::timeout(Duration::from_millis(3), &mut call).await.ok();
                }
                locked
            };
            granted += usize::from(locked.is_some_and(|locked| locked.is_ok()));
            drop(transaction);
            // A call that was dropped may have left a wait at the server. The cancel may meet the
            // rollback: then once more.
            let mut is_over = false;
            while !is_over {
                let mut asked = std::pin::pin!(sqlx::query("ROLLBACK").execute(&mut connection));
                is_over = loop {
                    match tokio::time::timeout(Duration::from_millis(50), &mut asked).await {
                        Ok(answer) => break answer.is_ok(),
                        Err(_) => cancel(&mut other, pid).await,
                    }
                };
            }
            let kept = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
            let kept: i64 = sqlx::query_scalar(kept).fetch_one(&mut connection).await.unwrap();
            assert_eq!(kept, 0, "{mode:?}: after call {call}, {delay:?}");
        }
        assert!((1..CALLS).contains(&granted), "{mode:?}: {granted} of {CALLS} were granted");
        guard.release().await.unwrap();
        for name in ["free", "held"] {
            eventually(SECOND * 5, "others are served", async || is_free(&store, name).await).await;
        }
    }
}

/// The turn is taken by functions in the user's session, whose settings are the user's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_hostile_settings_of_a_database_change_nothing() {
    let server = server();
    deployment::make_hostile(&server);
    for mode in MODES {
        let store = store_of(&server, mode).await;
        let mut connection = connect(&server).await;
        for name in ["free", "free", "locked"] {
            let mut transaction =
                connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
            sqlx::raw_sql("SET LOCAL lock_timeout = '5s'").execute(&mut *transaction).await.unwrap();
            store.lock_in(&mut transaction, name).await.unwrap();
            assert!(!is_free(&store, name).await);
            let waiting = mutex(&store, name);
            let waiting = spawn(async move { waiting.lock().await.unwrap().release().await.unwrap() });
            transaction.commit().await.unwrap();
            within(SECOND * 5, "a turn", waiting.join()).await;
        }
    }
}
