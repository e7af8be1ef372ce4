//! Many concurrent callers under one limit.

use crate::steps::StepCalls;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Attach, Kept};
use stanchion_core::{FencingToken, Ticket};
use tokio::task::JoinSet;

use super::super::drive::*;
use super::super::harness::{Process, StepHarness};
use crate::stopwatch::EPSILON;

const LIMIT: u32 = 7;
const TASKS_A_CLIENT: u64 = 6;
/// Minimum number of grants of each task.
const GRANTS: usize = 5;
const TIME: Duration = Duration::from_secs(4);

/// Acquires permits, checks that no more than the limit are out, and ends the hold in a random way.
async fn round(process: &Process, out: &AtomicU32, random: &mut StdRng) -> Option<FencingToken> {
    let object = semaphore("s");
    let weight = random.random_range(1..=3);
    let request = Acquire { queue: random.random_bool(0.8), ..ask_many(&object, weight, LIMIT) };
    let patience = now() + Duration::from_millis(random.random_range(0..60));
    let token = loop {
        match acquire(process, &request).await {
            Acquired::Granted { token, .. } => break token,
            Acquired::Waiting { .. } if request.queue && now() < patience => {
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
    assert_eq!(renew(process, &request).await, Kept::Yes);
    let mut held = request.clone();
    if random.random_bool(0.3) {
        let to = Ticket::random();
        let attach = Attach { object, from: request.ticket, to, lease: request.lease, label: None };
        assert_eq!(process.callers.attach(&attach).await.expect("an answer").expect("a hold").token, token);
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

pub(super) async fn s1_s4_the_limit_holds_and_every_permit_comes_back(harness: &dyn StepHarness) {
    let out = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    let end = now() + TIME;
    for client in 0..4 {
        let process = harness.process().await;
        for task in 0..TASKS_A_CLIENT {
            let (process, out) = (process.clone(), Arc::clone(&out));
            tasks.spawn(async move {
                let mut random = StdRng::seed_from_u64(client * TASKS_A_CLIENT + task);
                let mut tokens = Vec::new();
                while now() < end || tokens.len() < GRANTS {
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
    let process = harness.process().await;
    let inspection = process.callers.inspect(&semaphore("s")).await.expect("an answer");
    assert_eq!((inspection.holders.len(), inspection.waiters), (0, 0));
    granted(&process, &ask_many(&semaphore("s"), LIMIT, LIMIT)).await;
    waits(&process, &ask_many(&semaphore("s"), 1, LIMIT)).await;
}

pub(super) async fn s3_permits_of_the_dead_come_back_once(harness: &dyn StepHarness) {
    let (dead, live) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    let holds = [(); 3].map(|()| Acquire { lease: ttl(20_000), ..ask_many(&object, 2, LIMIT) });
    for hold in &holds {
        granted(&dead, hold).await;
    }
    let waiter = ask_many(&object, LIMIT, LIMIT);
    waits(&live, &waiter).await;
    // Their leases end soon, and not before it waits.
    shorten(&dead, &holds, ttl(300)).await;
    turn(&live, &waiter, Duration::from_millis(300) + EPSILON).await;
    granted(&live, &waiter).await;
    waits(&live, &Acquire { queue: false, ..ask_many(&object, 1, LIMIT) }).await;
}

pub(super) async fn s1_m2_concurrent_batches_never_exceed_the_limit_and_tokens_grow(
    harness: &dyn StepHarness,
) {
    let (held, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (process, held, last) = (harness.process().await, Arc::clone(&held), Arc::clone(&last));
        tasks.spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..60 {
                let before = last.load(SeqCst);
                let batch: Vec<_> = (1..=4)
                    .map(|weight| Acquire {
                        queue: false,
                        ..ask_many(&semaphore("s"), weight % 2 + 1, LIMIT)
                    })
                    .collect();
                let answers = all(process.callers.acquire(&batch).await);
                let mine: Vec<_> =
                    batch.iter().zip(&answers).filter(|(_, answer)| is_granted(answer)).collect();
                for (request, answer) in &mine {
                    let now = held.fetch_add(u64::from(request.weight), SeqCst) + u64::from(request.weight);
                    assert!(now <= u64::from(LIMIT), "{now} of {LIMIT}");
                    let Acquired::Granted { token, .. } = answer else { continue };
                    assert!(token.get() > before, "a later grant has a larger token");
                    last.fetch_max(token.get(), SeqCst);
                    tokens.push(token.get());
                }
                tokio::task::yield_now().await;
                let releases: Vec<_> = mine
                    .iter()
                    .map(|(request, _)| {
                        held.fetch_sub(u64::from(request.weight), SeqCst);
                        freeing(request, None)
                    })
                    .collect();
                if !releases.is_empty() {
                    assert!(all(process.own.release(&releases).await).iter().all(|kept| *kept == Kept::Yes));
                }
            }
            tokens
        });
    }
    let mut tokens: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "no token twice");
    let inspection = harness.process().await.callers.inspect(&semaphore("s")).await.expect("an answer");
    assert_eq!(inspection.holders.len(), 0);
    println!("{count} grants, never more than {LIMIT} permits");
}
