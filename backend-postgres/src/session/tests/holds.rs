//! One process or two, without waiting.

use std::time::Duration;

use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{definite, eventually, foreign, pause, within};
use stanchion_core::clock::now;
use stanchion_core::{ErrorKind, Kind, MutexOptions, Ttl};
use stanchion_testbed::servers::PostgresOptions;

use super::{AskedHolder, GRACE, Process, SECOND, connect, server, soon, start};

#[tokio::test]
async fn m1_one_of_two_processes_holds() {
    let server = server().await;
    let (a, b) = (Process::new(server, "m1"), Process::new(server, "m1"));
    let (here, there) = (a.mutex("x"), b.mutex("x"));
    let guard = here.try_lock().await.unwrap().unwrap();
    assert!(there.try_lock().await.unwrap().is_none());
    assert!(here.try_lock().await.unwrap().is_none(), "not re-entrant");
    assert!(b.mutex("y").try_lock().await.unwrap().is_some());
    let first = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = there.try_lock().await.unwrap().unwrap();
    assert!(guard.fencing_token() > first);
    assert!(here.try_lock().await.unwrap().is_none());
}

#[tokio::test]
async fn c19_namespaces_and_names_do_not_alias() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c19"), Process::new(server, "c1"));
    let _guard = a.mutex(":x").try_lock().await.unwrap().unwrap();
    assert!(b.mutex("9:x").try_lock().await.unwrap().is_some());
    for name in ["😀 %'\"{}", "a\u{1}b", &"n".repeat(512)] {
        let guard = a.mutex(name).try_lock().await.unwrap().unwrap();
        assert!(Process::new(server, "c19").mutex(name).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn c11_release_twice_is_lost_and_frees_nobody() {
    let server = server().await;
    let a = Process::new(server, "c11");
    let guard = a.mutex("x").lock().await.unwrap();
    assert!(a.mutex("x").force_unlock().await.unwrap());
    assert!(!guard.is_held());
    let other = a.mutex("x").lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(other.is_held());
    assert!(a.mutex("x").try_lock().await.unwrap().is_none());
}

#[tokio::test]
async fn c12_a_dropped_guard_frees_it_for_another_process() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c12"), Process::new(server, "c12"));
    drop(a.mutex("x").lock().await.unwrap());
    let mutex = b.mutex("x");
    soon("free", || async { mutex.try_lock().await.unwrap().is_some() }).await;
}

#[tokio::test]
async fn c13_renewal_keeps_it_and_c8_the_end_of_renewal_frees_it() {
    let server = server().await;
    // So long that a hold is renewed in time on a machine that stands still for two seconds.
    let ttl = Duration::from_secs(4);
    let (a, b) = (Process::with(server, "c8", ttl), Process::with(server, "c8", ttl));
    let kept = a.mutex("kept").lock().await.unwrap();
    let started = std::time::Instant::now();
    let left = a.mutex_with("left", MutexOptions::default().renew(false)).lock().await.unwrap();
    let next = b.mutex("left");
    let taken = within(ttl + EPSILON, "it is free", next.lock()).await.unwrap();
    assert!(started.elapsed() >= ttl, "{:?}", started.elapsed());
    assert!(!left.is_held());
    assert!(taken.is_held());
    pause(ttl + SECOND).await;
    assert!(kept.is_held());
    let kept_there = b.mutex("kept");
    assert!(definite(|| kept_there.try_lock()).await.unwrap().is_none());
}

#[tokio::test]
async fn c23_inspect_tells_holders_and_waiters() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c23"), Process::new(server, "c23"));
    let before = now();
    let guard = a.mutex_with("x", MutexOptions::default().label("me")).lock().await.unwrap();
    let watch = Stopwatch::start();
    let waiter = b.mutex("x");
    let waiting = tokio::spawn(async move { waiter.lock().await.map(drop) });
    soon("a waiter", || async { a.mutex("x").inspect().await.unwrap().waiters == 1 }).await;
    let own = a.mutex("x").inspect().await.unwrap();
    assert_eq!(own.holders.len(), 1);
    assert_eq!(own.holders[0].ticket, Some(guard.ticket()));
    assert_eq!(own.holders[0].label.as_deref(), Some("me"));
    assert_eq!(own.holders[0].token, Some(guard.fencing_token()));
    // Another process reads it a moment later, and nothing that is not so before.
    let foreign = || async {
        let inspection = b.mutex("x").inspect().await.unwrap();
        assert_eq!((inspection.holders.len(), inspection.waiters), (1, 1));
        inspection.holders.into_iter().next().unwrap()
    };
    soon("its ticket", || async { foreign().await.ticket.is_some() }).await;
    assert!(watch.elapsed() < SECOND + EPSILON, "{:?}", watch.elapsed());
    let told = foreign().await;
    assert_eq!((told.ticket, told.token), (Some(guard.ticket()), Some(guard.fencing_token())));
    assert_eq!((told.label.as_deref(), told.lease_left), (Some("me"), None));
    let elapsed = before.elapsed();
    assert!(told.age.is_some_and(|age| age <= elapsed), "{told:?} after {elapsed:?}");
    let shown =
        "SELECT string_agg(kind || ' ' || name || ' ' || label || ' ' || token, ',') FROM stanchion.holders
                 WHERE namespace = 'c23'";
    assert_eq!(server.sql(shown).unwrap(), format!("mutex x me {}", guard.fencing_token().get()));
    waiting.abort();
    guard.release().await.unwrap();
    assert_eq!(server.sql(WRITTEN).unwrap(), "0", "it is not shown any more");
}

const WRITTEN: &str = "SELECT count(*) FROM stanchion.session_grants WHERE namespace = 'c23'";

#[tokio::test]
async fn c23_inspect_never_tells_an_earlier_holder() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c23 again"), Process::new(server, "c23 again"));
    for round in 0..6_u32 {
        let guard = a.mutex("x").lock().await.unwrap();
        let watch = Stopwatch::start();
        // Some are held until they are written, some for about as long, and some are not.
        while watch.elapsed() < Duration::from_millis(250) * (round % 4) {
            let holders = b.mutex("x").inspect().await.unwrap().holders;
            assert_eq!(holders.len(), 1);
            assert!(holders[0].ticket.is_none_or(|ticket| ticket == guard.ticket()), "{holders:?}");
        }
        guard.release().await.unwrap();
        assert!(b.mutex("x").inspect().await.unwrap().holders.is_empty());
    }
}

/// A hold ends while it is being written, so that it is written once the next one is there.
#[tokio::test]
async fn c23_what_is_written_late_names_no_earlier_holder() {
    let server = start(PostgresOptions::default()).await;
    for (function, time) in [("session_note", 1.0), ("session_forget", 0.3)] {
        let defined =
            server.sql(&format!("SELECT pg_get_functiondef('stanchion.{function}'::regproc)")).unwrap();
        let slow = defined.replacen("BEGIN\n", &format!("BEGIN\nPERFORM pg_sleep({time});\n"), 1);
        assert_ne!(slow, defined);
        server.sql(&slow).unwrap();
    }
    let process = || Process::with_limit(&server, "c23 late", 60 * SECOND, 20 * SECOND);
    let (a, b) = (process(), process());
    let under_way =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%session_note(%'
                     AND pid <> pg_backend_pid()";
    let guard = a.mutex("x").lock().await.unwrap();
    eventually(10 * SECOND, "it is being written", || async { server.sql(under_way).unwrap() == "1" }).await;
    guard.release().await.unwrap();
    let guard = a.mutex("x").lock().await.unwrap();
    let is_told = || async {
        let told = b.mutex("x").inspect().await.unwrap().holders[0].ticket;
        assert!(told.is_none_or(|told| told == guard.ticket()), "an earlier holder: {told:?}");
        told.is_some()
    };
    eventually(10 * SECOND, "the holder", is_told).await;
}

/// What is written of a hold cannot be removed at its end.
#[tokio::test]
async fn c23_a_row_that_somebody_keeps_locked_names_no_earlier_holder() {
    let server = server().await;
    let (a, b) = (Process::new(server, "c23 locked"), Process::new(server, "c23 locked"));
    let shown = || async { b.mutex("x").inspect().await.unwrap().holders[0].ticket };
    let guard = a.mutex("x").lock().await.unwrap();
    soon("it is written", || async { shown().await.is_some() }).await;
    let mut neighbour = connect(server).await;
    let lock = "BEGIN; SELECT FROM stanchion.session_grants WHERE namespace = 'c23 locked' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut neighbour).await.unwrap();
    let watch = Stopwatch::start();
    guard.release().await.unwrap();
    assert!(watch.elapsed() < EPSILON, "a release took {:?}", watch.elapsed());
    let guard = a.mutex("x").lock().await.unwrap();
    let watch = Stopwatch::start();
    while watch.elapsed() < SECOND {
        assert_eq!(shown().await, None);
    }
    sqlx::raw_sql("COMMIT").execute(&mut neighbour).await.unwrap();
    let is_told = || async { shown().await == Some(guard.ticket()) };
    eventually(10 * SECOND, "the holder", is_told).await;
}

#[tokio::test]
async fn c25_what_is_written_of_a_session_that_ended_is_swept() {
    let server = server().await;
    let a = Process::new(server, "c25 grants");
    let guard = a.mutex("x").lock().await.unwrap();
    let written = "SELECT count(*) FROM stanchion.session_grants WHERE namespace = 'c25 grants'";
    soon("it is written", || async { server.sql(written).unwrap() == "1" }).await;
    let sweep = "SELECT stanchion.sweep_permits('c25 grants', 100)";
    server.sql(sweep).unwrap();
    assert_eq!(server.sql(written).unwrap(), "1", "it is held");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM stanchion.session_holders('c25 grants', 'x') WHERE holds";
    assert_eq!(server.sql(end).unwrap(), "1");
    soon("it is lost", || async { !guard.is_held() }).await;
    let shown = "SELECT count(*) FROM stanchion.holders WHERE namespace = 'c25 grants'";
    soon("it is not shown", || async { server.sql(shown).unwrap() == "0" }).await;
    server.sql(sweep).unwrap();
    assert_eq!(server.sql(written).unwrap(), "0");
}

#[tokio::test]
async fn c24_detach_and_attach_are_unsupported() {
    let server = server().await;
    let a = Process::new(server, "c24");
    let attached = a.mutex("x").attach(&foreign(Kind::Mutex)).await.unwrap_err();
    assert_eq!(attached.kind(), ErrorKind::Unsupported);
    let detached = a.mutex("x").lock().await.unwrap().detach(Ttl::DEFAULT).await.unwrap_err();
    assert_eq!(detached.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn m8_force_unlock_frees_the_hold_of_another_process() {
    let server = server().await;
    let (a, b) = (Process::new(server, "m8"), Process::new(server, "m8"));
    let guard = a.mutex("x").lock().await.unwrap();
    let other = a.mutex("y").lock().await.unwrap();
    let asked = AskedHolder::now();
    assert!(b.mutex("x").force_unlock().await.unwrap());
    let stood_still = asked.stood_still(GRACE * 3 / 4);
    if stood_still {
        // Its session was ended, which takes a moment.
        soon("it is free", || async { b.mutex("x").inspect().await.unwrap().holders.is_empty() }).await;
        within(SECOND + EPSILON, "it hears of it", guard.lost()).await;
    }
    assert!(!guard.is_held());
    assert!(other.is_held() || stood_still, "it obeyed in time: its session was not ended");
    assert!(!b.mutex("x").force_unlock().await.unwrap());
    let taken = b.mutex("x").try_lock().await.unwrap().unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(taken.is_held());
}
