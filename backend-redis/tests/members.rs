//! The members of wait groups: each ends once, and is counted where it ends.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::collections::HashMap;
use std::time::Duration;

use harness::groups::*;
use harness::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use stanchion_core::Ticket;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Attach, Cancel, Ending, Force, GroupSteps, Kept, PermitSteps, Release, Split,
};
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn w2_w8_a_call_is_answered_the_same_when_it_is_sent_again() {
    let bed = Bed::shared();
    let (process, other) = (bed.process().await, bed.process().await);
    let object = wait_group("g");
    let (member, kept) = (added(&process, &object).await, added(&process, &object).await);
    let by = |member: &Acquire, call| Release { call: Some(call), ..freeing(member, Some(ttl(5_000))) };
    let (first, second) = (Ticket::random(), Ticket::random());
    let answers = async |release: Release| one(other.callers.release(&[release]).await);
    assert_eq!(answers(by(&member, first)).await, Kept::Yes);
    assert_eq!(answers(by(&member, second)).await, Kept::No, "another call");
    assert_eq!(answers(by(&member, first)).await, Kept::Yes, "again");
    assert_eq!(end(&process, &member, Ending::Abandoned).await, Kept::No, "its own guard");
    assert_eq!(look(&process, &object, None).await.count, 1, "ended once");
    let unknown = members(&object, 1);
    for _ in 0..2 {
        assert_eq!(answers(by(&unknown, first)).await, Kept::No, "unknown, also when sent again");
    }
    // A copy of the acquire that was still under way is refused.
    let late = acquire(&process, &member).await;
    assert_eq!(late, Acquired::Cancelled);
    end(&process, &kept, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((2, 0, 0)));
}

#[tokio::test]
async fn c2_a_split_is_made_once() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let whole = Acquire { label: Some("a b".into()), ..members(&object, 1_200) };
    let token = granted(&process, &whole).await;
    let split = split_of(&whole);
    for _ in 0..3 {
        assert!(process.callers.split(&split).await.unwrap());
    }
    assert!(!process.callers.split(&Split { into: split_of(&whole).into, ..split.clone() }).await.unwrap());
    let inspection = process.callers.inspect(&object).await.unwrap();
    let mut held: Vec<_> = inspection.holders.iter().map(|holder| holder.ticket).collect();
    let mut into = split.into.clone();
    held.sort_unstable();
    into.sort_unstable();
    assert_eq!(held, into);
    for holder in &inspection.holders {
        assert_eq!((holder.weight, holder.token, holder.label.as_deref()), (1, token, Some("a b")));
        assert!(holder.lease_left.is_some_and(|left| left <= Duration::from_secs(5)));
    }
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation), (1_200, 1));
    // A late copy of the acquire, and the end of the whole, find nothing.
    let late = acquire(&process, &whole).await;
    assert_eq!(late, Acquired::Cancelled);
    assert_eq!(end(&process, &whole, Ending::Finished).await, Kept::No);
    let parts: Vec<_> = split.into.iter().map(|part| Acquire { ticket: *part, ..whole.clone() }).collect();
    let releases: Vec<_> = parts.iter().map(|part| freeing(part, None)).collect();
    for batch in releases.chunks(400) {
        assert!(all(process.own.release(batch).await).iter().all(|kept| *kept == Kept::Yes));
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((1_200, 0, 0)));
}

#[tokio::test]
async fn c4_a_cancel_that_overtakes_the_split_leaves_no_member() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    for whole_first in [true, false] {
        let whole = members(&object, 3);
        granted(&process, &whole).await;
        let split = split_of(&whole);
        let cancelling = |ticket: Ticket| Cancel { object: object.clone(), ticket, lease: ttl(5_000) };
        let parts: Vec<_> = split.into.iter().map(|part| cancelling(*part)).collect();
        if whole_first {
            cancel(&process, &whole).await;
        } else {
            all(process.own.cancel(&parts[2..]).await);
        }
        assert!(!process.callers.split(&split).await.unwrap());
        all(process.own.cancel(&parts).await);
        cancel(&process, &whole).await;
        assert!(!process.callers.split(&split).await.unwrap());
        let looked = look(&process, &object, None).await;
        assert_eq!((looked.count, ended(looked)), (0, Some((0, 0, 0))));
    }
    // What was split and then cancelled counts as none, too.
    let whole = members(&object, 2);
    granted(&process, &whole).await;
    let split = split_of(&whole);
    assert!(process.callers.split(&split).await.unwrap());
    for ticket in &split.into {
        cancel(&process, &Acquire { ticket: *ticket, ..whole.clone() }).await;
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 0)));
}

#[tokio::test]
async fn c24_w4_a_moved_member_is_counted_where_it_ends() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    let born = look(&process, &object, None).await.born;
    let (to, lease) = (Ticket::random(), ttl(5_000));
    let attach = Attach { object: object.clone(), from: member.ticket, to, lease, label: None };
    for _ in 0..2 {
        let attached = process.callers.attach(&attach).await.unwrap().unwrap();
        assert_eq!((attached.weight, attached.born), (1, born));
    }
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (1, 1, None));
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::No, "the old ticket is spent");
    assert_eq!(end(&process, &Acquire { ticket: to, ..member }, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}

/// The record of the one group of a namespace, in numbers: the weights of its holds, and how members ended.
struct Record {
    used: u64,
    live: u64,
    ended: u64,
    generation: u64,
}

impl Record {
    async fn of(bed: &Bed, raw: &mut MultiplexedConnection) -> Self {
        let key = bed.keys().await.into_iter().find(|key| key.contains("}:w:")).expect("a record");
        let fields: HashMap<String, String> = redis::cmd("HGETALL").arg(key).query_async(raw).await.unwrap();
        let text = |field: &str| fields.get(field).map_or("", String::as_str);
        let sum = |text: &str| -> u64 {
            text.split([' ', ';'])
                .filter(|word| !word.is_empty())
                .map(|word| word.parse::<u64>().unwrap())
                .sum()
        };
        let outcomes = text("past").split(';').filter(|outcome| !outcome.starts_with('='));
        let past: u64 = outcomes.map(sum).sum();
        let holds = fields.iter().filter(|(field, _)| field.len() == 33 && field.starts_with('h'));
        let weight = |record: &String| record.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
        Self {
            used: sum(text("used")),
            live: holds.map(|(_, record)| weight(record)).sum(),
            ended: past + sum(text("old")) + sum(text("ends")),
            generation: sum(text("gen")),
        }
    }
}

#[tokio::test]
async fn w4_whoever_was_added_has_ended_is_cancelled_or_lives() {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await];
    let object = wait_group("g");
    let mut raw = bed.raw().await;
    let mut random = StdRng::seed_from_u64(11);
    let (mut known, mut total, mut cancelled): (Vec<Acquire>, u64, u64) = (Vec::new(), 0, 0);
    let mut generations = 0;
    let end_of_test = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end_of_test {
        let process = processes.choose(&mut random).unwrap();
        let steps = &process.callers;
        let index = random.random_range(0..known.len().max(1));
        match (random.random_range(0..20), known.get(index).cloned()) {
            (0..7, _) | (_, None) => {
                let lease =
                    if random.random_bool(0.4) { ttl(random.random_range(100..300)) } else { ttl(20_000) };
                let member = Acquire { lease, ..members(&object, random.random_range(1..=3)) };
                granted(process, &member).await;
                total += u64::from(member.weight);
                known.push(member);
            }
            (7..14, Some(member)) => {
                let ending = if random.random_bool(0.5) { Ending::Finished } else { Ending::Abandoned };
                end(process, &member, ending).await;
                known.swap_remove(index);
            }
            (14, Some(member)) if member.lease == ttl(20_000) => {
                let live = steps.inspect(&object).await.unwrap().holders;
                let live = live.iter().find(|holder| holder.ticket == member.ticket);
                cancelled += live.map_or(0, |holder| u64::from(holder.weight));
                cancel(process, &member).await;
                known.swap_remove(index);
            }
            (15, Some(member)) => {
                let split = split_of(&member);
                if steps.split(&split).await.unwrap() {
                    known.swap_remove(index);
                    let part = |ticket: &Ticket| Acquire {
                        ticket: *ticket,
                        weight: 1,
                        lease: split.lease,
                        ..member.clone()
                    };
                    known.extend(split.into.iter().map(part));
                }
            }
            (16, Some(member)) => {
                let (to, lease) = (Ticket::random(), member.lease);
                let attach = Attach { object: object.clone(), from: member.ticket, to, lease, label: None };
                if steps.attach(&attach).await.unwrap().is_some() {
                    known[index].ticket = to;
                }
            }
            (17, Some(_)) if random.random_bool(0.2) => {
                steps.force(&object, Force::All).await.unwrap();
            }
            _ => {
                let looked = look(process, &object, Some(random.random_range(0..=generations))).await;
                assert!(looked.generation >= generations);
                generations = looked.generation;
            }
        }
        let record = Record::of(&bed, &mut raw).await;
        assert_eq!(record.used, record.live);
        assert_eq!(record.ended + cancelled + record.live, total);
        assert!(record.generation >= generations);
    }
    assert!(generations > 20, "{generations} generations");
    sleep(Duration::from_millis(310)).await;
    processes[0].own.force(&object, Force::All).await.unwrap();
    let looked = look(&processes[1], &object, None).await;
    assert_eq!((looked.count, looked.ended.is_some()), (0, true));
    assert_eq!(Record::of(&bed, &mut raw).await.ended + cancelled, total);
}
