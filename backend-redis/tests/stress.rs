//! Many clients at once, under one limit.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use harness::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use stanchion_core::engine::steps::{Acquire, Acquired, Attach, Kept, PermitSteps, Renew};
use stanchion_core::{FencingToken, Ticket};
use stanchion_redis::StepsOfStore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const LIMIT: u32 = 7;
const TASKS_A_CLIENT: u64 = 6;
const TIME: Duration = Duration::from_secs(4);

/// Takes permits, sees that no more than the limit are out, and gives them up in one of the possible ways.
async fn round(process: &StepsOfStore, out: &AtomicU32, random: &mut StdRng) -> Option<FencingToken> {
    let object = semaphore("s");
    let weight = random.random_range(1..=3);
    let request = Acquire { queue: random.random_bool(0.8), ..ask_many(&object, weight, LIMIT) };
    let patience = Instant::now() + Duration::from_millis(random.random_range(0..60));
    let token = loop {
        match acquire(process, &request).await {
            Acquired::Granted { token, .. } => break token,
            Acquired::Waiting { .. } if request.queue && Instant::now() < patience => {
                poll(process, &object).await;
                sleep(Duration::from_millis(random.random_range(0..3))).await;
            }
            Acquired::Waiting { .. } => {
                cancel(process, &request).await;
                assert_eq!(acquire(process, &request).await, Acquired::Cancelled);
                return None;
            }
            other => panic!("{other:?}"),
        }
    };
    let before = out.fetch_add(weight, SeqCst);
    assert!(before + weight <= LIMIT, "{before} and {weight} permits are out");
    assert_eq!(granted(process, &request).await, token);
    let renew = Renew { object: object.clone(), ticket: request.ticket, lease: request.lease };
    assert_eq!(all(process.own.renew(&[renew]).await), [Kept::Yes]);
    let mut held = request.clone();
    if random.random_bool(0.3) {
        let to = Ticket::random();
        let attach = Attach { object, from: request.ticket, to, lease: request.lease, label: None };
        assert_eq!(process.callers.attach(&attach).await.unwrap().unwrap().token, token);
        held.ticket = to;
    }
    out.fetch_sub(weight, SeqCst);
    if random.random_bool(0.5) {
        assert_eq!(release(process, &held).await, Kept::Yes);
    } else {
        cancel(process, &held).await;
    }
    Some(token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_s4_the_limit_holds_and_every_permit_comes_back() {
    let bed = Bed::shared();
    let out = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    let end = Instant::now() + TIME;
    for client in 0..4 {
        let process = bed.process().await;
        for task in 0..TASKS_A_CLIENT {
            let (process, out) = (process.clone(), Arc::clone(&out));
            tasks.spawn(async move {
                let mut random = StdRng::seed_from_u64(client * TASKS_A_CLIENT + task);
                let mut tokens = Vec::new();
                while Instant::now() < end {
                    tokens.extend(round(&process, &out, &mut random).await);
                }
                assert!(tokens.is_sorted(), "tokens grow");
                tokens
            });
        }
    }
    let mut tokens = tasks.join_all().await.concat();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "no token is given twice");
    println!("{count} grants");
    assert!(count > 100, "{count} grants in {TIME:?}");
    let process = bed.process().await;
    let inspection = process.callers.inspect(&semaphore("s")).await.unwrap();
    assert_eq!((inspection.holders.len(), inspection.waiters), (0, 0));
    granted(&process, &ask_many(&semaphore("s"), LIMIT, LIMIT)).await;
    waits(&process, &ask_many(&semaphore("s"), 1, LIMIT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_permits_of_the_dead_come_back_once() {
    let bed = Bed::shared();
    let (dead, live) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    for _ in 0..3 {
        granted(&dead, &Acquire { lease: ttl(300), ..ask_many(&object, 2, LIMIT) }).await;
    }
    let waiter = ask_many(&object, LIMIT, LIMIT);
    waits(&live, &waiter).await;
    turn(&live, &waiter, Duration::from_millis(800)).await;
    granted(&live, &waiter).await;
    waits(&live, &Acquire { queue: false, ..ask_many(&object, 1, LIMIT) }).await;
}
