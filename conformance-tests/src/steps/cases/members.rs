//! The members of wait groups: each ends once, and is counted where it ends.

use crate::steps::StepCalls;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use stanchion_core::Ticket;
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Attach, Cancel, Ending, Force, Kept, Object, Release};

use super::super::drive::*;
use super::super::harness::{Process, StepHarness};
pub(super) use super::records::w2_all_that_is_kept_of_a_group_agrees_whatever_is_done;

pub(super) async fn w2_w8_a_call_is_answered_the_same_when_it_is_sent_again(harness: &dyn StepHarness) {
    let (process, other) = (harness.process().await, harness.process().await);
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
    // A late copy of the acquire is refused.
    let late = acquire(&process, &member).await;
    assert_eq!(late, Acquired::Cancelled);
    end(&process, &kept, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((2, 0, 0)));
}

pub(super) async fn c2_a_split_is_made_once(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let whole = Acquire { label: Some("a b".into()), ..members(&object, 900) };
    let token = granted(&process, &whole).await;
    let (mut into, mut left) = (Vec::new(), whole.weight);
    for count in [500, 100, 300] {
        let split = split_off(&whole, count);
        for _ in 0..3 {
            assert!(process.callers.split(&split).await.expect("an answer"));
            let looked = look(&process, &object, None).await;
            assert_eq!((looked.count, looked.generation), (900, 1), "in parts, and never another number");
        }
        into.extend(split.into);
        left -= count;
        let too_many = split_off(&whole, left + 1);
        assert!(!process.callers.split(&too_many).await.expect("an answer"));
    }
    let inspection = process.callers.inspect(&object).await.expect("an answer");
    let mut held: Vec<_> = inspection.holders.iter().filter_map(|holder| holder.ticket).collect();
    held.sort_unstable();
    into.sort_unstable();
    assert_eq!(held, into);
    for holder in &inspection.holders {
        assert_eq!((holder.weight, holder.token, holder.label.as_deref()), (1, Some(token), Some("a b")));
        assert!(holder.lease_left.is_some_and(|left| left <= Duration::from_secs(30)));
    }
    // A late copy of the acquire, and an end of the whole, find nothing.
    let late = acquire(&process, &whole).await;
    assert_eq!(late, Acquired::Cancelled);
    assert_eq!(end(&process, &whole, Ending::Finished).await, Kept::No);
    let parts: Vec<_> = into.iter().map(|part| Acquire { ticket: *part, ..whole.clone() }).collect();
    let releases: Vec<_> = parts.iter().map(|part| freeing(part, None)).collect();
    for batch in releases.chunks(400) {
        assert!(all(process.own.release(batch).await).iter().all(|kept| *kept == Kept::Yes));
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((900, 0, 0)));
}

pub(super) async fn c4_a_cancel_that_overtakes_the_split_leaves_no_member(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    for whole_first in [true, false] {
        let whole = members(&object, 3);
        granted(&process, &whole).await;
        let split = split_of(&whole);
        let cancelling =
            |ticket: Ticket| Cancel { object: object.clone(), ticket, tombstone: Some(ttl(30_000)) };
        let parts: Vec<_> = split.into.iter().map(|part| cancelling(*part)).collect();
        if whole_first {
            cancel(&process, &whole).await;
        } else {
            all(process.own.cancel(&parts[2..]).await);
        }
        assert!(!process.callers.split(&split).await.expect("an answer"));
        all(process.own.cancel(&parts).await);
        cancel(&process, &whole).await;
        assert!(!process.callers.split(&split).await.expect("an answer"));
        let looked = look(&process, &object, None).await;
        assert_eq!((looked.count, ended(looked)), (0, Some((0, 0, 0))));
    }
    // Members that were split and then cancelled do not count either.
    let whole = members(&object, 2);
    granted(&process, &whole).await;
    let split = split_of(&whole);
    assert!(process.callers.split(&split).await.expect("an answer"));
    for ticket in &split.into {
        cancel(&process, &Acquire { ticket: *ticket, ..whole.clone() }).await;
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 0)));
}

pub(super) async fn c24_w4_a_moved_member_is_counted_where_it_ends(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    let epoch = look(&process, &object, None).await.epoch;
    let (to, lease) = (Ticket::random(), ttl(30_000));
    let attach = Attach { object: object.clone(), from: member.ticket, to, lease, label: None };
    for _ in 0..2 {
        let attached = process.callers.attach(&attach).await.expect("an answer").expect("a hold");
        assert_eq!((attached.weight, attached.epoch), (1, epoch));
    }
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (1, 1, None));
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::No, "the old ticket is spent");
    assert_eq!(end(&process, &Acquire { ticket: to, ..member }, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}

/// Minimum number of generations that the case checks.
const GENERATIONS: u64 = 20;

/// Adds one to three members. Some of their leases end soon, but not before the answer to the
/// grant: its retry would add others.
async fn some_added(process: &Process, object: &Object, random: &mut StdRng) -> Acquire {
    let mut member = Acquire { lease: ttl(20_000), ..members(object, random.random_range(1..=3)) };
    granted(process, &member).await;
    if random.random_bool(0.4) {
        member.lease = ttl(random.random_range(300..600));
        shorten(process, std::slice::from_ref(&member), member.lease).await;
    }
    member
}

pub(super) async fn w4_whoever_was_added_has_ended_is_cancelled_or_lives(harness: &dyn StepHarness) {
    let processes = [harness.process().await, harness.process().await];
    let object = wait_group("g");
    let mut random = StdRng::seed_from_u64(11);
    let (mut known, mut total, mut cancelled): (Vec<Acquire>, u64, u64) = (Vec::new(), 0, 0);
    let mut generations = 0;
    let end_of_test = now() + Duration::from_secs(6);
    while now() < end_of_test || generations <= GENERATIONS {
        let process = processes.choose(&mut random).expect("a process");
        let steps = &process.callers;
        let index = random.random_range(0..known.len().max(1));
        match (random.random_range(0..20), known.get(index).cloned()) {
            (0..7, _) | (_, None) => {
                let member = some_added(process, &object, &mut random).await;
                total += u64::from(member.weight);
                known.push(member);
            }
            (7..14, Some(member)) => {
                let ending = if random.random_bool(0.5) { Ending::Finished } else { Ending::Abandoned };
                end(process, &member, ending).await;
                known.swap_remove(index);
            }
            (14, Some(member)) if member.lease == ttl(20_000) => {
                let live = steps.inspect(&object).await.expect("an answer").holders;
                let live = live.iter().find(|holder| holder.ticket == Some(member.ticket));
                cancelled += live.map_or(0, |holder| u64::from(holder.weight));
                cancel(process, &member).await;
                known.swap_remove(index);
            }
            (15, Some(member)) => {
                let split = split_of(&member);
                if steps.split(&split).await.expect("an answer") {
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
                let takeover = Attach { object: object.clone(), from: member.ticket, to, lease, label: None };
                if attach(process, &takeover).await.is_some() {
                    known[index].ticket = to;
                }
            }
            (17, Some(_)) if random.random_bool(0.2) => {
                steps.force(&object, Force::All).await.expect("an answer");
            }
            _ => {
                let looked = look(process, &object, Some(random.random_range(0..=generations))).await;
                assert!(looked.generation >= generations);
                generations = looked.generation;
            }
        }
        let record = harness.tally(&object).await;
        assert_eq!(record.used, record.live);
        assert_eq!(record.ended + cancelled + record.live, total);
        assert!(record.generation >= generations);
    }
    sleep(Duration::from_millis(610)).await;
    processes[0].own.force(&object, Force::All).await.expect("an answer");
    let looked = look(&processes[1], &object, None).await;
    assert_eq!((looked.count, looked.ended.is_some()), (0, true));
    assert_eq!(harness.tally(&object).await.ended + cancelled, total);
}
