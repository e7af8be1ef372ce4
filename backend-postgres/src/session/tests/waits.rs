//! Waiting in line, in one process and between two.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{DEAD_IN_FRONT, definite, eventually, pause, within};
use stanchion_core::{ErrorKind, MutexOptions};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use super::{Process, SECOND, connect, in_line, in_time, server, soon, start};

#[tokio::test]
async fn c16_first_come_first_served_in_a_process() {
    let server = server().await;
    let a = Process::new(server, "c16");
    let guard = a.mutex("x").lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for index in 0..20 {
        let (mutex, order) = (a.mutex("x"), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap().push(index);
            guard.release().await.unwrap();
        }));
        soon("it waits", || async { a.mutex("x").inspect().await.unwrap().waiters == index + 1 }).await;
    }
    assert!(a.mutex("x").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn c15_many_waiters_use_few_sessions_and_block_nobody() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c15"), Process::new(server, "c15"));
    let guard = b.mutex("x").lock().await.unwrap();
    let waiters: Vec<_> = (0..256)
        .map(|_| {
            let mutex = a.mutex("x");
            tokio::spawn(async move { drop(mutex.lock().await.unwrap()) })
        })
        .collect();
    soon("all wait", || async { a.mutex("x").inspect().await.unwrap().waiters == 256 }).await;
    assert!(a.sessions(server).await <= 1, "{}", a.sessions(server).await);
    let other = a.mutex("y");
    drop(within(SECOND + EPSILON, "another name", other.try_lock()).await.unwrap().unwrap());
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(a.sessions(server).await <= 1, "{}", a.sessions(server).await);
}

#[tokio::test]
async fn c4_a_dropped_waiter_leaves_nothing() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c4"), Process::new(server, "c4"));
    // At every point, of an acquisition that waits and of one that is granted.
    for held in [true, false] {
        for step in 0..40 {
            let guard = if held { Some(b.mutex("x").lock().await.unwrap()) } else { None };
            let mutex = a.mutex("x");
            let limit = Duration::from_micros(100 * step);
            let dropped = tokio::time::timeout(limit, mutex.lock()).await;
            drop(dropped);
            drop(guard);
            let there = b.mutex("x");
            soon("free", || async { there.try_lock().await.unwrap().is_some() }).await;
        }
    }
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        AND (classid::bigint << 32) | objid::bigint = stanchion.session_key('c4', 'x')";
    soon("nothing is left in the queue", || async {
        sqlx::query_scalar::<_, i64>(left).fetch_one(&mut connect(server).await).await.unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn c17_a_wait_with_a_limit_ends_and_the_next_is_served() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c17"), Process::new(server, "c17"));
    let guard = b.mutex("x").lock().await.unwrap();
    for _ in 0..2 {
        let mutex = a.mutex("x");
        let wait = || within(SECOND + EPSILON, "its limit is kept", mutex.lock_for(SECOND));
        assert!(definite(wait).await.unwrap().is_none());
    }
    let (first, second) = (a.mutex("x"), a.mutex("x"));
    let brief = Duration::from_millis(300);
    let gone = tokio::spawn(async move { definite(|| first.lock_for(brief)).await.unwrap().is_none() });
    let waiter = tokio::spawn(async move { second.lock().await.unwrap() });
    assert!(gone.await.unwrap());
    guard.release().await.unwrap();
    drop(within(SECOND + EPSILON, "the next is served", waiter).await.unwrap());
}

#[tokio::test]
async fn c15_one_session_serves_many_names() {
    let server = server().await;
    let (a, b) = (Process::new(server, "many"), Process::new(server, "many"));
    let names: Vec<String> = (0..12).map(|index| format!("n{index}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(b.mutex(name).lock().await.unwrap());
    }
    let waiters: Vec<_> = names
        .iter()
        .map(|name| {
            let mutex = a.mutex(name);
            // They keep what they get.
            tokio::spawn(async move { mutex.lock().await.unwrap() })
        })
        .collect();
    for name in &names {
        soon("it waits", || async { a.mutex(name).inspect().await.unwrap().waiters >= 1 }).await;
    }
    assert!(a.sessions(server).await <= 1, "{}", a.sessions(server).await);
    drop(guards);
    let mut kept = Vec::new();
    within(SECOND + EPSILON, "all are served", async {
        for waiter in waiters {
            kept.push(waiter.await.unwrap());
        }
    })
    .await;
    assert!(kept.iter().all(stanchion_core::MutexGuard::is_held));
    assert_eq!(a.sessions(server).await, 1);
}

#[tokio::test]
async fn c26_a_queue_has_a_bound() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c26"), Process::new(server, "c26"));
    let guard = a.mutex("x").lock().await.unwrap();
    let bounded = || a.mutex_with("x", MutexOptions::default().max_waiters(2));
    let (first, second) = (b.mutex("x"), bounded());
    let first = tokio::spawn(async move { first.lock().await.unwrap() });
    soon("one waits", || async { a.mutex("x").inspect().await.unwrap().waiters == 1 }).await;
    let second = tokio::spawn(async move { second.lock().await.unwrap() });
    soon("two wait", || async { a.mutex("x").inspect().await.unwrap().waiters == 2 }).await;
    assert_eq!(bounded().lock().await.unwrap_err().kind(), ErrorKind::Overloaded);
    guard.release().await.unwrap();
    drop(first.await.unwrap());
    drop(second.await.unwrap());
}

#[tokio::test]
async fn c16_a_process_that_waits_for_three_names_is_served_on_a_fourth() {
    let server = server().await;
    let a = Process::new(server, "starves");
    let others = [Process::new(server, "starves"), Process::new(server, "starves")];
    let mut kept = Vec::new();
    let mut waiting = Vec::new();
    for name in ["one", "two", "three"] {
        kept.push(others[0].mutex(name).lock().await.unwrap());
        let mutex = a.mutex(name);
        waiting.push(tokio::spawn(async move { mutex.lock().await.map(drop) }));
        soon("it waits", || async { in_line(server, "starves", name).await == 1 }).await;
    }
    let busy: Vec<_> = others
        .iter()
        .flat_map(|other| [other.mutex("four"), other.mutex("four")])
        .map(|mutex| {
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    soon("the others wait for it", || async { in_line(server, "starves", "four").await >= 1 }).await;
    for round in 0..5 {
        let mutex = a.mutex("four");
        drop(within(SECOND + EPSILON, &format!("served in round {round}"), mutex.lock()).await.unwrap());
    }
    for task in busy {
        task.abort();
    }
    drop(kept);
    for task in waiting {
        in_time(task).await.unwrap();
    }
}

#[tokio::test]
async fn c5_a_live_process_in_line_is_not_taken_for_a_stopped_one() {
    let server = start(PostgresOptions::default()).await;
    let (a, b) = (Process::new(&server, "stall"), Process::new(&server, "stall"));
    let guard = b.mutex("x").lock().await.unwrap();
    let mutex = a.mutex("x");
    let first = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits", || async { b.mutex("x").inspect().await.unwrap().waiters == 1 }).await;
    let mutex = b.mutex("x");
    let second = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("both wait", || async { b.mutex("x").inspect().await.unwrap().waiters == 2 }).await;
    pause(Duration::from_millis(500)).await;
    // Nothing is heard of anybody for longer than a silent process is waited for.
    server.pause().unwrap();
    pause(Duration::from_millis(2_500)).await;
    // It may be carried out before anything else that came in meanwhile.
    let releasing = tokio::spawn(guard.release());
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.resume().unwrap();
    releasing.await.unwrap().unwrap();
    let first = in_time(first).await;
    assert!(!second.is_finished(), "the first keeps its place");
    first.release().await.unwrap();
    drop(second.await.unwrap());
}

#[tokio::test]
async fn c16_a_stuck_session_costs_those_in_line_no_place() {
    let server = server().await;
    let (a, b) = (Process::new(server, "place"), Process::new(server, "place"));
    let holder = Process::new(server, "place");
    let guard = holder.mutex("x").lock().await.unwrap();
    let mutex = a.mutex("x");
    let first = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits", || async { holder.mutex("x").inspect().await.unwrap().waiters == 1 }).await;
    let mutex = b.mutex("x");
    let second = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("both wait", || async { holder.mutex("x").inspect().await.unwrap().waiters == 2 }).await;
    // For longer than a request may take.
    let stopped = a.stop_sessions(server, "true").await;
    pause(Duration::from_millis(2_500)).await;
    stopped.resume();
    guard.release().await.unwrap();
    let first = in_time(first).await;
    assert!(!second.is_finished());
    first.release().await.unwrap();
    drop(second.await.unwrap());
}

/// Makes the row of a mutex, and runs a statement about it (`o`).
async fn with_row(process: &Process, server: &PostgresServer, namespace: &str, statement: &str) {
    let guard = process.mutex("x").lock().await.unwrap();
    let brief = Duration::from_millis(200);
    let mutex = process.mutex("x");
    assert!(definite(|| mutex.lock_for(brief)).await.unwrap().is_none());
    guard.release().await.unwrap();
    let sql = format!(
        "WITH o AS (SELECT * FROM stanchion.objects WHERE namespace = '{namespace}' AND name = 'x') {statement}"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connect(server).await).await.unwrap();
}

/// C5: whoever only tries gets past a dead waiter, too, although nobody waits who would judge it.
#[tokio::test]
async fn c5_attempts_alone_pass_a_dead_waiter_after_one_grace() {
    let server = server().await;
    let a = Process::new(server, "dead alone");
    let dead = "INSERT INTO stanchion.waiters (object, arrival, ticket, process, weight, lease, since)
        SELECT o.id, o.arrival + 1, gen_random_uuid(), gen_random_uuid(), 1, 3600000000, stanchion.now() FROM o;
        UPDATE stanchion.objects SET waiting = 1, arrival = arrival + 1 WHERE namespace = 'dead alone'";
    let before = Instant::now();
    with_row(&a, server, "dead alone", dead).await;
    let mutex = a.mutex("x");
    let tried = mutex.try_lock().await.unwrap();
    // On a machine that stands still meanwhile, it is dead by then.
    assert!(tried.is_none() || before.elapsed() >= SECOND, "it may be live");
    drop(tried);
    let passes = || async { mutex.try_lock().await.unwrap().is_some() };
    eventually(SECOND + DEAD_IN_FRONT + EPSILON, "past the dead", passes).await;
}

/// C8: the turn of a transaction whose process died ends with its lease.
#[tokio::test]
async fn c8_a_turn_that_has_expired_keeps_nobody_out() {
    let server = server().await;
    let a = Process::new(server, "dead turn");
    let turn = "INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token)
        SELECT o.id, gen_random_uuid(), 1, stanchion.now() + 1000000, stanchion.now(), 1 FROM o;
        UPDATE stanchion.objects SET used = 1, next = stanchion.now() + 1000000 WHERE namespace = 'dead turn'";
    let before = Instant::now();
    with_row(&a, server, "dead turn", turn).await;
    let mutex = a.mutex("x");
    let tried = mutex.try_lock().await.unwrap();
    assert!(tried.is_none() || before.elapsed() >= SECOND, "it is a transaction's turn");
    drop(tried);
    let is_free = || async { mutex.try_lock().await.unwrap().is_some() };
    eventually(SECOND + EPSILON, "it is over", is_free).await;
}
