//! The cost of a hand-off on the wire, if its wake-up arrives. The benchmarks measure its time.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::PATIENT;
use crate::common::private_server::{ServerFixture, until};
use stanchion_conformance::support::{spawn, within};
use stanchion_core::{Mutex, MutexOptions, OnMismatch, SemaphoreOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Mark, Proxy};

const ROUNDS: usize = 50;
/// Timeout for a waiter to join, also on a busy machine.
const SETTLING: Duration = Duration::from_secs(10);

/// Makes a client, and the proxy that its requests go through.
async fn client(fixture: &ServerFixture) -> (Proxy, Arc<dyn Mutex>) {
    let proxy = Proxy::to(&fixture.server.url()).expect("a proxy");
    let builder =
        RedisStore::builder(&proxy.url(&fixture.server.url())).expect("a URL").request_timeout(PATIENT);
    let store = builder.connect().await.expect("a store");
    let mutex = store.mutex("hand-off", MutexOptions::default()).expect("a mutex");
    (proxy, mutex)
}

/// Returns the number of calls of scripts since `since`.
fn scripts(proxy: &Proxy, since: Mark) -> usize {
    proxy.requests_matching(since, |request| request.name.starts_with("EVAL")).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_m6_a_hand_off_costs_one_script_of_the_waiter() {
    let fixture = ServerFixture::start().await;
    let ((holder, mutex), (waiter, next)) = (client(&fixture).await, client(&fixture).await);
    let (mut released, mut taken) = (0, 0);
    for _ in 0..ROUNDS {
        let guard = mutex.lock().await.expect("a lock");
        let waiting = spawn({
            let next = Arc::clone(&next);
            async move { next.lock().await.expect("a lock") }
        });
        until(mutex.as_ref(), SETTLING, "a waiter", |inspection| inspection.waiters == 1).await;
        let marks = (holder.mark(), waiter.mark());
        guard.release().await.expect("a release");
        let guard = waiting.join().await;
        released += scripts(&holder, marks.0);
        taken += scripts(&waiter, marks.1);
        guard.release().await.expect("a release");
    }
    println!("{ROUNDS} hand-offs: {released} scripts of the holder, {taken} of the waiter");
    assert!(released <= 2 * ROUNDS, "{released} scripts of the holder");
    // A waiter that is not woken polls first, which makes two scripts for each hand-off.
    assert!((ROUNDS..ROUNDS * 3 / 2).contains(&taken), "{taken} scripts of the waiter");
}

/// Returns how often a script has pushed to a mailbox.
async fn pushes(fixture: &mut ServerFixture) -> u64 {
    let info: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut fixture.raw).await.expect("commandstats");
    let of_push = info.lines().find_map(|line| line.strip_prefix("cmdstat_rpush:calls="));
    of_push.map_or(0, |line| line.split(',').next().unwrap_or_default().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_c27_a_step_that_lets_many_in_tells_each_process_few_times() {
    const MANY: u32 = 400;
    let mut fixture = ServerFixture::start().await;
    let stores = [fixture.store().await, fixture.store().await];
    for (name, limit) in [("release", MANY), ("resize", 1)] {
        let options = || SemaphoreOptions::new(limit).on_mismatch(OnMismatch::Adopt);
        let semaphore = stores[0].semaphore(name, options()).expect("a semaphore");
        let held = semaphore.acquire_many(limit).await.expect("all of it");
        let mut waiting = Vec::new();
        for number in 0..MANY {
            let store = &stores[usize::try_from(number % 2).expect("0 or 1")];
            let waiter = store.semaphore(name, options()).expect("a semaphore");
            waiting.push(spawn(async move { waiter.acquire().await.expect("a permit") }));
        }
        within(SETTLING * 3, "all wait", async {
            while semaphore.inspect().await.expect("a state").waiters < u64::from(MANY) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let before = pushes(&mut fixture).await;
        if limit == 1 {
            semaphore.resize(MANY + 1).await.expect("an answer");
        } else {
            held.release().await.expect("a release");
        }
        let mut permits = Vec::new();
        for waiter in waiting {
            permits.push(within(SETTLING * 3, "all fit", waiter.join()).await);
        }
        let pushed = pushes(&mut fixture).await - before;
        println!("{name}: {pushed} pushes let {MANY} in");
        assert!(pushed <= 40, "{pushed} pushes");
    }
}
