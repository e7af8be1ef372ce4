//! What a hand-off costs on the wire, when its wake-up arrives. How long it takes is for the benchmarks.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Bed, until};
use stanchion_conformance::support::spawn;
use stanchion_core::{Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Mark, Proxy};

const ROUNDS: usize = 50;
/// Long enough for a waiter to join on a busy machine.
const SETTLING: Duration = Duration::from_secs(10);

/// A client and the way that its requests take.
async fn client(bed: &Bed) -> (Proxy, Arc<dyn Mutex>) {
    let way = Proxy::to(&bed.server.url()).expect("a proxy");
    let store = RedisStore::connect(&way.url(&bed.server.url())).await.expect("a store");
    let mutex = store.mutex("hand-off", MutexOptions::default()).expect("a mutex");
    (way, mutex)
}

/// Calls of scripts since then.
fn scripts(way: &Proxy, since: Mark) -> usize {
    way.requests_matching(since, |request| request.name.starts_with("EVAL")).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_m6_a_hand_off_costs_one_script_of_the_waiter() {
    let bed = Bed::start().await;
    let ((holder, mutex), (waiter, next)) = (client(&bed).await, client(&bed).await);
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
    // Who is not woken asks whose turn it is first: two for each hand-off.
    assert!((ROUNDS..ROUNDS * 3 / 2).contains(&taken), "{taken} scripts of the waiter");
}
