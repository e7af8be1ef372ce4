//! Wait groups: how members are counted, who is told of the end, and what is kept of it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::collections::HashMap;
use std::time::Duration;

use harness::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Attach, Cancel, Ending, Force, GroupSteps, Kept, Look, Looked, NO_LIMIT, Object,
    PermitSteps, Release, Split, WakeSource,
};
use stanchion_core::{ErrorKind, Ticket};
use stanchion_redis::StepsOfStore;
use tokio::time::{Instant, sleep, timeout};

/// A request for members of a group without a limit.
fn members(object: &Object, weight: u32) -> Acquire {
    ask_many(object, weight, NO_LIMIT)
}

async fn added(process: &StepsOfStore, object: &Object) -> Acquire {
    let member = members(object, 1);
    granted(process, &member).await;
    member
}

async fn end(process: &StepsOfStore, member: &Acquire, ending: Ending) -> Kept {
    let release = Release { ending, ..freeing(member, None) };
    one(process.own.release(&[release]).await)
}

fn watching(object: &Object, watch: Option<u64>, hint: Ticket) -> Look {
    Look { object: object.clone(), watch, hint }
}

async fn look(process: &StepsOfStore, object: &Object, watch: Option<u64>) -> Looked {
    one(process.callers.look(&[watching(object, watch, Ticket::from(1))]).await)
}

/// Finished, abandoned, expired.
fn ended(looked: Looked) -> Option<(u64, u64, u64)> {
    looked.ended.map(|outcome| (outcome.finished, outcome.abandoned, outcome.expired))
}

/// One generation with one member.
async fn generation(process: &StepsOfStore, object: &Object, ending: Ending) {
    let member = added(process, object).await;
    assert_eq!(end(process, &member, ending).await, Kept::Yes);
}

#[tokio::test]
async fn w4_w5_generations_are_counted_and_their_outcomes_told() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    assert_eq!(ended(look(&process, &object, Some(0)).await), Some((0, 0, 0)));
    assert_eq!(look(&process, &object, None).await.born, 0);
    assert_eq!(bed.keys().await, Vec::<String>::new(), "asking makes no record");
    let (three, one) = (members(&object, 3), members(&object, 1));
    granted(&process, &three).await;
    granted(&process, &Acquire { lease: ttl(200), ..one.clone() }).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (4, 1, None));
    assert!(looked.born > 0);
    assert!(looked.next.is_some_and(|next| next <= Duration::from_millis(200)), "{looked:?}");
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::Yes);
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::No, "once");
    assert_eq!(look(&process, &object, Some(1)).await.ended, None);
    sleep(Duration::from_millis(210)).await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.count, looked.generation, ended(looked)), (0, 1, Some((3, 0, 1))));
    generation(&process, &object, Ending::Abandoned).await;
    let open = added(&process, &object).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (1, 3, None));
    assert_eq!(ended(look(&process, &object, Some(1)).await), Some((3, 0, 1)));
    assert_eq!(ended(look(&process, &object, Some(2)).await), Some((0, 1, 0)));
    assert_eq!(look(&process, &object, Some(3)).await.ended, None);
    process.own.force(&object, Force::All).await.unwrap();
    assert_eq!(ended(look(&process, &object, Some(3)).await), Some((0, 1, 0)), "forced is abandoned");
    assert_eq!(end(&process, &open, Ending::Finished).await, Kept::No);
    let forced = added(&process, &object).await;
    assert_eq!(process.own.force(&object, Force::One(forced.ticket)).await.unwrap(), 1);
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 1, 0)));
}

#[tokio::test]
async fn w4_expiry_ends_a_generation_before_the_step_that_finds_it() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    granted(&process, &Acquire { lease: ttl(100), ..members(&object, 2) }).await;
    sleep(Duration::from_millis(110)).await;
    let member = added(&process, &object).await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.count, looked.generation, ended(looked)), (1, 2, Some((0, 0, 2))));
    assert_eq!(look(&process, &object, None).await.ended, None);
    end(&process, &member, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}

#[tokio::test]
async fn w4_thousands_that_expire_together_are_all_counted() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    for _ in 0..10 {
        let batch: Vec<_> = (0..500).map(|_| Acquire { lease: ttl(2_000), ..members(&object, 1) }).collect();
        all(process.callers.acquire(&batch).await);
    }
    assert_eq!(look(&process, &object, None).await.count, 5_000);
    sleep(Duration::from_millis(2_010)).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 5_000)));
}

#[tokio::test]
async fn c4_a_generation_of_cancelled_calls_never_had_a_member() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let cancelled = added(&process, &object).await;
    cancel(&process, &cancelled).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 0)));
    generation(&process, &object, Ending::Finished).await;
    let cancelled = added(&process, &object).await;
    assert_eq!(look(&process, &object, None).await.generation, 3);
    cancel(&process, &cancelled).await;
    let looked = look(&process, &object, Some(3)).await;
    assert_eq!(ended(looked), Some((1, 0, 0)), "the outcome before it stands");
    // Beside a member it counts as none, and does not end its generation.
    let (member, cancelled) = (added(&process, &object).await, added(&process, &object).await);
    cancel(&process, &cancelled).await;
    assert_eq!(look(&process, &object, Some(4)).await.ended, None);
    end(&process, &member, Ending::Abandoned).await;
    assert_eq!(ended(look(&process, &object, Some(4)).await), Some((0, 1, 0)));
}

#[tokio::test]
async fn w4_what_is_forgotten_is_in_the_sum() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    generation(&process, &object, Ending::Abandoned).await;
    for _ in 0..15 {
        generation(&process, &object, Ending::Finished).await;
    }
    let of = async |watch| ended(look(&process, &object, Some(watch)).await);
    assert_eq!(of(1).await, Some((0, 1, 0)), "16 are kept");
    cancel(&process, &added(&process, &object).await).await;
    for number in 2..=17 {
        assert_eq!(of(number).await, Some((1, 0, 0)), "generation {number}");
    }
    assert_eq!(of(1).await, Some((1, 1, 0)), "the sum of what is forgotten, and the oldest known");
    for _ in 0..30 {
        generation(&process, &object, Ending::Finished).await;
    }
    assert_eq!(look(&process, &object, None).await.generation, 47);
    assert_eq!(of(47).await, Some((1, 0, 0)));
    assert_eq!(of(32).await, Some((1, 0, 0)));
    // 30 of 31 are forgotten: all but the cancelled one count.
    assert_eq!(of(31).await, Some((30, 1, 0)));
}

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

fn split_of(whole: &Acquire) -> Split {
    let into = (0..whole.weight).map(|_| Ticket::random()).collect();
    Split { object: whole.object.clone(), from: whole.ticket, into, lease: ttl(5_000) }
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

#[tokio::test]
async fn w3_every_watching_process_gets_one_hint_at_the_end() {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await, bed.process().await];
    let object = wait_group("g");
    let hints = [Ticket::random(), Ticket::random(), Ticket::random()];
    let watch = async |index: usize, generation| {
        let answers = processes[index].callers.look(&[watching(&object, generation, hints[index])]).await;
        one(answers)
    };
    let expiring = Acquire { lease: ttl(300), ..members(&object, 1) };
    for (round, ends) in ["release", "cancel", "force", "expiry"].into_iter().enumerate() {
        let member = if ends == "expiry" { expiring.clone() } else { members(&object, 1) };
        granted(&processes[0], &member).await;
        for _ in 0..3 {
            watch(0, Some(0)).await;
            watch(1, Some(round as u64 + 1)).await;
        }
        assert_eq!(watch(2, None).await.ended, None, "who only asks is not told");
        match ends {
            "release" => drop(end(&processes[2], &member, Ending::Finished).await),
            "cancel" => cancel(&processes[2], &member).await,
            "force" => drop(processes[2].own.force(&object, Force::All).await.unwrap()),
            _ => {
                sleep(Duration::from_millis(310)).await;
                watch(2, None).await;
            }
        }
        let left: Vec<_> = bed.keys().await.into_iter().filter(|key| key.contains(":wv:")).collect();
        assert_eq!(left, Vec::<String>::new(), "{ends}: nobody watches any more");
        assert_eq!(hint(&processes[0]).await, [hints[0]], "{ends}");
        assert_eq!(hint(&processes[1]).await, [hints[1]], "{ends}");
        for process in &processes {
            let more = timeout(Duration::from_millis(50), process.wake.next()).await;
            assert!(more.is_err(), "{ends}: once, and only who watches");
        }
        // Too late to be noted: it is told by the answer.
        assert!(watch(2, Some(round as u64 + 1)).await.ended.is_some());
        assert_eq!(bed.keys().await.iter().filter(|key| key.contains(":wv:")).count(), 0, "{ends}");
    }
}

#[tokio::test]
async fn c25_who_watches_no_more_is_forgotten() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    look(&process, &object, Some(0)).await;
    let mut raw = bed.raw().await;
    let key = bed.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let ttl_of = async |raw: &mut MultiplexedConnection| -> i64 {
        redis::cmd("PTTL").arg(&key).query_async(raw).await.unwrap()
    };
    let left = ttl_of(&mut raw).await;
    assert!((1..=10_000).contains(&left), "{left} ms");
    // Asking again soon writes nothing, later it notes the watcher anew and removes those who fell silent.
    let _: () = redis::cmd("ZADD").arg(&key).arg(1).arg("00:11").query_async(&mut raw).await.unwrap();
    let _: () = redis::cmd("PEXPIRE").arg(&key).arg(5_000).query_async(&mut raw).await.unwrap();
    look(&process, &object, Some(0)).await;
    assert!(ttl_of(&mut raw).await <= 5_000);
    sleep(Duration::from_millis(1_010)).await;
    look(&process, &object, Some(0)).await;
    assert!(ttl_of(&mut raw).await > 5_000);
    let watchers: Vec<String> =
        redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).query_async(&mut raw).await.unwrap();
    assert_eq!(watchers.len(), 1, "{watchers:?}");
    assert!(watchers[0].ends_with(&Ticket::from(1).to_string()));
    end(&process, &member, Ending::Finished).await;
}

#[tokio::test]
async fn w6_another_record_has_another_birth() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let first = acquire(&process, &members(&object, 1)).await;
    let born = look(&process, &object, None).await.born;
    let birth = |answer| match answer {
        Acquired::Granted { born, .. } => born,
        other => panic!("{other:?}"),
    };
    assert_eq!(birth(first), born, "the grant that makes the record tells its birth");
    assert_eq!(birth(acquire(&process, &members(&object, 1)).await), born);
    let mut raw = bed.raw().await;
    let _: () = redis::cmd("DEL").arg(bed.keys().await).query_async(&mut raw).await.unwrap();
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.generation), (0, 0, 0));
    let again = birth(acquire(&process, &members(&object, 1)).await);
    assert!(again > born);
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.ended), (again, 1, None));
    // Of other objects it is not told.
    assert_eq!(birth(acquire(&process, &ask(&mutex("m"))).await), 0);
}

#[tokio::test]
async fn c25_w6_zero_is_kept_for_the_retention_time() {
    let bed = Bed::shared();
    let retention = Duration::from_secs(1);
    let process = bed.builder().retention(retention, retention).steps().await.unwrap();
    let object = wait_group("g");
    let member = Acquire { lease: ttl(200), ..members(&object, 2) };
    granted(&process, &member).await;
    look(&process, &object, Some(0)).await;
    assert!(bed.keys().await.iter().any(|key| key.contains(":wv:")));
    end(&process, &member, Ending::Finished).await;
    sleep(retention).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((2, 0, 0)));
    // The look above tidied up, which is a use.
    sleep(retention * 9 / 8 + Duration::from_millis(50)).await;
    assert_eq!(
        look(&process, &object, None).await,
        Looked { ended: Some(Default::default()), ..Looked::default() }
    );
    let left: Vec<_> = bed.keys().await.into_iter().filter(|key| !key.contains(":box:")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn c21_foreign_values_are_told_and_left_alone() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let (object, ours) = (wait_group("g"), wait_group("ours"));
    let member = added(&process, &object).await;
    let other = added(&process, &ours).await;
    look(&process, &object, Some(0)).await;
    let mut raw = bed.raw().await;
    let watchers = bed.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let set = async |key: &str, raw: &mut MultiplexedConnection| -> () {
        redis::cmd("SET").arg(key).arg("foreign").query_async(raw).await.unwrap()
    };
    set(&watchers, &mut raw).await;
    let looks = [watching(&object, Some(0), Ticket::random()), watching(&ours, Some(0), Ticket::random())];
    let answers = process.callers.look(&looks).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains(&watchers) && error.to_string().contains("string"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().count, 1, "the others of a batch do not suffer");
    // It costs the watchers their hints only.
    assert_eq!(look(&process, &object, None).await.count, 1);
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
    let value: String = redis::cmd("GET").arg(&watchers).query_async(&mut raw).await.unwrap();
    assert_eq!(value, "foreign");
    let record = bed.keys().await.into_iter().find(|key| key.ends_with("}:w:g")).expect("a record");
    set(&record, &mut raw).await;
    let refused = process.callers.look(&[watching(&object, None, Ticket::random())]).await.remove(0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let whole = members(&object, 2);
    assert_eq!(
        process.callers.split(&split_of(&whole)).await.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(end(&process, &other, Ending::Finished).await, Kept::Yes);
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
