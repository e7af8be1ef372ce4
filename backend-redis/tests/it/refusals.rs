//! Every refusal of a server, by its real cause. A request that was certainly not executed is
//! `Unavailable`, and works again when the cause is gone (C3). The refusals of a cluster are in
//! `cluster.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::steps::StepHarness;
use stanchion_conformance::stopwatch::{EPSILON, timeout};
use stanchion_conformance::support::{eventually, within};
use stanchion_core::spi::{Acquire, Acquired, Force, Kept, Renew};
use stanchion_core::{Error, ErrorKind, ListOptions, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::time::sleep;

async fn refusal(process: &Process, name: &str) -> Error {
    process.callers.acquire(&[ask(&mutex(name))]).await.remove(0).unwrap_err()
}

/// Checks that requests are refused with this code, that the refusal is certain, and that no key
/// was made.
async fn refused_for_now(fixture: &Fixture, process: &Process, code: &str) {
    let before = fixture.keys().await.len();
    for name in ["refused", "held"] {
        let error = refusal(process, name).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error:?}");
        assert!(error.to_string().contains(code), "{name}: {error}");
    }
    assert_eq!(fixture.keys().await.len(), before);
}

fn set(server: &RedisServer, setting: &str, value: &str) {
    assert_eq!(server.command(&["CONFIG", "SET", setting, value]).unwrap(), "+OK\r\n", "{setting} {value}");
}

#[tokio::test]
async fn noscript_is_answered_with_the_text() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("a"))).await;
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    granted(&process, &ask(&mutex("b"))).await;
}

/// Some hosted servers take commands away.
#[tokio::test]
async fn c21_a_command_that_the_server_lacks_is_named() {
    let away = |command: &str| format!("rename-command {command} \"\"");
    let (server, fixture) = start(RedisOptions::default().config(away("SCAN")).config(away("BLPOP")));
    let store = RedisStore::builder(&server.url()).unwrap().namespace(&fixture.namespace);
    let store = store.connect().await.unwrap();
    assert!(!store.capabilities().wake_ups);
    let error = store.list(ListOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("a command of a script: 'scan'"), "{error}");
    // A waiter asks by itself.
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let (held, waiting) = (mutex.lock().await.unwrap(), tokio::spawn(async move { mutex.lock().await }));
    sleep(Duration::from_millis(100)).await;
    held.release().await.unwrap();
    drop(within(Duration::from_secs(1) + EPSILON, "its turn", waiting).await.unwrap().unwrap());
}

/// A server that answers nobody for a while is not taken for one of another protocol.
#[tokio::test]
async fn c21_a_server_that_is_paused_is_told() {
    let (server, _fixture) = start(RedisOptions::default());
    server.pause_clients(Duration::from_secs(60)).unwrap();
    let builder = RedisStore::builder(&server.url()).unwrap().request_timeout(EPSILON);
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("is the server paused or busy?"), "{error}");
}

#[tokio::test]
async fn oom_readonly_and_noreplicas_change_nothing() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("held"))).await;
    for (code, setting, refusing, serving) in
        [("OOM", "maxmemory", "1", "0"), ("NOREPLICAS", "min-replicas-to-write", "1", "0")]
    {
        set(&server, setting, refusing);
        refused_for_now(&fixture, &process, code).await;
        set(&server, setting, serving);
        granted(&process, &ask(&mutex(code))).await;
    }
    // A replica of no server.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    refused_for_now(&fixture, &process, "READONLY").await;
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    granted(&process, &ask(&mutex("READONLY"))).await;
}

#[tokio::test]
async fn what_frees_needs_no_memory() {
    let (server, fixture) = start(RedisOptions::default());
    let (process, mut raw) = (fixture.process().await, fixture.raw().await);
    let group = wait_group("g");
    let [uncontended, doubted, forced] = ["uncontended", "doubted", "forced"].map(|name| ask(&mutex(name)));
    let [held, cancelled] = [1, 2].map(|_| ask_many(&semaphore("s"), 2, 4));
    let (member, waiter, gone) = (ask_many(&group, 1, 9), ask(&semaphore("s")), ask(&semaphore("s")));
    for request in [&uncontended, &doubted, &forced, &held, &cancelled, &member] {
        granted(&process, request).await;
    }
    waits(&process, &gone).await;
    waits(&process, &waiter).await;
    let key = fixture.keys().await.into_iter().find(|key| key.ends_with(":m:uncontended")).unwrap();
    // As if the clock had gone back by some years since the grant.
    fixture.set_token(&uncontended.object, 3_000_000_000_000_000).await;
    set(&server, "maxmemory", "1");
    assert_eq!(refusal(&process, "new").await.kind(), ErrorKind::Unavailable);
    let tried = Acquire { queue: false, ..ask(&uncontended.object) };
    assert!(matches!(acquire(&process, &tried).await, Acquired::Waiting { .. }), "a definite no");
    for held in [&uncontended, &held, &doubted, &member] {
        let renew = Renew { object: held.object.clone(), ticket: held.ticket, lease: held.lease };
        assert_eq!(one(process.own.renew(&[renew]).await), Kept::Yes);
    }
    assert_eq!(release(&process, &uncontended).await, Kept::Yes);
    let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await.unwrap();
    assert_eq!(left, -2, "no key");
    let in_doubt = freeing(&doubted, Some(doubted.lease));
    assert_eq!(one(process.own.release(&[in_doubt]).await), Kept::Yes);
    assert_eq!(process.callers.force(&forced.object, Force::All).await.unwrap(), 1);
    assert_eq!(release(&process, &member).await, Kept::Yes);
    cancel(&process, &gone).await;
    cancel(&process, &cancelled).await;
    assert_eq!(process.hint().await, waiter.ticket);
    assert_eq!(release(&process, &held).await, Kept::Yes);
    // A cancel works also without a hold: the acquire may be under way.
    let late = ask(&mutex("late"));
    cancel(&process, &late).await;
    assert_eq!(refusal(&process, "new").await.kind(), ErrorKind::Unavailable);
    set(&server, "maxmemory", "0");
    for request in [&doubted, &forced, &cancelled, &gone, &late] {
        assert_eq!(acquire(&process, request).await, Acquired::Cancelled);
    }
    assert!(
        granted(&process, &ask(&uncontended.object)).await.get() >= 3_000_000_000_000_000,
        "larger than the token before"
    );
    cancel(&process, &waiter).await;
    for request in [&ask_many(&semaphore("s"), 4, 4), &ask(&doubted.object), &ask(&forced.object)] {
        granted(&process, request).await;
    }
}

#[tokio::test]
async fn masterdown_is_certain() {
    let (server, fixture) = start(RedisOptions::default().config("replica-serve-stale-data no"));
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("held"))).await;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let error = refusal(&process, "m").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("MASTERDOWN"), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    granted(&process, &ask(&mutex("m"))).await;
}

#[tokio::test]
async fn misconf_is_certain() {
    let (server, fixture) = start(RedisOptions::default().config("enable-protected-configs yes"));
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("held"))).await;
    let gone = server.dir().join("gone");
    std::fs::create_dir(&gone).unwrap();
    set(&server, "save", "3600 1");
    set(&server, "dir", gone.to_str().unwrap());
    std::fs::remove_dir(&gone).unwrap();
    server.command(&["BGSAVE"]).unwrap();
    while !server.command(&["INFO", "persistence"]).unwrap().contains("rdb_last_bgsave_status:err") {
        sleep(Duration::from_millis(20)).await;
    }
    refused_for_now(&fixture, &process, "MISCONF").await;
    set(&server, "save", "");
    granted(&process, &ask(&mutex("m"))).await;
}

#[tokio::test]
async fn busy_is_certain() {
    let (server, fixture) = start(RedisOptions::default().config("busy-reply-threshold 50"));
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("held"))).await;
    let mut raw = fixture.raw().await;
    let looping = tokio::spawn(async move {
        let mut eval = redis::cmd("EVAL");
        let _: redis::RedisResult<()> = eval.arg("while true do end").arg(0).query_async(&mut raw).await;
    });
    let error = loop {
        // Only then the loop counts as busy. Before, the request is answered, or its answer does
        // not come.
        match process.callers.acquire(&[ask(&mutex("m"))]).await.remove(0) {
            Err(error) if error.to_string().contains("BUSY") => break error,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(server.command(&["SCRIPT", "KILL"]).unwrap(), "+OK\r\n");
    looping.await.unwrap();
    granted(&process, &ask(&mutex("n"))).await;
}

#[tokio::test]
async fn loading_is_certain() {
    let options = RedisOptions::default()
        .config("enable-debug-command yes")
        .config("loading-process-events-interval-bytes 1024");
    let (server, fixture) = start(options);
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("held"))).await;
    server.command(&["DEBUG", "POPULATE", "1000", "filler", "100"]).unwrap();
    // Loading takes three seconds in all.
    set(&server, "key-load-delay", "3000");
    let mut raw = fixture.raw().await;
    let reload = tokio::spawn(async move {
        let _: redis::RedisResult<()> = redis::cmd("DEBUG").arg("RELOAD").query_async(&mut raw).await;
    });
    let loading = || async { server.command(&["PING"]).is_ok_and(|answer| answer.contains("LOADING")) };
    eventually(Duration::from_secs(10), "the server loads", loading).await;
    let error = refusal(&process, "m").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("LOADING"), "{error}");
    reload.await.unwrap();
    while server.command(&["PING"]).unwrap_or_default() != "+PONG\r\n" {
        sleep(Duration::from_millis(50)).await;
    }
    granted(&process, &ask(&mutex("m"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unblocked_is_waited_out() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let blocked = || {
        let list = server.command(&["CLIENT", "LIST"]).unwrap();
        let line = list.lines().find(|line| line.contains(" flags=b ") && line.contains("cmd=blpop"))?;
        Some(line.strip_prefix("id=")?.split(' ').next()?.to_owned())
    };
    let unblock = async || {
        let id = loop {
            match blocked() {
                Some(id) => break id,
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        server.command(&["CLIENT", "UNBLOCK", &id, "ERROR"]).unwrap();
    };
    let (hint, ()) = tokio::join!(process.wake.next(), unblock());
    let error = hint.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("UNBLOCKED"), "{error}");
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    unblock().await;
    guard.release().await.unwrap();
    drop(timeout(Duration::from_secs(2), waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn noauth_and_wrongpass_are_unauthorized() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    granted(&process, &ask(&mutex("a"))).await;
    let mut raw = fixture.raw().await;
    set(&server, "requirepass", "s3cret");
    // A client that is logged in stays; a new connection has to log in.
    let mut kill = redis::cmd("CLIENT");
    let _: u64 = kill.arg("KILL").arg("SKIPME").arg("yes").query_async(&mut raw).await.unwrap();
    let asking = async {
        loop {
            let error = refusal(&process, "b").await;
            // The end of the old connection may be noticed by this very request, and a login may
            // take too long.
            if !matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable) {
                return error;
            }
        }
    };
    let error = within(Duration::from_secs(1), "another connection", asking).await;
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
    let wrong = format!("redis://:wr0ng@127.0.0.1:{}/", server.port());
    let wrong = RedisStore::builder(&wrong).unwrap().request_timeout(PATIENT);
    let error = wrong.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
    assert!(!format!("{error:?}").contains("wr0ng"));
}

#[tokio::test]
async fn noperm_names_what_is_missing() {
    for (right, words) in [("-evalsha", "evalsha"), ("-set", "'set'"), ("resetkeys ~other", "key")] {
        let (server, fixture) = start(RedisOptions::default().user("me", ">pw ~* +@all"));
        let url = format!("redis://me:pw@127.0.0.1:{}/?namespace={}", server.port(), fixture.namespace);
        let process =
            driven(RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap());
        let rules: Vec<_> = ["ACL", "SETUSER", "me"].into_iter().chain(right.split(' ')).collect();
        assert_eq!(server.command(&rules).unwrap(), "+OK\r\n");
        let error = refusal(&process, "m").await;
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{right}: {error:?}");
        assert!(error.to_string().contains(words), "{right}: {error}");
        assert!(fixture.keys().await.is_empty());
    }
}

#[tokio::test]
async fn a_server_that_takes_no_more_clients_was_not_asked() {
    let (server, fixture) = start(RedisOptions::default().config("maxclients 4"));
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(fixture.raw().await);
    }
    let error = fixture.builder().steps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains(&server.port().to_string()), "{error}");
    drop(others);
    let room = || async { fixture.builder().steps().await.is_ok() };
    eventually(Duration::from_secs(10), "there is room", room).await;
    granted(&fixture.process().await, &ask(&mutex("m"))).await;
}
