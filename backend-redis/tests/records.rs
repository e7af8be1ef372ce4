//! Whatever is done to an object, in whichever order: its record, its expiries and its queue agree.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use harness::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Attach, Cancel, Force, LimitCheck, Object, PermitSteps, Renew,
};
use stanchion_core::{Kind, OnMismatch, Ticket};
use stanchion_redis::StepsOfStore;
use tokio::time::sleep;

const STEPS: usize = 1_500;

/// H, E and Q as they are.
type Contents = (HashMap<String, String>, Vec<(String, f64)>, Vec<String>);

/// The keys of the one object of a namespace.
struct Keys {
    record: String,
    expiries: String,
    queue: String,
}

impl Keys {
    async fn of(bed: &Bed, kind: char) -> Option<Self> {
        let keys = bed.keys().await;
        let mark = format!("}}:{kind}:");
        let record = keys.into_iter().find(|key| key.contains(&mark))?;
        let of_kind = |part: &str| record.replace(&mark, &format!("}}:{kind}{part}:"));
        Some(Self { expiries: of_kind("e"), queue: of_kind("q"), record })
    }

    async fn check(&self, raw: &mut MultiplexedConnection) {
        let kind: String = redis::cmd("TYPE").arg(&self.record).query_async(raw).await.unwrap();
        if kind == "string" {
            return self.check_plain(raw).await;
        }
        let (fields, expiries, queue): Contents = redis::pipe()
            .atomic()
            .hgetall(&self.record)
            .cmd("ZRANGE")
            .arg(&[&self.expiries, "0", "-1", "WITHSCORES"])
            .cmd("ZRANGE")
            .arg(&[&self.queue, "0", "-1"])
            .query_async(raw)
            .await
            .unwrap();
        let number = |field: &str| fields.get(field).map_or(0, |value| value.parse::<u64>().unwrap());
        let of_kind = |kind: char| -> BTreeSet<&str> {
            let long = fields.keys().filter(|field| field.len() == 33);
            long.filter_map(|field| field.strip_prefix(kind)).collect()
        };
        let word =
            |field: &str, index: usize| fields[field].split(' ').nth(index).unwrap().parse::<u64>().unwrap();
        let holds = of_kind('h');
        let used: u64 = holds.iter().map(|ticket| word(&format!("h{ticket}"), 2)).sum();
        assert_eq!(number("used"), used, "{fields:?}");
        assert_eq!(of_kind('w'), queue.iter().map(String::as_str).collect(), "{fields:?}");
        assert_eq!(number("n"), queue.len() as u64, "{fields:?}");
        let expiring: BTreeSet<&str> = expiries.iter().map(|(member, _)| member.as_str()).collect();
        let tombstones: Vec<_> = of_kind('x').iter().map(|ticket| format!("x{ticket}")).collect();
        let recorded = holds.iter().copied().chain(tombstones.iter().map(String::as_str));
        assert_eq!(expiring, recorded.chain(["!"]).collect(), "{fields:?}");
        for (member, expiry) in &expiries {
            assert!(*expiry >= number("next") as f64, "{member} at {expiry}: {fields:?}");
            if holds.contains(member.as_str()) {
                assert_eq!(word(&format!("h{member}"), 0) as f64, *expiry);
            }
        }
    }
}

impl Keys {
    /// A mutex that nobody waits for: one string and nothing beside it.
    async fn check_plain(&self, raw: &mut MultiplexedConnection) {
        let (value, left, beside): (String, i64, u32) = redis::pipe()
            .atomic()
            .get(&self.record)
            .pttl(&self.record)
            .exists(&[&self.expiries, &self.queue])
            .query_async(raw)
            .await
            .unwrap();
        assert_eq!(beside, 0, "{value}");
        assert!(left > 24 * 60 * 60 * 1000, "{value} stays for {left} ms");
        let widths: Vec<_> = value.split(' ').map(str::len).collect();
        let free = value.starts_with('=') && widths == [17, 16];
        assert!(free || widths == [32, 16, 16, 16, 1, 16], "{value}");
    }
}

fn request(object: &Object, random: &mut StdRng) -> Acquire {
    let checks = [LimitCheck::Follow, LimitCheck::Follow, LimitCheck::First(OnMismatch::Replace)];
    Acquire {
        lease: ttl(random.random_range(100..400)),
        check: *checks.choose(random).unwrap(),
        queue: random.random_bool(0.7),
        max_waiters: random.random_bool(0.3).then_some(6),
        ..match object.kind {
            Kind::Semaphore => ask_many(object, random.random_range(1..=4), random.random_range(3..=6)),
            _ => ask(object),
        }
    }
}

/// One step of any kind, on a ticket used before or a new one.
async fn any(object: &Object, process: &StepsOfStore, known: &mut Vec<Acquire>, random: &mut StdRng) {
    let object = object.clone();
    let old = known.choose(random).cloned().unwrap_or_else(|| ask(&object));
    let Acquire { ticket, lease, .. } = old;
    let steps = &process.callers;
    match random.random_range(0..20) {
        0..7 => {
            let new = request(&object, random);
            all(steps.acquire(std::slice::from_ref(&new)).await);
            known.push(new);
        }
        7..11 => drop(all(steps.acquire(&[Acquire { queue: random.random_bool(0.8), ..old }]).await)),
        11 => drop(all(steps.renew(&[Renew { object, ticket, lease }]).await)),
        12..15 => {
            let tombstone = random.random_bool(0.3).then_some(lease);
            all(steps.release(&[freeing(&old, tombstone)]).await);
        }
        15 => drop(all(steps.cancel(&[Cancel { object, ticket, lease }]).await)),
        16 => {
            let to = Ticket::random();
            if steps.attach(&Attach { object, from: ticket, to, lease, label: None }).await.unwrap().is_some()
            {
                known.push(Acquire { ticket: to, ..old });
            }
        }
        17 => drop(all(steps.poll(&[object]).await)),
        18 if object.kind == Kind::Semaphore => {
            steps.resize(&object, random.random_range(1..=6)).await.unwrap();
        }
        _ => {
            let force = if random.random_bool(0.1) { Force::All } else { Force::One(ticket) };
            steps.force(&object, force).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s4_record_expiries_and_queue_agree_whatever_is_done() {
    agree(&semaphore("s"), 's').await;
}

#[tokio::test]
async fn m1_record_expiries_and_queue_agree_whatever_is_done() {
    agree(&mutex("m"), 'm').await;
}

async fn agree(object: &Object, kind: char) {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await, bed.process().await];
    let mut random = StdRng::seed_from_u64(7);
    let (mut known, mut keys) = (Vec::new(), None);
    let mut raw = bed.raw().await;
    for step in 0..STEPS {
        any(object, processes.choose(&mut random).unwrap(), &mut known, &mut random).await;
        if known.len() > 20 {
            known.remove(0);
        }
        if keys.is_none() {
            keys = Keys::of(&bed, kind).await;
        }
        if let Some(keys) = &keys {
            keys.check(&mut raw).await;
        }
        if step % 50 == 0 {
            sleep(Duration::from_millis(random.random_range(0..150))).await;
        }
    }
    let other = bed.process().await;
    let inspection = other.callers.inspect(object).await.unwrap();
    let limit = inspection.limit.unwrap_or(1);
    // The last leases, and a grace, if nobody happened to poll.
    for _ in 0..8 {
        heard(&[&other], object, Duration::from_millis(400)).await;
        let all = Acquire { queue: false, ..ask_many(object, limit, limit) };
        if matches!(acquire(&other, &all).await, Acquired::Waiting { .. }) {
            continue;
        }
        keys.unwrap().check(&mut raw).await;
        return;
    }
    panic!("exactly the limit can be acquired after a while");
}
