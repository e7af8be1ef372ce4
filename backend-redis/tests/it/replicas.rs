//! Grants that wait for replicas.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::pin::pin;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::{
    IDLE, beside, definite, eventually, pause, stays_pending, unique, within,
};
use stanchion_core::spi::{Acquire, Acquired, Attach, Kept};
use stanchion_core::{Error, ErrorKind, MutexOptions, Store, Ticket, Ttl};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};

const REQUEST: Duration = Duration::from_millis(1_500);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a primary and a replica that is in step with it.
fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start(RedisOptions::default()).unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let replica = RedisServer::start(RedisOptions::default().config(follow)).unwrap();
    // The replica gets earlier writes with its first copy, and acknowledges only later ones.
    let came = || primary.command(&["INFO", "replication"]).unwrap().contains("state=online").then_some(());
    stanchion_testbed::servers::wait_until(TIMEOUT, came).unwrap();
    primary.command(&["SET", "first", "write"]).unwrap();
    let followed = || primary.is_followed().then_some(());
    stanchion_testbed::servers::wait_until(TIMEOUT, followed).unwrap();
    (primary, replica)
}

fn url(primary: &RedisServer, replicas: u32) -> String {
    // Only the time limit of the requests cuts a login short.
    let times =
        format!("request_timeout_ms={}&connect_timeout_ms={}", REQUEST.as_millis(), TIMEOUT.as_millis());
    format!("{}?replicas={replicas}&{times}", primary.url())
}

/// Makes a process whose grants wait for that many replicas.
async fn waiting_for(primary: &RedisServer, replicas: u32) -> Process {
    let url = url(primary, replicas);
    driven(definite(|| RedisStore::builder(&url).unwrap().steps()).await.unwrap())
}

#[tokio::test]
async fn a_grant_waits_for_its_replicas() {
    let (primary, replica) = pair();
    // A wait for replicas may take a third of a request, which is longer than the replica is paused
    // here.
    let long = |replicas| format!("{}?request_timeout_ms=60000&replicas={replicas}", primary.url());
    let patient = driven(RedisStore::builder(&long(1)).unwrap().steps().await.unwrap());
    let hasty = driven(RedisStore::builder(&long(0)).unwrap().steps().await.unwrap());
    let lease = ttl(180_000);
    let requests: Vec<_> =
        (0..50).map(|index| Acquire { lease, ..ask(&mutex(&format!("m{index}"))) }).collect();
    let records = |server: &RedisServer| {
        let keys = server.command(&["KEYS", "*:m:*"]).unwrap();
        keys.lines().filter(|line| line.starts_with('{')).count()
    };
    // This grant sends the text of the script, and leaves nothing unacknowledged on its connection.
    granted(&patient, &ask(&mutex("earlier"))).await;
    replica.pause().unwrap();
    let mut acquiring = pin!(patient.callers.acquire(&requests));
    let written = eventually(TIMEOUT, "the primary has all", || async { records(&primary) == 51 });
    beside(&mut acquiring, "a grant that no replica has", written).await;
    // A request that asks for no replicas is granted meanwhile.
    granted(&hasty, &ask(&mutex("another"))).await;
    stays_pending(IDLE, "a grant that no replica has", &mut acquiring).await;
    replica.resume().unwrap();
    all(within(TIMEOUT, "the replica goes on", acquiring).await);
    // The replica has all of them without a further wait.
    assert_eq!(records(&replica), 52);
    granted(&patient, &requests[0]).await;
}

/// While it waits, the server answers nothing else on that connection.
#[tokio::test]
async fn c27_a_grant_that_waits_for_its_replicas_holds_up_nothing_else() {
    let (primary, replica) = pair();
    let url = format!("{}?request_timeout_ms=60000&replicas=1", primary.url());
    let process = driven(RedisStore::builder(&url).unwrap().steps().await.unwrap());
    let held = ask(&mutex("held"));
    granted(&process, &held).await;
    replica.pause().unwrap();
    let request = [Acquire { lease: ttl(180_000), ..ask(&mutex("m")) }];
    let mut acquiring = pin!(process.callers.acquire(&request));
    let others = async {
        for _ in 0..20 {
            assert_eq!(process.callers.inspect(&mutex("held")).await.unwrap().holders.len(), 1);
            assert_eq!(all(process.callers.renew(&[renewal(&held)]).await), [Kept::Yes]);
        }
    };
    let others = within(TIMEOUT, "requests that wait for no replica", others);
    beside(&mut acquiring, "a grant that no replica has", others).await;
    replica.resume().unwrap();
    all(within(TIMEOUT, "the replica goes on", acquiring).await);
}

/// Returns the refusal of a request, and how long it took.
async fn refused(process: &Process, request: &Acquire) -> (Error, Duration) {
    let ask = || async { process.callers.acquire(std::slice::from_ref(request)).await.remove(0) };
    let (answer, took) = in_time(REQUEST, ask).await;
    (answer.unwrap_err(), took)
}

#[tokio::test]
async fn too_few_replicas_undo_the_grant() {
    let (primary, replica) = pair();
    let process = waiting_for(&primary, 2).await;
    let request = Acquire { queue: false, ..ask(&mutex("m")) };
    let (error, took) = refused(&process, &request).await;
    assert!(took < REQUEST, "{took:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
    let inspection = definite(|| process.callers.inspect(&request.object)).await.unwrap();
    assert!(inspection.holders.is_empty() && inspection.waiters == 0, "{inspection:?}");
    // The same ticket is granted once there are enough replicas.
    let process = waiting_for(&primary, 1).await;
    granted(&process, &request).await;
    replica.kill().unwrap();
    let (error, _) = refused(&process, &Acquire { queue: false, ..ask(&mutex("n")) }).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let attach = Attach {
        object: mutex("m"),
        from: request.ticket,
        to: Ticket::random(),
        lease: Ttl::DEFAULT,
        label: None,
    };
    let (attached, _) = in_time(REQUEST, || process.callers.attach(&attach)).await;
    let error = attached.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "it was moved, and is not moved back: {error:?}");
    // Renewals and releases do not wait.
    let freed = || async { process.own.release(&[freeing(&request, None)]).await.remove(0) };
    assert_eq!(definite(freed).await.unwrap(), Kept::No);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_without_a_time_limit_waits_for_the_replica() {
    let (primary, replica) = pair();
    let url = url(&primary, 1);
    let store = definite(|| RedisStore::connect(&url)).await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    replica.pause().unwrap();
    // What a request took whose answer was late is not free again at once: the next one asks for
    // another name.
    let try_lock = || {
        let another = store.mutex(&unique("m"), MutexOptions::default()).unwrap();
        async move { another.try_lock().await }
    };
    let error = in_time(REQUEST, try_lock).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let locking = async {
        let guard = mutex.lock().await.unwrap();
        guard.release().await.unwrap();
    };
    let (locked, resumed) = tokio::join!(timeout(TIMEOUT, locking), async {
        pause(Duration::from_secs(1)).await;
        replica.resume()
    });
    locked.unwrap();
    resumed.unwrap();
}

#[tokio::test]
async fn renewals_wait_by_choice() {
    let (primary, replica) = pair();
    let url = format!("{}&confirm_renewals=on", url(&primary, 1));
    let process = driven(definite(|| RedisStore::builder(&url).unwrap().steps()).await.unwrap());
    let held: Vec<_> = [mutex("m"), semaphore("s"), wait_group("g")].iter().map(ask).collect();
    for request in &held {
        let acquire = || async { process.callers.acquire(std::slice::from_ref(request)).await.remove(0) };
        assert!(matches!(definite(acquire).await, Ok(Acquired::Granted { .. })));
    }
    let other = ask(&mutex("m"));
    let renew = |request| {
        let renewals = [renewal(request)];
        let process = &process;
        async move { process.own.renew(&renewals).await.remove(0) }
    };
    replica.pause().unwrap();
    for request in &held {
        let Err(error) = renew(request).await else { panic!("{:?} was renewed", request.object) };
        // Without an answer in time nothing is known of the replica.
        let told = "0 of 1 replicas acknowledged the renewal";
        assert!(error.kind() == ErrorKind::Unknown || error.to_string().contains(told), "{error}");
    }
    replica.resume().unwrap();
    for request in &held {
        assert_eq!(definite(|| renew(request)).await.unwrap(), Kept::Yes);
    }
    assert_eq!(definite(|| renew(&other)).await.unwrap(), Kept::No);
}

/// Redis before 7.2 has no `WAITAOF`.
#[tokio::test]
async fn c22_a_grant_waits_for_the_disk_of_a_server_that_can_tell() {
    let start = |append_only| RedisServer::start(RedisOptions::default().append_only(append_only)).unwrap();
    let (server, forgetful) = (start(true), start(false));
    let connect = |server: &RedisServer| {
        let url = format!("{}&fsync=on", url(server, 0));
        async move { definite(|| RedisStore::builder(&url).unwrap().steps()).await }
    };
    let info = server.command(&["INFO", "server"]).unwrap();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap());
    if (parts.next(), parts.next()) < (Some(7), Some(2)) {
        let error = connect(&server).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        return;
    }
    assert_eq!(connect(&forgetful).await.unwrap_err().kind(), ErrorKind::UnsafeStore);
    let process = driven(connect(&server).await.unwrap());
    let request = ask(&mutex("m"));
    let acquire = || async { process.callers.acquire(std::slice::from_ref(&request)).await.remove(0) };
    assert!(matches!(definite(acquire).await, Ok(Acquired::Granted { .. })));
    assert!(server.command(&["INFO", "commandstats"]).unwrap().contains("cmdstat_waitaof:"));
    // What is written now never gets to the disk by the server's doing.
    server.command(&["CONFIG", "SET", "appendfsync", "no"]).unwrap();
    let (error, _) = refused(&process, &ask(&mutex("n"))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// Everybody is granted in the order in which they came, also where grants were undone meanwhile.
#[tokio::test]
async fn c16_a_grant_that_too_little_keeps_is_undone_to_where_it_stood() {
    let (primary, replica) = pair();
    let (process, holder) = (waiting_for(&primary, 1).await, waiting_for(&primary, 0).await);
    let kept = |request: &Acquire| {
        let (process, request) = (&process, request.clone());
        async move {
            definite(|| async { process.callers.acquire(std::slice::from_ref(&request)).await.remove(0) })
                .await
        }
    };
    for (object, held) in [(mutex("m"), 1), (semaphore("s"), 4), (wait_group("g"), 4)] {
        let limited = |weight| Acquire { limit: 4, weight, ..ask(&object) };
        let of_mutex = |weight| if held == 1 { ask(&object) } else { limited(weight) };
        let first = of_mutex(held);
        granted(&holder, &first).await;
        let line: Vec<_> = (0..3).map(|_| of_mutex(1)).collect();
        for request in &line {
            waits(&process, request).await;
        }
        release(&holder, &first).await;
        // The replica acknowledges nothing: the first one's grant is undone, and it stays first.
        replica.pause().unwrap();
        for _ in 0..2 {
            let (error, _) = refused(&process, &line[0]).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{object:?}: {error:?}");
        }
        let inspection = definite(|| holder.callers.inspect(&object)).await.unwrap();
        assert!(inspection.holders.is_empty() && inspection.waiters == 3, "{object:?}: {inspection:?}");
        if held == 1 {
            waits(&holder, &line[1]).await;
        }
        replica.resume().unwrap();
        for request in &line {
            within(TIMEOUT, "its turn", async {
                while !matches!(kept(request).await, Ok(Acquired::Granted { .. })) {
                    pause(Duration::from_millis(20)).await;
                }
            })
            .await;
            release(&holder, request).await;
        }
    }
}

/// Where nobody holds and nobody waits, whoever is undone waits in front of those who come later.
#[tokio::test]
async fn c16_whoever_is_undone_waits_in_front_of_who_comes_later() {
    let (primary, replica) = pair();
    let process = waiting_for(&primary, 1).await;
    granted(&process, &ask(&mutex("earlier"))).await;
    replica.pause().unwrap();
    let line = [ask(&mutex("m")), ask(&mutex("m"))];
    waits(&process, &line[0]).await;
    let tried = Acquire { queue: false, ..ask(&mutex("n")) };
    let (error, _) = refused(&process, &tried).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let inspection = definite(|| process.callers.inspect(&tried.object)).await.unwrap();
    assert!(inspection.holders.is_empty() && inspection.waiters == 0, "{inspection:?}");
    replica.resume().unwrap();
    waits(&process, &line[1]).await;
    granted(&process, &line[0]).await;
}
