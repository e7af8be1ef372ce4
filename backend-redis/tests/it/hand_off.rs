//! How long a hand-off takes, beside a bare `BLPOP` hand-off and one script round trip of the same run.

#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Bed, median, until};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_core::{Mutex, MutexOptions};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

const ROUNDS: usize = 300;

/// From just before a bare push until the blocked other has the element.
async fn bare_hand_off(pusher: &mut MultiplexedConnection, popped: &mut mpsc::Receiver<Instant>) -> Duration {
    // The popper is blocked again well before the push.
    sleep(Duration::from_millis(2)).await;
    let started = Instant::now();
    let _: () = pusher.rpush("bare", 1).await.expect("a push");
    popped.recv().await.expect("a pop").duration_since(started)
}

async fn script_round_trip(connection: &mut MultiplexedConnection, script: &redis::Script) -> Duration {
    let started = Instant::now();
    let _: i64 = script.key("bare-script").invoke_async(connection).await.expect("a script");
    started.elapsed()
}

/// From just before a release until the next waiter has the lock.
async fn our_hand_off(mutex: &Arc<dyn Mutex>, next: &Arc<dyn Mutex>) -> Duration {
    let guard = mutex.lock().await.expect("a lock");
    let waiter = tokio::spawn({
        let next = Arc::clone(next);
        async move {
            let guard = next.lock().await.expect("a lock");
            let got = Instant::now();
            guard.release().await.expect("a release");
            got
        }
    });
    until(mutex.as_ref(), Duration::from_secs(5), "a waiter", |inspection| inspection.waiters == 1).await;
    sleep(Duration::from_millis(2)).await;
    let started = Instant::now();
    guard.release().await.expect("a release");
    waiter.await.expect("no panic").duration_since(started)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_hand_off_is_near_a_bare_one() {
    let bed = Bed::start().await;
    let (near, far) = (bed.store().await, bed.store().await);
    let mutex = near.mutex("hand-off", MutexOptions::default()).expect("a mutex");
    let next = far.mutex("hand-off", MutexOptions::default()).expect("a mutex");
    let (mut pusher, mut popper) = (bed.client().await, bed.client().await);
    let (popped, mut pops) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let mut blocked = redis::cmd("BLPOP");
            let Ok(element) =
                blocked.arg("bare").arg(0.4).query_async::<Option<(String, i64)>>(&mut popper).await
            else {
                return;
            };
            if element.is_some() && popped.send(Instant::now()).await.is_err() {
                return;
            }
        }
    });
    let script = redis::Script::new("redis.call('INCR', KEYS[1]) return 1");
    let (mut ours, mut bare, mut scripts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_hand_off(&mut pusher, &mut pops).await);
        sleep(Duration::from_millis(2)).await;
        scripts.push(script_round_trip(&mut pusher, &script).await);
        ours.push(our_hand_off(&mutex, &next).await);
    }
    let mut sorted = ours.clone();
    sorted.sort();
    let p99 = sorted[sorted.len() * 99 / 100];
    let (ours, bare, scripts) = (median(ours), median(bare), median(scripts));
    let ratio = ours.as_secs_f64() / (bare + scripts).as_secs_f64();
    println!(
        "hand-off p50 {ours:?}, p99 {p99:?}; bare BLPOP hand-off {bare:?} + script {scripts:?}: ratio {ratio:.2}"
    );
    assert!(ours <= Duration::from_millis(5), "M6: p50 {ours:?}");
    assert!(p99 <= Duration::from_millis(50), "M6: p99 {p99:?}");
    assert!(ratio <= 3.0, "far from a bare hand-off: ratio {ratio:.2}");
}
