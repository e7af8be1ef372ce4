//! Whatever is done, an object's row agrees with its holds and waiters.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use stanchion_core::OnMismatch;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Attach, Force, GroupSteps, LimitCheck, PermitSteps, Renew, Split,
};

use super::groups::{look, wait_group};
use super::*;

/// What does not agree, of all objects of the namespace.
const WRONG: &str = "
SELECT x.name || ': used ' || x.used || ', waiting ' || x.waiting || ', next ' || x.next || '; held ' ||
       coalesce(h.used, 0) || ', queued ' || coalesce(w.waiting, 0) || ', first ' || coalesce(h.first, -1)
FROM stanchion.objects x
LEFT JOIN (SELECT object, sum(weight)::bigint AS used, min(expiry) AS first, max(token) AS token
           FROM stanchion.holds GROUP BY object) h ON h.object = x.id
LEFT JOIN (SELECT object, count(*) AS waiting, max(arrival) AS arrival, max(weight) AS heaviest, max(lease) AS longest
           FROM stanchion.waiters GROUP BY object) w ON w.object = x.id
LEFT JOIN (SELECT object, max(expiry) AS last FROM stanchion.tombstones GROUP BY object) t ON t.object = x.id
WHERE x.namespace = $N AND (
    x.used <> coalesce(h.used, 0) OR x.waiting <> coalesce(w.waiting, 0) OR x.next > h.first OR x.token < h.token
    OR x.arrival < w.arrival OR x.heaviest < w.heaviest OR x.longest < w.longest OR x.buried < t.last)";

/// One request at random.
async fn any(object: &Object, process: &Process, known: &mut Vec<Acquire>, random: &mut StdRng) {
    let steps = &process.callers;
    let some = known.choose(random).cloned().unwrap_or_else(|| ask_many(object, 1, 4));
    match random.random_range(0..12) {
        0..4 => {
            let weight = if object.kind == Kind::Mutex { 1 } else { random.random_range(1..=4) };
            let limit = if object.kind == Kind::Mutex { 1 } else { random.random_range(3..=5) };
            let checks = [OnMismatch::Refuse, OnMismatch::Adopt, OnMismatch::Replace];
            let entry = |random: &mut StdRng| Acquire {
                lease: ttl(random.random_range(300..900)),
                check: LimitCheck::First(*checks.choose(random).unwrap()),
                queue: random.random_bool(0.7),
                max_waiters: random.random_bool(0.3).then_some(2),
                ..ask_many(object, weight, limit)
            };
            let mut batch: Vec<_> = (0..random.random_range(1..4)).map(|_| entry(random)).collect();
            batch.push(some);
            for (entry, answer) in batch.iter().zip(all(steps.acquire(&batch).await)) {
                if matches!(answer, Acquired::Granted { .. } | Acquired::Waiting { .. }) {
                    known.push(entry.clone());
                }
            }
        }
        4 => {
            let renew = Renew { object: object.clone(), ticket: some.ticket, lease: ttl(600) };
            all(steps.renew(&[renew.clone(), renew]).await);
        }
        5 | 6 => {
            let tombstone = random.random_bool(0.5).then(|| ttl(400));
            let other = known.choose(random).unwrap_or(&some);
            all(steps.release(&[freeing(&some, tombstone), freeing(other, None)]).await);
        }
        7 => cancel(process, &some).await,
        8 => drop(poll(process, object).await),
        9 => {
            let to = Ticket::random();
            let attach =
                Attach { object: object.clone(), from: some.ticket, to, lease: ttl(600), label: None };
            let _ = steps.attach(&attach).await.unwrap();
            known.push(Acquire { ticket: to, ..some });
        }
        10 if random.random_bool(0.2) => {
            let force = if random.random_bool(0.5) { Force::All } else { Force::One(some.ticket) };
            let _ = steps.force(object, force).await.unwrap();
        }
        10 if object.kind == Kind::Semaphore => {
            steps.resize(object, random.random_range(2..=5)).await.unwrap();
        }
        _ if object.kind == Kind::WaitGroup => {
            let _ = look(process, object, Some(0)).await;
            let into = vec![Ticket::random(), Ticket::random()];
            let split = Split { object: object.clone(), from: some.ticket, into, lease: ttl(600) };
            let _ = steps.split(&split).await.unwrap();
        }
        _ => sleep(Duration::from_millis(random.random_range(1..120))).await,
    }
}

async fn agree(object: Object) {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await];
    let mut raw = bed.raw().await;
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut known = Vec::new();
        for step in 0..120 {
            let process = &processes[random.random_range(0..2)];
            any(&object, process, &mut known, &mut random).await;
            let wrong = bed.execute(&mut raw, WRONG).await;
            let wrong: Vec<String> = wrong.iter().map(|row| row.get(0)).collect();
            assert_eq!(wrong, Vec::<String>::new(), "seed {seed}, step {step}");
        }
    }
}

#[tokio::test]
async fn s4_row_holds_and_queue_of_a_semaphore_agree_whatever_is_done() {
    agree(semaphore("s")).await;
}

#[tokio::test]
async fn m1_row_holds_and_queue_of_a_mutex_agree_whatever_is_done() {
    agree(mutex("m")).await;
}

#[tokio::test]
async fn w2_row_holds_and_queue_of_a_group_agree_whatever_is_done() {
    agree(wait_group("g")).await;
}
