//! Random steps on an object, in random order: the store's state of it stays consistent.

use crate::steps::StepCalls;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use stanchion_core::clock::sleep;
use stanchion_core::spi::{Acquire, Acquired, Attach, Force, Object, ParameterCheck, Split};
use stanchion_core::{Kind, OnMismatch, Result, Ticket};

use super::super::drive::*;
use super::super::harness::{Process, StepHarness};

const STEPS: usize = 1_000;
/// Number of tickets that are used again.
const KNOWN: usize = 20;

fn request(object: &Object, random: &mut StdRng) -> Acquire {
    let first = [OnMismatch::Refuse, OnMismatch::Adopt, OnMismatch::Replace].map(ParameterCheck::First);
    let checks = [&first[..], &[ParameterCheck::Follow; 3]].concat();
    Acquire {
        lease: ttl(random.random_range(300..900)),
        check: *checks.choose(random).expect("a check"),
        queue: random.random_bool(0.7),
        max_waiters: random.random_bool(0.3).then(|| random.random_range(2..=6)),
        ..match object.kind {
            Kind::Mutex => ask(object),
            _ => ask_many(object, random.random_range(1..=4), random.random_range(3..=6)),
        }
    }
}

/// Returns the answers that came in time. A short lease gives a busy store little time. Whether the
/// store executed a request or not, its state must be consistent.
fn came<T>(answers: impl IntoIterator<Item = Result<T>>) -> Vec<T> {
    let in_time = |answer: &Result<T>| !answer.as_ref().is_err_and(|error| error.is_retryable());
    answers.into_iter().filter(in_time).map(|answer| answer.expect("an answer")).collect()
}

/// Runs one random step, on a known or a new ticket.
async fn any(object: &Object, process: &Process, known: &mut Vec<Acquire>, random: &mut StdRng) {
    let old = known.choose(random).cloned().unwrap_or_else(|| ask(object));
    let Acquire { ticket, lease, .. } = old;
    let steps = &process.callers;
    match random.random_range(0..22) {
        0..7 => {
            let new: Vec<_> = (0..random.random_range(1..4)).map(|_| request(object, random)).collect();
            let again = random.random_bool(0.3).then_some(old);
            came(steps.acquire(&[&new[..], again.as_slice()].concat()).await);
            known.extend(new);
        }
        7..11 => {
            acquire(process, &Acquire { queue: random.random_bool(0.8), ..old }).await;
        }
        11 => drop(came(steps.renew(&[renewal(&old), renewal(&old)]).await)),
        12..15 => {
            let tombstone = random.random_bool(0.4).then_some(lease);
            let other = known.choose(random).unwrap_or(&old);
            came(steps.release(&[freeing(&old, tombstone), freeing(other, None)]).await);
        }
        15 => cancel(process, &old).await,
        16 => {
            let to = Ticket::random();
            let attach = Attach { object: object.clone(), from: ticket, to, lease, label: None };
            if came([steps.attach(&attach).await]).iter().any(Option::is_some) {
                known.push(Acquire { ticket: to, ..old });
            }
        }
        17 => drop(poll(process, object).await),
        18 if object.kind == Kind::Semaphore => {
            steps.resize(object, random.random_range(1..=6)).await.expect("an answer");
        }
        19 => {
            let force = if random.random_bool(0.1) { Force::All } else { Force::One(ticket) };
            steps.force(object, force).await.expect("an answer");
        }
        18 | 20 if object.kind == Kind::WaitGroup => {
            let _ = look(process, object, random.random_bool(0.7).then_some(0)).await;
            let into = (0..random.random_range(1..=old.weight)).map(|_| Ticket::random()).collect();
            let split = Split { object: object.clone(), from: ticket, into, lease };
            came([steps.split(&split).await]);
        }
        _ => sleep(Duration::from_millis(random.random_range(0..50))).await,
    }
}

async fn agree(harness: &dyn StepHarness, object: &Object) {
    let processes = [harness.process().await, harness.process().await, harness.process().await];
    let mut random = StdRng::seed_from_u64(7);
    let mut known = Vec::new();
    for _ in 0..STEPS {
        let process = processes.choose(&mut random).expect("a process");
        any(object, process, &mut known, &mut random).await;
        known.drain(..known.len().saturating_sub(KNOWN));
        harness.check(object).await;
    }
    let other = harness.process().await;
    let inspection = other.callers.inspect(object).await.expect("an answer");
    let limit = inspection.limit.unwrap_or(1);
    // Retries until the remaining leases have ended. If no process polled, a grace period comes on
    // top.
    for _ in 0..8 {
        heard(&[&other], object, Duration::from_millis(400)).await;
        let all = Acquire { queue: false, ..ask_many(object, limit, limit) };
        if matches!(acquire(&other, &all).await, Acquired::Waiting { .. }) {
            continue;
        }
        harness.check(object).await;
        return;
    }
    panic!("exactly the limit can be acquired after a while");
}

pub(super) async fn s4_all_that_is_kept_of_a_semaphore_agrees_whatever_is_done(harness: &dyn StepHarness) {
    agree(harness, &semaphore("s")).await;
}

pub(super) async fn m1_all_that_is_kept_of_a_mutex_agrees_whatever_is_done(harness: &dyn StepHarness) {
    agree(harness, &mutex("m")).await;
}

pub(super) async fn w2_all_that_is_kept_of_a_group_agrees_whatever_is_done(harness: &dyn StepHarness) {
    agree(harness, &wait_group("g")).await;
}
