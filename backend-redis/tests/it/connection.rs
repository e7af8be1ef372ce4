//! Servers that are away, refuse requests, or are not safe to use.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::outages::{
    call_over_connections_dropped_in_use, call_over_dropped_connections, work_over_few_connections,
};
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{definite, on_another_runtime, within};
use stanchion_core::spi::{Acquire, Acquired};
use stanchion_core::{ErrorKind, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Action, Direction, Proxy, Scope, Then, When};
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

async fn refusal(process: &Process, request: &Acquire) -> ErrorKind {
    process.callers.acquire(std::slice::from_ref(request)).await.remove(0).unwrap_err().kind()
}

/// Asks until there is an answer.
async fn answer(process: &Process, request: &Acquire) -> Acquired {
    loop {
        match process.callers.acquire(std::slice::from_ref(request)).await.remove(0) {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn c3_a_server_that_is_away_was_not_asked() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("m"))).await;
    server.kill().unwrap();
    // The broken connection is noticed without a request.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(refusal(&process, &ask(&mutex("m"))).await, ErrorKind::Unavailable);
    assert_eq!(process.wake.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(fixture.builder().steps().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c3_an_answer_that_does_not_come_is_unknown_and_a_retry_finds_out() {
    let (server, fixture) = start(RedisOptions::default());
    const REQUEST: Duration = Duration::from_millis(300);
    let process = driven(definite(|| fixture.builder().request_timeout(REQUEST).steps()).await.unwrap());
    granted(&process, &ask(&mutex("other"))).await;
    let request = ask(&mutex("m"));
    server.pause().unwrap();
    let watch = Stopwatch::start();
    assert_eq!(refusal(&process, &request).await, ErrorKind::Unknown);
    assert!(watch.elapsed() < REQUEST + EPSILON, "{:?}", watch.elapsed());
    // The system accepts a new connection, but the server does not serve it. The first request may
    // have waited a little less than the silence that has its connection replaced.
    let watch = Stopwatch::start();
    loop {
        let kind = refusal(&process, &request).await;
        if kind == ErrorKind::Unavailable {
            break;
        }
        assert_eq!(kind, ErrorKind::Unknown);
        assert!(watch.elapsed() < Duration::from_secs(1) + EPSILON, "the connection is replaced");
    }
    server.resume().unwrap();
    let token = granted(&process, &request).await;
    assert_eq!(granted(&process, &request).await, token);
    let inspection = definite(|| process.callers.inspect(&request.object)).await.unwrap();
    assert_eq!(inspection.holders.len(), 1);
}

#[tokio::test]
async fn c28_a_server_that_stalls_for_a_moment_costs_no_connection() {
    let (server, _fixture) = start(RedisOptions::default());
    let proxy = Proxy::to(&server.url()).unwrap();
    let process = Fixture::on(&proxy.url(&server.url())).process().await;
    granted(&process, &ask(&semaphore("other"))).await;
    let mut before = proxy.connections().len();
    for _ in 0..10 {
        let paused = Instant::now();
        server.pause().unwrap();
        let request = Acquire { lease: ttl(100), ..ask(&semaphore("s")) };
        assert_eq!(refusal(&process, &request).await, ErrorKind::Unknown);
        server.resume().unwrap();
        answer(&process, &Acquire { queue: false, ..ask(&semaphore("other")) }).await;
        let connections = proxy.connections().len();
        // A silence of a second has a connection replaced, also one of the whole machine.
        assert!(
            connections == before || paused.elapsed() >= Duration::from_secs(1),
            "{connections}, not {before}"
        );
        before = connections;
    }
    // Requests in a row that are not answered have the connection replaced.
    server.pause().unwrap();
    let watch = Stopwatch::start();
    while proxy.connections().len() == before {
        refusal(&process, &Acquire { lease: ttl(100), ..ask(&semaphore("s")) }).await;
        assert!(watch.elapsed() < Duration::from_secs(1) + EPSILON);
    }
    server.resume().unwrap();
}

#[tokio::test]
async fn c17_a_request_takes_a_third_of_its_lease_at_most() {
    let (server, fixture) = start(RedisOptions::default());
    let process = driven(fixture.builder().request_timeout(Duration::from_secs(30)).steps().await.unwrap());
    granted(&process, &ask(&mutex("other"))).await;
    server.pause().unwrap();
    let request = Acquire { lease: ttl(3_000), ..ask(&mutex("m")) };
    let (start, watch) = (Instant::now(), Stopwatch::start());
    assert_eq!(refusal(&process, &request).await, ErrorKind::Unknown);
    let third = request.lease.get() / 3;
    let (took, counted) = (start.elapsed(), watch.elapsed());
    assert!(took >= third && counted < third + EPSILON, "{took:?}, of which {counted:?} count");
}

#[tokio::test]
async fn c18_holds_survive_a_restart_and_clients_come_back() {
    let (server, fixture) = start(RedisOptions::default().append_only(true));
    let steps = fixture.builder().request_timeout(PATIENT).steps().await.unwrap();
    assert_eq!(steps.capabilities.survives_restart, Some(true));
    let process = driven(steps);
    let request = ask(&mutex("m"));
    let token = granted(&process, &request).await;
    server.kill().unwrap();
    server.restart().unwrap();
    // The restart has lost the scripts: they are sent again.
    let answer =
        within(Duration::from_secs(1), "requests are served again", answer(&process, &request)).await;
    assert_eq!(answer, Acquired::Granted { token, limit: 1, epoch: 0 });
    assert_eq!(process.wake.next().await.unwrap(), []);
}

#[tokio::test]
async fn c18_forgotten_scripts_are_sent_again() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    command(&fixture, &["SCRIPT", "FLUSH"]).await;
    granted(&process, &request).await;
}

#[tokio::test]
async fn c18_a_killed_connection_is_made_anew() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    for _ in 0..3 {
        command(&fixture, &["CLIENT", "KILL", "TYPE", "normal"]).await;
        let request = ask(&mutex("m"));
        let answer = within(Duration::from_secs(1), "another connection", answer(&process, &request)).await;
        assert!(is_granted(&answer), "{answer:?}");
        command(&fixture, &["FLUSHALL"]).await;
    }
}

#[test]
fn c12_the_end_of_one_runtime_does_not_end_the_connection_of_another() {
    let (_server, fixture) = start(RedisOptions::default());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let process = first.block_on(fixture.process());
    // The connection of the first runtime is there, but nothing drives it.
    second.block_on(async { granted(&process, &ask(&mutex("a"))).await });
    first.block_on(async { granted(&process, &ask(&mutex("b"))).await });
    drop(first);
    second.block_on(async { granted(&process, &ask(&mutex("c"))).await });
    drop(second);
    runtime().block_on(async { granted(&process, &ask(&mutex("d"))).await });
}

#[tokio::test]
async fn c4_a_dropped_request_leaves_the_others_answers_in_order() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    for round in 0..200_u64 {
        let name = format!("m{round}");
        let request = ask_many(&semaphore(&name), 3, 7);
        let dropped = timeout(
            Duration::from_micros(round * 2),
            process.callers.acquire(std::slice::from_ref(&request)),
        );
        drop(dropped.await);
        let own = ask_many(&semaphore(&format!("own{round}")), 1, 1);
        assert!(matches!(acquire(&process, &own).await, Acquired::Granted { limit: 1, .. }));
    }
}

#[tokio::test]
async fn c21_wrong_credentials_and_missing_rights_are_unauthorized() {
    let (server, fixture) = start(RedisOptions::default().password("s3cret"));
    fixture.process().await;
    let port = server.port();
    for url in [format!("redis://127.0.0.1:{port}/"), format!("redis://:wr0ng@127.0.0.1:{port}/")] {
        let error = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
        assert!(!format!("{error:?}").contains("wr0ng"));
        assert_eq!((error.operation(), error.store()), (Some("connect"), Some("redis")));
    }
    command(&fixture, &["ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-set", "-zadd"]).await;
    let url = format!("redis://me:pw@127.0.0.1:{port}/");
    let process = driven(RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap());
    assert_eq!(refusal(&process, &ask(&mutex("m"))).await, ErrorKind::Unauthorized);
    assert_eq!(refusal(&process, &ask(&semaphore("s"))).await, ErrorKind::Unauthorized);
    assert!(fixture.keys().await.is_empty());
}

#[tokio::test]
async fn c3_a_full_server_refuses_and_changes_nothing() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    command(&fixture, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(refusal(&process, &ask(&mutex("n"))).await, ErrorKind::Unavailable);
    let before = fixture.keys().await.len();
    command(&fixture, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(before, 1, "the record of the first mutex");
    granted(&process, &ask(&mutex("n"))).await;
    granted(&process, &request).await;
}

#[tokio::test]
async fn c19_another_database_is_another_store() {
    let (server, fixture) = start(RedisOptions::default());
    granted(&fixture.process().await, &ask(&mutex("m"))).await;
    let url = format!("redis://127.0.0.1:{}/3?namespace={}", server.port(), fixture.namespace);
    let process = driven(RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap());
    granted(&process, &ask(&mutex("m"))).await;
    let url = format!("redis://127.0.0.1:{}/99", server.port());
    let error = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
}

#[tokio::test]
async fn c19_a_unix_socket_leads_to_the_same_names() {
    let (server, fixture) = start(RedisOptions::default().config("unixsocket redis.sock"));
    let request = ask(&mutex("m"));
    granted(&fixture.process().await, &request).await;
    let path = server.dir().join("redis.sock");
    let url = format!("redis+unix://{}?namespace={}", path.display(), fixture.namespace);
    let process = driven(RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap());
    waits(&process, &ask(&mutex("m"))).await;
}

/// C28: the callers of a server that closes each connection at once share its attempts, two a
/// second.
#[tokio::test]
async fn c28_a_server_that_closes_at_once_is_connected_to_twice_a_second() {
    let (server, _) = start(RedisOptions::default());
    let proxy = Proxy::to(&server.url()).unwrap();
    let fixture = Fixture::on(&proxy.url(&server.url()));
    let store = definite(|| fixture.builder().connect()).await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let closing = proxy.on(When::each().named("HELLO"), Action::DropRequest(Then::Fin));
    proxy.close();
    let (before, start) = (proxy.connections().len(), Instant::now());
    let mut waiters = JoinSet::new();
    for _ in 0..50 {
        let mutex = Arc::clone(&mutex);
        waiters.spawn(async move { mutex.lock().await.map(drop) });
    }
    sleep(Duration::from_secs(3)).await;
    let made = (proxy.connections().len() - before) as u128;
    // Each of the three connections of a store can have begun to connect before the first failed.
    let most = start.elapsed().as_millis() / 500 + 3;
    assert!((2..=most).contains(&made), "{made} connections, {most} at most");
    closing.remove();
    while let Some(locked) = within(Duration::from_secs(20), "a lock", waiters.join_next()).await {
        locked.unwrap().unwrap();
    }
}

/// C28: one runtime has a connection of its own, all others go through the engine's thread.
#[tokio::test]
async fn c28_24_runtimes_make_no_connection_each() {
    let (server, _) = start(RedisOptions::default());
    let proxy = Proxy::to(&server.url()).unwrap();
    let builder = Fixture::on(&proxy.url(&server.url())).builder();
    let store = builder.request_timeout(PATIENT).connect().await.unwrap();
    let own = store.mutex("own", MutexOptions::default()).unwrap();
    own.lock().await.unwrap().release().await.unwrap();
    let before = proxy.connections().len();
    // The runtime that has a connection of its own stands still meanwhile.
    std::thread::scope(|scope| {
        for index in 0..24 {
            let mutex = store.mutex(&format!("m{index}"), MutexOptions::default()).unwrap();
            scope.spawn(move || {
                on_another_runtime(|lone| {
                    lone.drive(async {
                        for _ in 0..20 {
                            mutex.lock().await.unwrap().release().await.unwrap();
                            sleep(Duration::from_millis(5)).await;
                        }
                    });
                });
            });
        }
    });
    let made = proxy.connections().len() - before;
    // Their calls' connection, that of the engine, and the one of wake-ups.
    assert!(made <= 3, "{made} connections");
}

#[tokio::test]
async fn c14_wake_ups_come_again_after_their_connection_broke() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let (held, waiter) = (ask(&mutex("m")), ask(&mutex("m")));
    process.wake.watch(&held.object, true);
    for round in 0..3 {
        definite(|| async { process.callers.acquire(std::slice::from_ref(&held)).await.remove(0) })
            .await
            .unwrap();
        definite(|| async { process.callers.acquire(std::slice::from_ref(&waiter)).await.remove(0) })
            .await
            .unwrap();
        release(&process, &held).await;
        let hint = stanchion_conformance::stopwatch::timeout(Duration::from_secs(10), async {
            loop {
                // A broken connection is an error, once.
                match process.wake.next().await {
                    Ok(tickets) if tickets.contains(&waiter.ticket) => return,
                    Ok(_) => {}
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        assert!(hint.await.is_ok(), "no hint in round {round}");
        granted(&process, &waiter).await;
        release(&process, &waiter).await;
        server.kill_clients().unwrap();
        // The broken connections are noticed without a request.
        sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_connections_that_were_dropped_in_silence_are_replaced_within_a_call() {
    let (server, _fixture) = start(RedisOptions::default());
    for parameters in ["", "?protocol=resp2"] {
        let proxy = Proxy::to(&server.url()).unwrap();
        let url = format!("{}{parameters}", proxy.url(&server.url()));
        let store = RedisStore::connect(&url).await.unwrap();
        let drop_all = || proxy.black_hole_for(Scope::Existing, Direction::Both);
        call_over_dropped_connections(&store, drop_all).await;
        call_over_connections_dropped_in_use(&store, drop_all).await;
    }
}

/// It answers what a new connection is asked, and no script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_connection_is_kept_while_writes_are_paused() {
    let (server, _fixture) = start(RedisOptions::default());
    let proxy = Proxy::to(&server.url()).unwrap();
    let store = RedisStore::connect(&proxy.url(&server.url())).await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    // Some end while a new connection is asked.
    for pause in ["600", "700", "800", "900", "1300"] {
        server.command(&["CLIENT", "PAUSE", pause, "WRITE"]).unwrap();
        let (first, second) = tokio::join!(mutex.try_lock(), mutex.try_lock());
        let taken = [first.unwrap(), second.unwrap()].into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(taken.len(), 1, "after {pause} ms");
        for guard in taken {
            guard.release().await.unwrap();
        }
    }
}

/// The server takes no more connections than callers need: what the engine asks goes over theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_while_no_more_connections_can_be_had_all_go_over_one() {
    let mut runs = JoinSet::new();
    for (most, parameters) in [(1, ""), (2, ""), (3, ""), (1, "?protocol=resp2")] {
        runs.spawn(async move {
            let server =
                RedisServer::start(RedisOptions::default().config(format!("maxclients {most}"))).unwrap();
            let store = RedisStore::connect(&format!("{}{parameters}", server.url())).await.unwrap();
            work_over_few_connections(&store, &format!("{most} clients{parameters}")).await;
        });
    }
    while let Some(ran) = runs.join_next().await {
        ran.unwrap();
    }
}
