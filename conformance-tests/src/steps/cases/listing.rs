//! The step that lists names: what has state, in bounded parts that together are complete.

use crate::steps::StepCalls;
use std::collections::BTreeSet;

use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Kept, List, ListPart, Refund};
use stanchion_core::{ErrorKind, Kind, Listed, Ticket};

use super::super::drive::*;
use super::super::harness::{Process, StepHarness};
use super::liveness::Outlived;
use crate::support::{EPSILON, eventually};

fn part(count: usize, after: Option<String>) -> List {
    List { kind: None, prefix: String::new(), count, after }
}

/// Returns all names, and the number of parts.
async fn listed(process: &Process, count: usize) -> (Vec<Listed>, usize) {
    let (mut entries, mut parts, mut list) = (Vec::new(), 0, part(count, None));
    loop {
        let ListPart { entries: more, next } = process.callers.list(&list).await.expect("a part");
        assert!(more.len() <= count + 500, "a part has few more names than wanted, not {}", more.len());
        (entries, parts) = ([entries, more].concat(), parts + 1);
        let Some(next) = next else { return (entries, parts) };
        assert!(next.len() <= 1_500, "a position of {} bytes", next.len());
        list = part(count, Some(next));
    }
}

pub(super) async fn c27_the_parts_are_bounded_and_together_complete(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let requests: Vec<Acquire> =
        (0..700).map(|number| ask_many(&semaphore(&format!("s{number}")), 1, 3)).collect();
    for part in requests.chunks(100) {
        acquire_all(&process, part).await;
    }
    for count in [1, 10, 1_000] {
        let (entries, parts) = listed(&process, count).await;
        let names: BTreeSet<_> = entries.iter().map(|listed| listed.name.to_string()).collect();
        assert_eq!(names.len(), requests.len(), "{count} at once");
        assert!(parts > 1 || count == 1_000, "{count} at once, in one part");
    }
}

/// Tombstones, answers, fencing tokens and looks are no state of a name.
pub(super) async fn c25_what_is_kept_for_retries_is_not_listed(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let (freed, cancelled) = (ask(&mutex("freed")), ask(&mutex("cancelled")));
    granted(&process, &freed).await;
    assert_eq!(one(process.callers.release(&[freeing(&freed, Some(ttl(30_000)))]).await), Kept::Yes);
    cancel(&process, &cancelled).await;
    cancel(&process, &ask_many(&semaphore("cancelled"), 1, 3)).await;
    let refund = Refund { object: limiter("cancelled"), ticket: Ticket::random() };
    assert_eq!(one(process.callers.refund(&[refund]).await), 0);
    look(&process, &wait_group("looked at"), None).await;
    process.callers.inspect(&semaphore("looked at")).await.expect("an answer");
    let (entries, _) = listed(&process, 100).await;
    assert!(entries.is_empty(), "{entries:?}");
}

pub(super) async fn c23_expired_holds_never_count(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let lease = ttl(300);
    let short = |request: Acquire| Acquire { lease, ..request };
    let of_three = ask_many(&semaphore("s"), 1, 3);
    let requests = [short(ask(&mutex("m"))), short(ask_many(&semaphore("s"), 2, 3)), of_three];
    assert!(acquire_all(&process, &requests).await.iter().all(is_granted));
    let ended = || async {
        let (entries, _) = listed(&process, 100).await;
        let [semaphore] = &entries[..] else { return false };
        (semaphore.holders, semaphore.weight, semaphore.limit) == (Some(1), Some(1), Some(3))
    };
    // Nothing but the listing meets the holds: it does not rely on another step that removes them.
    sleep(lease.get()).await;
    eventually(EPSILON, "expired holds are not listed", ended).await;
}

/// The places of a process that died: those of one name are met by the steps of another process
/// while they last, those of the other name by the listing alone.
pub(super) async fn c23_waiters_that_lost_their_places_never_count(harness: &dyn StepHarness) {
    let (dead, process) = (harness.process().await, harness.process().await);
    let names = ["met", "not met"].map(mutex);
    for object in &names {
        granted(&process, &ask(object)).await;
    }
    let live = ask(&names[0]);
    let asked = now();
    for object in &names {
        waits(&dead, &Acquire { lease: ttl(3_000), ..ask(object) }).await;
    }
    waits(&process, &live).await;
    let waiters = || async {
        let (mut entries, _) = listed(&process, 100).await;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries.iter().map(|listed| listed.waiters).collect::<Vec<_>>()
    };
    let before = waiters().await;
    assert!(before == [Some(2), Some(1)] || asked.elapsed() >= LIVENESS, "{before:?}");
    while asked.elapsed() < LIVENESS * 2 {
        heard(&[&process], &names[0], LIVENESS / 4).await;
        // A waiter that joins looks at the whole queue.
        let other = ask(&names[0]);
        waits(&process, &other).await;
        cancel(&process, &other).await;
    }
    let ended = || async { waiters().await == [Some(1), Some(0)] };
    // Of the other name nobody is heard meanwhile, so that a store may allow a grace period for its
    // own silence, once.
    eventually(LIVENESS * 2 + GRACE + EPSILON, "places end with their leases", ended).await;
}

/// Nobody makes a step before the listing.
pub(super) async fn c16_c23_right_after_a_stall_of_the_store_its_waiters_are_listed(
    harness: &dyn StepHarness,
) {
    let row = Outlived::stalled(harness).await;
    for _ in 0..2 {
        let (entries, _) = listed(&row.process, 100).await;
        row.check(entries.first().and_then(|listed| listed.waiters));
    }
}

/// A part that is asked for again is answered again, and a listing does not count as a use.
pub(super) async fn c2_a_listing_changes_nothing(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let (held, waiter) = (ask(&mutex("m")), ask(&mutex("m")));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    let before = process.callers.inspect(&held.object).await.expect("an answer");
    let figures = async || {
        let (entries, _) = listed(&process, 100).await;
        let [mutex] = &entries[..] else { panic!("one name: {entries:?}") };
        assert_eq!(mutex.kind, Kind::Mutex);
        (mutex.holders, mutex.weight, mutex.waiters, mutex.limit)
    };
    for _ in 0..3 {
        assert_eq!(figures().await, (Some(1), Some(1), Some(1), Some(1)));
    }
    let after = process.callers.inspect(&held.object).await.expect("an answer");
    assert_eq!((before.holders.len(), before.waiters), (after.holders.len(), after.waiters));
    assert_eq!(release(&process, &held).await, Kept::Yes);
    assert!(matches!(acquire(&process, &waiter).await, Acquired::Granted { .. }), "it kept its place");
}

pub(super) async fn c19_a_position_that_no_part_has_given_is_refused(harness: &dyn StepHarness) {
    let process = harness.process().await;
    for position in ["", "x", "-1", "é", "99:99:99:99"] {
        let refused = process.callers.list(&part(10, Some(position.to_owned()))).await;
        let kind = refused.expect_err(position).kind();
        assert_eq!(kind, ErrorKind::InvalidArgument, "{position:?}");
    }
}
