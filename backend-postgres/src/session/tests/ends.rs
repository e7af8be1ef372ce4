//! Sessions and servers that end.

use std::time::{Duration, Instant};

use sqlx::Row;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{eventually, pause, stays_pending, within};
use stanchion_core::connect::MAX_UNCHECKED_IDLE;
use stanchion_core::{ErrorKind, Name, Ticket, Ttl};
use stanchion_testbed::servers::PostgresOptions;

use super::{Process, REQUEST, SECOND, connect, connector, in_line, options, server, soon, start};
use crate::connector::Connector;
use crate::session::connection::{SessionConfig, StepRequest, settings};
use crate::session::messages::{Batch, ForceUnlockAnswers, TryLock};

/// A request that tries a mutex.
fn try_lock(name: &str) -> StepRequest {
    let (name, ticket) = (Name::new(name).unwrap(), Ticket::random());
    let try_locks = vec![TryLock { name, number: 0, ticket, reads_queue: false }];
    StepRequest::of(&Batch { try_locks, ..Batch::default() })
}

#[tokio::test]
async fn an_ended_session_is_noticed_within_a_second() {
    let server = server().await;
    let (a, b) = (Process::new(server, "ended"), Process::new(server, "ended"));
    let guards = [a.mutex("x").lock().await.unwrap(), a.mutex("y").lock().await.unwrap()];
    a.terminate(server).await;
    within(SECOND + EPSILON, "both hear of it", async {
        for guard in &guards {
            guard.lost().await;
        }
    })
    .await;
    b.mutex("x").try_lock().await.unwrap().unwrap().release().await.unwrap();
    for guard in guards {
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
    assert!(a.mutex("x").try_lock().await.unwrap().is_some());
}

/// Nobody holds by it, and nothing was sent over it for a while.
#[tokio::test]
async fn c28_a_try_goes_over_another_session_where_an_idle_one_has_ended() {
    let server = server().await;
    let a = Process::new(server, "idle");
    a.mutex("x").lock().await.unwrap().release().await.unwrap();
    a.terminate(server).await;
    pause(MAX_UNCHECKED_IDLE * 5 / 4).await;
    a.mutex("x").try_lock().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_whose_session_is_ended_waits_on() {
    let server = server().await;
    let (a, b) = (Process::new(server, "waits on"), Process::new(server, "waits on"));
    let guard = b.mutex("x").lock().await.unwrap();
    let mutex = a.mutex("x");
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits in line", || async { in_line(server, "waits on", "x").await == 1 }).await;
    a.terminate(server).await;
    guard.release().await.unwrap();
    assert!(within(SECOND + EPSILON, "it goes on", waiter).await.unwrap().is_held());
}

#[tokio::test]
async fn c18_after_a_restart_of_the_server_waiters_and_callers_go_on() {
    let server = start(PostgresOptions::default()).await;
    let a = Process::new(&server, "c18");
    let guard = a.mutex("x").lock().await.unwrap();
    let (mutex, other) = (a.mutex("x"), a.mutex("y"));
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    soon("it waits in line", || async { in_line(&server, "c18", "x").await == 1 }).await;
    server.kill().unwrap();
    within(SECOND + EPSILON, "the holder hears of it", guard.lost()).await;
    let error = a.mutex("z").try_lock().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let other = tokio::spawn(async move { other.lock().await.unwrap() });
    pause(Duration::from_millis(300)).await;
    server.restart().unwrap();
    within(SECOND + EPSILON, "both go on", async {
        assert!(waiter.await.unwrap().is_held());
        assert!(other.await.unwrap().is_held());
    })
    .await;
}

#[tokio::test]
async fn c17_a_stalled_server_ends_calls_and_holds_survive_it() {
    let server = start(PostgresOptions::default()).await;
    let a = Process::new(&server, "stalled");
    let guard = a.mutex("x").lock().await.unwrap();
    server.pause().unwrap();
    let tried = a.mutex("y");
    let tried = within(REQUEST + EPSILON, "the call ends", tried.try_lock()).await;
    let error = tried.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    pause(Duration::from_millis(500)).await;
    server.resume().unwrap();
    let locked = a.mutex("z");
    drop(within(SECOND + EPSILON, "it goes on", locked.lock()).await.unwrap());
    assert!(guard.is_held(), "it was inside its deadline all the time");
    assert!(Process::new(&server, "stalled").mutex("x").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    let mutex = a.mutex("y");
    soon("y is free", || async { mutex.try_lock().await.unwrap().is_some() }).await;
}

#[tokio::test]
async fn the_server_ends_a_session_that_is_silent_for_a_ttl() {
    let server = server().await;
    let a = Process::new(server, "silent");
    let ttl = Ttl::new(SECOND).unwrap();
    let config = SessionConfig::new(&a.context, &connector(server), ttl, Ticket::random());
    let mut connection = config.open(REQUEST).await.unwrap();
    let started = Instant::now();
    let stepped = connection.step(&config, try_lock("x")).await.unwrap();
    assert!(stepped.try_answers[0].code > 0);
    let next = a.mutex("x");
    let taken = within(ttl.get() + EPSILON, "it is free", next.lock()).await.unwrap();
    assert!(started.elapsed() > ttl.get(), "{:?}", started.elapsed());
    assert!(taken.is_held());
    assert!(connection.probe(&config, &ForceUnlockAnswers::default()).await.is_err());
}

#[tokio::test]
async fn c21_no_text_of_the_sessions_shows_the_password() {
    let server = server().await;
    let a = Process::new(server, "debug");
    let secret = Connector::from(options(server).password("s3cret"));
    let config = SessionConfig::new(&a.context, &secret, Ttl::default(), Ticket::random());
    let text = format!("{config:?}");
    assert!(text.contains("debug") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn the_table_of_locks_never_fills_up() {
    let settings = PostgresOptions::default().setting("max_locks_per_transaction", "16");
    let server = start(settings.setting("max_connections", "60")).await;
    // On a machine that stands still, a request may take longer than usual.
    let process = || Process::with_limit(&server, "full", 30 * SECOND, 10 * SECOND);
    let (a, b) = (process(), process());
    let mut guards = Vec::new();
    let mut refused = None;
    for index in 0..10_000 {
        let process = if index % 2 == 0 { &a } else { &b };
        match process.mutex(&format!("n{index}")).try_lock().await {
            Ok(guard) => guards.push(guard.unwrap()),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let error = refused.unwrap();
    println!("{} locks, then: {error}", guards.len());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("max_locks_per_transaction"), "{error}");
    let mut connection = connect(&server).await;
    let counted = sqlx::query("SELECT count(*) FROM pg_locks").fetch_one(&mut connection).await.unwrap();
    let (locks, room) = (counted.get::<i64, _>(0), 16 * 60 / 2);
    assert!(locks < room * 5 / 4, "{locks} locks, {room} were to be");
    assert!(guards.iter().all(stanchion_core::MutexGuard::is_held));
}

#[tokio::test]
async fn c12_the_end_of_the_engine_frees_what_is_held_and_waited_for() {
    let server = server().await;
    let (a, b) = (Process::new(server, "engine"), Process::new(server, "engine"));
    let held = b.mutex("held").lock().await.unwrap();
    let kept = a.mutex("kept").lock().await.unwrap();
    let mutex = a.mutex("held");
    let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
    soon("it waits in line", || async { in_line(server, "engine", "held").await == 1 }).await;
    a.engine.close().await.unwrap();
    assert!(!kept.is_held());
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(b.mutex("kept").try_lock().await.unwrap().is_some());
    drop(held);
    let application = a.application();
    drop((a, kept));
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    eventually(SECOND + EPSILON, "no session is left", || async {
        let left = sqlx::query_scalar::<_, i64>(left).bind(&application);
        left.fetch_one(&mut connect(server).await).await.unwrap() == 0
    })
    .await;
}

#[test]
fn c13_a_blocked_worker_keeps_its_hold() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = server().await;
        // So long that a hold is renewed in time on a machine that stands still for two seconds.
        let ttl = 5 * SECOND;
        let a = Process::with(server, "blocked", ttl);
        let guard = a.mutex("x").lock().await.unwrap();
        std::thread::sleep(ttl + SECOND);
        assert!(guard.is_held());
        assert!(Process::new(server, "blocked").mutex("x").try_lock().await.unwrap().is_none());
    });
}

#[tokio::test]
async fn m1_a_hold_whose_session_ended_is_lost_before_its_successor_holds() {
    let server = server().await;
    let a = Process::new(server, "successor");
    for _ in 0..5 {
        let guard = a.mutex("x").lock().await.unwrap();
        let mutex = a.mutex("x");
        let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
        soon("it waits in line", || async { in_line(server, "successor", "x").await == 1 }).await;
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND
             (classid::bigint << 32) | objid::bigint = stanchion.session_key('successor', 'x')",
        )
        .execute(&mut connect(server).await)
        .await
        .unwrap();
        let next = waiter.await.unwrap();
        assert!(!guard.is_held());
        assert!(next.is_held());
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn c9_a_session_that_refuses_a_question_keeps_what_it_holds() {
    let server = start(PostgresOptions::default()).await;
    let ttl = 10 * SECOND;
    let a = Process::with(&server, "refuses", ttl);
    let guard = a.mutex("x").lock().await.unwrap();
    server.sql("ALTER TABLE stanchion.session_evictions RENAME TO elsewhere").unwrap();
    stays_pending(ttl + 2 * SECOND, "an error is an answer", &mut Box::pin(guard.lost())).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn c3_a_try_beside_one_that_is_not_answered_is_not_told_no() {
    let server = start(PostgresOptions::default()).await;
    let a = Process::new(&server, "beside");
    a.mutex("y").lock().await.unwrap().release().await.unwrap();
    server.pause().unwrap();
    let (first, second) = (a.mutex("x"), a.mutex("x"));
    let (first, second) = tokio::join!(first.try_lock(), second.try_lock());
    for answer in [first.err().unwrap(), second.err().unwrap()] {
        assert!(answer.is_retryable(), "{answer}");
    }
    server.resume().unwrap();
}

#[test]
fn c8_the_network_ends_no_session_before_its_ttl() {
    for millis in [100, 999, 1_000, 10_000, 60_000, 86_400_000] {
        let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
        let settings: std::collections::HashMap<_, _> = settings(ttl).into_iter().collect();
        let number = |name: &str| settings[name].parse::<u64>().unwrap();
        let keepalives = number("tcp_keepalives_idle")
            + number("tcp_keepalives_interval") * number("tcp_keepalives_count");
        assert!(keepalives * 1_000 > millis && number("tcp_user_timeout") > millis, "{ttl:?}");
        assert!(keepalives * 1_000 <= 6_000 + millis * 3 / 2, "{ttl:?}: and it is not kept much longer");
    }
}
