//! Threads that meet on one name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{mutex, semaphore};
use stanchion_core::{LimiterOptions, Quota, Store};
use stanchion_memory::MemoryStore;

/// Adds one by a read and a write that another holder would tear apart.
async fn bump(counter: &AtomicU64) {
    let seen = counter.load(Ordering::Relaxed);
    if seen.is_multiple_of(16) {
        tokio::task::yield_now().await;
    }
    counter.store(seen + 1, Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn m1_no_two_threads_hold_a_mutex() {
    const ROUNDS: u64 = 5000;
    let store = MemoryStore::new();
    let counter = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (one, counter) = (mutex(&store.client(), "a"), Arc::clone(&counter));
            tokio::spawn(async move {
                let mut last = None;
                for _ in 0..ROUNDS {
                    let guard = one.lock().await.unwrap();
                    assert!(Some(guard.fencing_token()) > last);
                    last = Some(guard.fencing_token());
                    bump(&counter).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), 8 * ROUNDS);
    assert!(store.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c5_cancelled_calls_of_other_threads_lose_no_permit() {
    let store = MemoryStore::new();
    let tasks: Vec<_> = (0..8_u64)
        .map(|seed| {
            let one = semaphore(&store, "a", 3);
            tokio::spawn(async move {
                let mut dice = crate::common::Dice(seed);
                for _ in 0..3000 {
                    let weight = u32::try_from(1 + dice.roll(3)).unwrap();
                    let mut call = one.acquire_many(weight);
                    tokio::select! {
                        biased;
                        permit = &mut call => drop(permit.unwrap()),
                        () = yields(dice.roll(4)) => {}
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let one = semaphore(&store, "a", 3);
    assert_eq!(one.available().await.unwrap(), 3);
    assert_eq!(one.inspect().await.unwrap().waiters, 0);
}

async fn yields(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c17_short_time_limits_lose_no_wake_up() {
    let store = MemoryStore::new();
    let counter = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8_u64)
        .map(|seed| {
            let (one, counter) = (mutex(&store, "a"), Arc::clone(&counter));
            tokio::spawn(async move {
                let mut dice = crate::common::Dice(seed);
                let mut got = 0;
                while got < 300 {
                    let limit = Duration::from_micros(u64::try_from(dice.roll(3000)).unwrap());
                    if let Some(_guard) = one.lock_for(limit).await.unwrap() {
                        bump(&counter).await;
                        got += 1;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), 8 * 300);
}

/// Handles of a name come and go on all threads: its state goes and comes with them, and is never
/// doubled.
#[test]
fn c25_names_that_come_and_go_on_two_threads_keep_exclusion_and_tokens() {
    let store = MemoryStore::new();
    let (counter, largest) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..20_000 {
                        let guard = mutex(&store, "a").lock().await.unwrap();
                        let token = guard.fencing_token().get();
                        assert!(largest.swap(token, Ordering::Relaxed) < token);
                        bump(&counter).await;
                    }
                });
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), 40_000);
    assert!(store.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_threads_share_one_bucket() {
    let store = MemoryStore::new();
    let admitted = Arc::new(AtomicU64::new(0));
    let options = LimiterOptions::new(Quota::per_hour(1).burst(1000));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let limiter = store.client().limiter("a", options.clone()).unwrap();
            let admitted = Arc::clone(&admitted);
            tokio::spawn(async move {
                for _ in 0..1000 {
                    let allowed = limiter.allow().await.unwrap().allowed;
                    admitted.fetch_add(u64::from(allowed), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(admitted.load(Ordering::Relaxed), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn w3_a_group_used_by_all_threads_comes_to_zero_and_everybody_sees_it() {
    let store = MemoryStore::new();
    for round in 0..200 {
        let name = format!("round {round}");
        let group = crate::common::group(&store, &name);
        let members = group.add_many(8).await.unwrap();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let group = crate::common::group(&store, &name);
                tokio::spawn(async move { group.wait().await.unwrap() })
            })
            .collect();
        for member in members {
            tokio::spawn(member.done());
        }
        for waiter in waiting {
            let outcome = waiter.await.unwrap();
            assert_eq!(outcome.finished, 8);
        }
    }
}
