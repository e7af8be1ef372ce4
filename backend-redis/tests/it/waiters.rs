//! Many waiters on one name: their cost, their order, and the state that is left when they give up.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use crate::common::PATIENT;
use crate::common::private_server::{ServerFixture, until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{CANCELLED, EPSILON, POLL_FLOOR, within};
use stanchion_core::{MutexOptions, SemaphoreOptions, Store, WaitGroupOptions};
use stanchion_redis::RedisStore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Timeout for hundreds of waiters to join or leave, also on a busy machine.
const SETTLING: Duration = Duration::from_secs(10);

/// Checks that waiters cost few commands for 5 s, and at most `max_connections`.
async fn assert_quiet(fixture: &mut ServerFixture, waiters: &str, max_connections: usize) {
    let (before, started) = (fixture.commands().await, Instant::now());
    sleep(Duration::from_secs(5)).await;
    let rate = (fixture.commands().await - before) as f64 / started.elapsed().as_secs_f64();
    let connections = fixture.connections().await;
    println!("{waiters} for 5 s: {rate:.1} commands a second, {connections} connections");
    assert!(rate <= 10.0, "{rate:.1} commands a second");
    assert!(connections <= max_connections, "{connections} connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_idle_waiters_cost_few_commands_and_three_connections() {
    let mut fixture = ServerFixture::start().await;
    let store = fixture.store().await;
    let mutex = store.mutex("held", MutexOptions::default()).expect("a mutex");
    let guard = mutex.lock().await.expect("a lock");
    let mut waiters = JoinSet::new();
    for _ in 0..256 {
        let mutex = Arc::clone(&mutex);
        waiters.spawn(async move { mutex.lock().await.expect("a lock").release().await });
    }
    until(mutex.as_ref(), SETTLING, "256 waiters", |inspection| inspection.waiters == 256).await;
    assert_quiet(&mut fixture, "256 waiters", 3).await;
    guard.release().await.expect("a release");
    while let Some(waiter) = waiters.join_next().await {
        waiter.expect("no panic").expect("a release");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_w3_waiters_of_a_group_cost_few_commands_and_are_told_together() {
    let mut fixture = ServerFixture::start().await;
    let (near, far) = (fixture.store().await, fixture.store().await);
    let group = near.wait_group("batch", WaitGroupOptions::default()).expect("a wait group");
    let member = far.wait_group("batch", WaitGroupOptions::default()).expect("a wait group");
    let member = member.add().await.expect("a member");
    let mut waiters = JoinSet::new();
    for _ in 0..100 {
        let group = Arc::clone(&group);
        waiters.spawn(async move { group.wait().await });
    }
    sleep(Duration::from_millis(500)).await;
    // The connections are those of two stores, of which one has waiters.
    assert_quiet(&mut fixture, "100 waiters of a group", 5).await;
    let before = fixture.commands().await;
    let (asked, watch) = (Instant::now(), Stopwatch::start());
    member.done().await.expect("done");
    for told in within(POLL_FLOOR + EPSILON, "W3: all waiters return", waiters.join_all()).await {
        let outcome = told.expect("zero");
        assert_eq!((outcome.finished, outcome.is_success()), (1, true));
    }
    let told = watch.elapsed();
    let commands = fixture.commands().await - before;
    println!("the last of 100 waiters returned {told:?} after zero, with {commands} commands");
    // Each second of the clock brings the polls of two stores, also if the machine stands still in
    // it.
    let most = 8 + 4 * asked.elapsed().as_secs();
    assert!(commands <= most, "{commands} commands, {most} at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_256_waiters_are_served_in_order_at_few_commands() {
    let mut fixture = ServerFixture::start().await;
    let (near, far) = (fixture.store().await, fixture.store().await);
    let options = || MutexOptions::default().ttl(Duration::from_secs(10));
    let mutexes =
        [near.mutex("busy", options()).expect("a mutex"), far.mutex("busy", options()).expect("a mutex")];
    let guard = mutexes[0].lock().await.expect("a lock");
    let served = Arc::new(StdMutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for index in 0..256_u64 {
        let (waiting, served) = (Arc::clone(&mutexes[(index % 2) as usize]), Arc::clone(&served));
        waiters.spawn(async move {
            let guard = waiting.lock().await.expect("a lock");
            served.lock().expect("no panic").push((guard.fencing_token(), index));
            guard.release().await.expect("a release");
        });
        // One after the other, so that the order of arrival is known.
        until(mutexes[0].as_ref(), SETTLING, "the next waiter", |inspection| inspection.waiters == index + 1)
            .await;
    }
    let before = fixture.commands().await;
    let started = Stopwatch::start();
    guard.release().await.expect("a release");
    while let Some(waiter) = waiters.join_next().await {
        waiter.expect("no panic");
    }
    let took = started.elapsed();
    let commands = fixture.commands().await - before;
    let mut served = served.lock().expect("no panic").clone();
    served.sort_unstable();
    let order: Vec<u64> = served.iter().map(|(_, index)| *index).collect();
    assert_eq!(order, (0..256).collect::<Vec<_>>(), "tokens grow in the order of arrival");
    let each = commands as f64 / 256.0;
    println!("256 waiters served in order in {took:?}, {each:.2} commands each");
    assert!(each <= 4.0, "{each:.2} commands an acquisition");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_100_000_idle_names_leave_nothing() {
    const NAMES: u64 = 100_000;
    let mut fixture = ServerFixture::start().await;
    // An acquire whose answer is late would leave a tombstone that outlasts this test. A request
    // has a third of its lease.
    let (retention, lease) = (Duration::from_secs(1), Duration::from_secs(10));
    let builder = RedisStore::builder(&fixture.server.url()).expect("a URL").retention(retention);
    let store = Arc::new(builder.request_timeout(PATIENT).connect().await.expect("a store"));
    let mut tasks = JoinSet::new();
    for task in 0..100 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for index in 0..NAMES / 100 {
                let name = format!("idle/{task}/{index}");
                match index % 10 {
                    0 => {
                        let options = SemaphoreOptions::new(2).ttl(lease);
                        let semaphore = store.semaphore(&name, options).expect("a semaphore");
                        semaphore.acquire().await.expect("a permit").release().await.expect("a release");
                    }
                    1 => {
                        let options = WaitGroupOptions::default().ttl(lease);
                        let group = store.wait_group(&name, options).expect("a wait group");
                        group.add().await.expect("a member").done().await.expect("done");
                        assert_eq!(group.wait().await.expect("zero").finished, 1);
                    }
                    _ => {
                        let options = MutexOptions::default().ttl(lease);
                        let mutex = store.mutex(&name, options).expect("a mutex");
                        mutex.lock().await.expect("a lock").release().await.expect("a release");
                    }
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    // A key may stay longer by a lease and an eighth of the retention, and the server deletes
    // expired keys gradually.
    let end = Instant::now() + lease + retention * 2 + Duration::from_secs(10);
    loop {
        let left: usize = redis::cmd("DBSIZE").query_async(&mut fixture.raw).await.expect("a size");
        if left <= 17 {
            break;
        }
        assert!(Instant::now() < end, "{left} keys, not the layout and 16 marks alone");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Starts `waiters` tasks, whose waits are dropped at random moments until `cancels` of them were
/// dropped.
async fn random_cancels(waiters: u64, cancels: u64) {
    let fixture = ServerFixture::start().await;
    let store = fixture.store().await;
    let mutex = store.mutex("cancels", MutexOptions::default().ttl(Duration::from_secs(5))).expect("a mutex");
    let left = Arc::new(AtomicU64::new(cancels));
    let held = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for seed in 0..waiters {
        let (mutex, left, held) = (Arc::clone(&mutex), Arc::clone(&left), Arc::clone(&held));
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            // Until the cancels are used up, half of the waits of each task are dropped on the way.
            while left.load(SeqCst) > 0 {
                let patience = Duration::from_micros(random.random_range(0..20_000));
                match timeout(patience, mutex.lock()).await {
                    Ok(guard) => use_it(guard.expect("a lock"), &held).await,
                    Err(_) => drop(left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))),
                }
            }
            use_it(mutex.lock().await.expect("a lock"), &held).await;
        });
    }
    let all = async { while tasks.join_next().await.transpose().expect("no panic").is_some() {} };
    timeout(Duration::from_secs(120), all).await.expect("all others finish");
    until(mutex.as_ref(), CANCELLED, "nothing held or queued", |inspection| {
        inspection.waiters == 0 && inspection.holders.is_empty()
    })
    .await;
}

async fn use_it(guard: stanchion_core::MutexGuard, held: &AtomicU64) {
    assert_eq!(held.fetch_add(1, SeqCst), 0, "one holder at a time");
    tokio::task::yield_now().await;
    held.fetch_sub(1, SeqCst);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_c5_random_cancels_leave_nothing() {
    random_cancels(200, 1_000).await;
}

#[tokio::test]
async fn c4_dropped_at_its_kth_poll_nothing_is_left() {
    use std::future::{Future, poll_fn};
    use std::task::Poll;

    let fixture = ServerFixture::start().await;
    let store = fixture.store().await;
    for held in [false, true] {
        for polls in 0..24 {
            let mutex = store.mutex(&format!("k{polls}{held}"), MutexOptions::default()).expect("a mutex");
            let first = if held { Some(mutex.lock().await.expect("a lock")) } else { None };
            let mut future = Box::pin(mutex.lock());
            for _ in 0..polls {
                if poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(future);
            drop(first);
            until(mutex.as_ref(), CANCELLED, "nothing held or queued", |inspection| {
                inspection.waiters == 0 && inspection.holders.is_empty()
            })
            .await;
        }
    }
}
