//! Grants: exclusion, leases and fencing tokens.

use std::future::poll_fn;
use std::mem::forget;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stanchion_core::{ErrorKind, Fenced, HoldOptions};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    DEAD_IN_FRONT, EPSILON, Stopwatch, TICK, belief, cannot_show, definite, eventually, join_all, kind_of,
    leased, long_ttl, now, pause, pause_until, spawn, unrenewed, within,
};

/// C1: the ticket belongs to the acquisition, not to the handle or the client.
pub(crate) async fn c1_every_acquisition_has_its_own_ticket(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    let mut tickets = Vec::new();
    for lock in [&lock, &lock, &other, &lock] {
        let guard = lock.lock().await.expect("lock");
        let state = lock.inspect().await.expect("inspect");
        assert!(
            fixture.tells(&state, &[guard.ticket()]),
            "the store knows the hold by the guard's ticket: {state:?}"
        );
        tickets.push(guard.ticket());
        guard.release().await.expect("release");
    }
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), 4, "four acquisitions, four tickets");
}

/// C3: a held name is a definite no, never an error and never unknown.
pub(crate) async fn c3_a_held_name_is_a_definite_no(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    for _ in 0..20 {
        assert!(other.try_lock().await.expect("a definite answer").is_none());
        assert!(lock.try_lock().await.expect("a definite answer").is_none(), "not of the same handle either");
    }
    assert!(guard.is_held());
    guard.release().await.expect("release");
    let guard = other.try_lock().await.expect("a definite answer").expect("free again");
    guard.release().await.expect("release");
}

pub(crate) async fn c6_a_grant_has_half_its_lease_ahead(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    // It is renewed: connecting the others takes time.
    let first = fixture.client(HoldOptions::default()).await;
    let held = first.lock().await.expect("lock");
    let mut waiters = Vec::new();
    for _ in 0..4 {
        let lock = fixture.client(unrenewed(ttl)).await;
        waiters.push(spawn(async move {
            for _ in 0..5 {
                // The lease ahead is judged in the poll that returns the guard, and not before that
                // poll began.
                let mut locking = pin!(lock.lock());
                let (guard, judged) = poll_fn(|cx| {
                    let before = now();
                    locking.as_mut().poll(cx).map(|guard| (guard.expect("lock"), before))
                })
                .await;
                let ahead = guard.deadline().saturating_duration_since(judged);
                assert!(ahead >= belief(ttl) - ttl / 2, "{ahead:?} of a lease of {ttl:?} ahead");
                let deadline = guard.deadline();
                if let Err(error) = guard.release().await {
                    // On a stalled machine the release can come after the lease; then its error
                    // says so.
                    assert!(error.kind() == ErrorKind::Lost && now() >= deadline, "release: {error:?}");
                }
            }
        }));
    }
    pause(Duration::from_millis(50)).await;
    held.release().await.expect("release");
    join_all(waiters).await;
}

/// C7: the lease begins with the grant, however long the wait was.
pub(crate) async fn c7_the_lease_begins_with_the_grant(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let held = fixture.client(HoldOptions::default()).await.lock().await.expect("lock");
    let waiter = fixture.client(unrenewed(ttl)).await;
    let witness = fixture.client(HoldOptions::default()).await;
    let waiting = spawn(async move { waiter.lock().await.expect("lock") });
    witness.queue_of(1).await;
    pause(ttl * 2).await;
    let before = now();
    held.release().await.expect("release");
    let guard = waiting.join().await;
    assert!(guard.deadline() >= before + belief(ttl), "the whole lease was still to come");
    let granted = definite(|| witness.lock_for(ttl / 2)).await.expect("a definite answer");
    assert!(granted.is_none() || now() >= guard.deadline(), "granted before the lease was over");
}

pub(crate) async fn c8_an_abandoned_hold_is_free_after_its_lease(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let dying = fixture.client(unrenewed(ttl)).await;
    let other = fixture.client(HoldOptions::default()).await;
    let before = now();
    forget(dying.lock().await.expect("lock"));
    let guard = within(ttl + EPSILON, "the lease ends", other.lock()).await.expect("lock");
    let granted = now();
    assert!(granted + TICK >= before + ttl, "granted {:?} after the grant before", granted - before);
    guard.release().await.expect("release");

    forget(dying.lock().await.expect("lock"));
    pause_until(now() + ttl + TICK).await;
    if fixture.is_kept_by_session() {
        // The session lives on: its process unlocks the mutex that was not renewed.
        eventually(EPSILON, "free without any waiter too", || async {
            other.try_lock().await.expect("a definite answer").is_some()
        })
        .await;
    } else {
        assert!(other.try_lock().await.expect("a definite answer").is_some(), "free without any waiter too");
    }
}

/// C8: `max_hold` ends the renewal of a stuck holder.
pub(crate) async fn c8_max_hold_bounds_a_live_guard(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let max_hold = ttl * 2;
    let mut options = leased(ttl);
    options.max_hold = Some(max_hold);
    let stuck = fixture.client(options).await;
    let other = fixture.client(HoldOptions::default()).await;
    let guard = stuck.lock().await.expect("lock");
    let watch = Stopwatch::start();
    assert!(other.lock_for(ttl * 5 / 4).await.expect("a definite answer").is_none(), "renewed so far");
    let limit = (max_hold + EPSILON).saturating_sub(watch.elapsed());
    let next = within(limit, "max_hold ends the hold", other.lock()).await.expect("lock");
    assert!(!guard.is_held(), "not believed in when another holds");
    within(EPSILON, "the stuck holder is told", guard.lost()).await;
    drop(next);
}

/// M1: the critical sections of tasks of two clients never overlap, and none of them meets an older
/// token.
pub(crate) async fn m1_critical_sections_never_overlap(h: &dyn Harness, kind: LockKind) {
    // Without wake-ups each grant may take a poll.
    let rounds: u32 = if h.store().await.capabilities().wake_ups { 25 } else { 4 };
    let fixture = LockFixture::new(h, kind).await;
    let inside = Arc::new(AtomicBool::new(false));
    let resource = Arc::new(Fenced::new(0_u32));
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let mut tasks = Vec::new();
    for number in 0..8_u32 {
        let lock = clients[number as usize % 2].clone();
        let (inside, resource) = (Arc::clone(&inside), Arc::clone(&resource));
        tasks.push(spawn(async move {
            for round in 0..rounds {
                let guard = match (number + round) % 3 {
                    0 => lock.lock_for(Duration::from_secs(20)).await.expect("lock").expect("in time"),
                    _ => lock.lock().await.expect("lock"),
                };
                assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                let written = resource.write(&guard, |count| *count += 1);
                written.expect("no newer holder was seen");
                if round % 4 == 0 {
                    pause(Duration::from_micros(300)).await;
                }
                assert!(guard.is_held());
                assert!(inside.swap(false, Ordering::SeqCst));
                if round % 2 == 0 { drop(guard) } else { guard.release().await.expect("release") }
            }
        }));
    }
    within(Duration::from_secs(40), "all rounds", join_all(tasks)).await;
    assert_eq!(resource.read(|count| *count), 8 * rounds);
}

/// M1: a holder whose lease ran out has stopped believing before the next holder is granted.
pub(crate) async fn m1_an_expired_holder_stops_believing_first(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let mut old = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    for _ in 0..3 {
        let next = fixture.client(unrenewed(ttl)).await;
        let granted = within(ttl + EPSILON, "the lease ends", next.lock()).await.expect("lock");
        assert!(!old.is_held(), "two believe they hold it");
        assert!(granted.is_held() || now() >= granted.deadline());
        old = granted;
    }
}

pub(crate) async fn m2_fencing_token_grows(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let dying = fixture.client(unrenewed(ttl)).await;
    let mut tokens = Vec::new();
    for round in 0..40 {
        let guard = clients[round % 2].lock().await.expect("lock");
        tokens.push(guard.fencing_token());
        if round % 3 == 0 { drop(guard) } else { guard.release().await.expect("release") }
    }
    let dead = dying.lock().await.expect("lock");
    tokens.push(dead.fencing_token());
    let guard = within(ttl + EPSILON, "the lease ends", clients[0].lock()).await.expect("lock");
    tokens.push(guard.fencing_token());
    clients[0].force(guard.ticket()).await.expect("force");
    tokens.push(clients[1].lock().await.expect("lock").fencing_token());
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

/// M2: renewal keeps the token.
pub(crate) async fn m2_renewal_keeps_the_token(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let lock = fixture.client(leased(ttl)).await;
    let guard = lock.lock().await.expect("lock");
    let token = guard.fencing_token();
    pause(ttl + ttl / 3).await;
    let state = lock.inspect().await.expect("inspect");
    assert_eq!(state.holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [Some(token)]);
    assert_eq!(guard.fencing_token(), token);
}

pub(crate) async fn m3_fencing_token_grows_after_data_loss(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let mut largest = None;
    for _ in 0..20 {
        let guard = lock.lock().await.expect("lock");
        largest = largest.max(Some(guard.fencing_token()));
        guard.release().await.expect("release");
    }
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose the store's data");
    }
    let fresh = fixture.client(HoldOptions::default()).await;
    for lock in [fresh, lock] {
        let guard = lock.lock().await.expect("lock");
        assert!(Some(guard.fencing_token()) > largest, "{:?} after {largest:?}", guard.fencing_token());
        largest = Some(guard.fencing_token());
        guard.release().await.expect("release");
    }
}

/// M7: each dead holder delays the next grant by its own lease and no more.
pub(crate) async fn m7_dead_holders_in_a_row_cost_a_lease_each(h: &dyn Harness, kind: LockKind) {
    const DEAD: u32 = 3;
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    // It is renewed until all others queue: however long that takes, no lease of theirs has begun.
    let first = fixture.client(HoldOptions::default()).await;
    let held = first.lock().await.expect("lock");
    let mut dying = Vec::new();
    for number in 1..=DEAD {
        let lock = fixture.client(unrenewed(ttl)).await;
        dying.push(spawn(async move {
            let guard = lock.lock().await.expect("lock");
            let deadline = guard.deadline();
            forget(guard);
            deadline
        }));
        first.queue_of(u64::from(number)).await;
    }
    let live = fixture.client(HoldOptions::default()).await;
    let last = spawn(async move { (live.lock().await.expect("lock"), now()) });
    first.queue_of(u64::from(DEAD) + 1).await;
    let limit = ttl * DEAD + EPSILON + DEAD_IN_FRONT;
    let (next, granted) = within(limit, "the next grant", async {
        held.release().await.expect("release");
        last.join().await
    })
    .await;
    // A waiter whose process stood still may have been passed over; it comes later.
    let (before, later): (Vec<_>, Vec<_>) = dying.into_iter().partition(|dying| dying.is_finished());
    drop(next);
    assert!(!before.is_empty());
    for deadline in join_all(before).await {
        assert!(granted + TICK >= deadline, "a lease was cut short by {:?}", deadline - granted);
    }
    join_all(later).await;
}

/// M9: a resource in this process refuses the older token, and the same token from another ticket.
pub(crate) async fn m9_a_fenced_value_refuses_the_older_holder(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let paused = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    let value = Fenced::new(Vec::new());
    value.write(&paused, |log| log.push("first")).expect("the only holder");
    let lock = fixture.client(HoldOptions::default()).await;
    let next = within(ttl + EPSILON, "the lease ends", lock.lock()).await.expect("lock");
    value.write(&next, |log| log.push("second")).expect("the newer holder");
    let late = value.write(&paused, |log| log.push("late"));
    assert_eq!(kind_of(late), Some(ErrorKind::Lost));
    let alien = value.write((next.fencing_token(), paused.ticket()), |log| log.push("alien"));
    assert_eq!(kind_of(alien), Some(ErrorKind::Lost));
    assert_eq!(value.read(Clone::clone), ["first", "second"]);
}
