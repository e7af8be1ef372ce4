//! Releases: by `release`, by drop, by the end of a runtime or of the store object.

use std::panic::resume_unwind;
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, EPSILON, QUEUED, Stopwatch, belief, kind_of, leased, now, on_another_runtime, on_bare_thread,
    pause, spawn, unrenewed, within,
};

pub(crate) async fn c11_a_stale_release_is_lost_and_frees_nobody(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let stale = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    let other = fixture.client(HoldOptions::default()).await;
    let guard = within(ttl + EPSILON, "the lease ends", other.lock()).await.expect("lock");
    assert_eq!(kind_of(stale.release().await), Some(ErrorKind::Lost));
    assert!(other.try_lock().await.expect("a definite answer").is_none(), "the new holder was not freed");
    let state = other.inspect().await.expect("inspect");
    assert!(fixture.tells(&state, &[guard.ticket()]), "{state:?}");
    assert!(guard.is_held());
    guard.release().await.expect("still the holder's own");
}

/// C11: a guard whose hold is gone reports the loss, also if no other holder came after it.
pub(crate) async fn c11_a_late_release_is_lost(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let late = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    pause(ttl + EPSILON).await;
    assert_eq!(kind_of(late.release().await), Some(ErrorKind::Lost));
}

pub(crate) async fn c11_the_same_object_locked_again_is_not_freed(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let store = h.store().await;
    let lock = fixture.open(&store, unrenewed(ttl));
    let released = lock.lock().await.expect("lock");
    let dropped = within(ttl + EPSILON, "the lease ends", lock.lock()).await.expect("lock");
    let lasting = fixture.open(&store, HoldOptions::default());
    let guard = within(ttl + EPSILON, "the lease ends", lasting.lock()).await.expect("lock");
    assert_eq!(kind_of(released.release().await), Some(ErrorKind::Lost));
    drop(dropped);
    pause(EPSILON).await;
    assert!(lasting.try_lock().await.expect("a definite answer").is_none(), "the newest hold stands");
    guard.release().await.expect("still the holder's own");
}

pub(crate) async fn c12_release_frees_at_once(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    for _ in 0..10 {
        lock.lock().await.expect("lock").release().await.expect("release");
        let guard = other.try_lock().await.expect("a definite answer").expect("free when release returned");
        guard.release().await.expect("release");
    }
}

pub(crate) async fn c12_drop_queues_the_release(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let watch = Stopwatch::start();
    drop(guard);
    assert!(watch.elapsed() < EPSILON, "drop does not block: {:?}", watch.elapsed());
    let guard = within(QUEUED, "the dropped guard's release", other.lock()).await.expect("lock");
    // A dropped future of `release` leaves the release to the queue.
    drop(Box::pin(guard.release()));
    within(QUEUED, "the dropped release", lock.lock()).await.expect("lock");
}

pub(crate) async fn c12_drop_works_without_a_runtime(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    on_bare_thread(move || drop(guard)).expect("no panic without a runtime");
    let guard = within(QUEUED, "released from a bare thread", other.lock()).await.expect("lock");
    let unwound = on_bare_thread(move || {
        let _guard = guard;
        // Unwinds like a panic, without the message.
        resume_unwind(Box::new("unwinding"));
    });
    assert_eq!(unwound.expect_err("it unwound").downcast_ref(), Some(&"unwinding"));
    within(QUEUED, "released while unwinding", lock.lock()).await.expect("lock");
}

/// C12: the release runs although the runtime of the `lock` call has ended.
pub(crate) async fn c12_drop_outlives_the_runtime(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let other = fixture.client(HoldOptions::default()).await;
    let (lock, guard) = on_another_runtime(|runtime| {
        runtime.drive(async {
            let lock = fixture.client(HoldOptions::default()).await;
            let guard = lock.lock().await.expect("lock");
            (lock, guard)
        })
    });
    assert!(guard.is_held(), "the hold outlives the runtime as well");
    drop(guard);
    within(QUEUED, "released after the runtime's end", other.lock()).await.expect("lock");
    drop(lock);
}

/// C12: a runtime's shutdown drops a task with its hold and its store object.
pub(crate) async fn c12_a_runtime_shutting_down_releases(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let other = fixture.client(HoldOptions::default()).await;
    on_another_runtime(|runtime| {
        let lock = runtime.drive(fixture.client(HoldOptions::default()));
        runtime.drive(async {
            let (locked, has_locked) = tokio::sync::oneshot::channel();
            let task = spawn(async move {
                let _guard = lock.lock().await.expect("lock");
                let _ = locked.send(());
                std::future::pending::<()>().await;
            });
            has_locked.await.expect("locked");
            std::mem::forget(task);
        });
    });
    within(QUEUED, "released by the shutdown", other.lock()).await.expect("lock");
}

pub(crate) async fn c12_close_releases_and_refuses(h: &dyn Harness, kind: LockKind) {
    let ttl = Duration::from_secs(30);
    let fixture = LockFixture::new(h, kind).await;
    let busy = LockFixture::new(h, kind).await;
    let store = h.store().await;
    let lock = fixture.open(&store, leased(ttl));
    let guard = lock.lock().await.expect("lock");
    let held = busy.client(HoldOptions::default()).await.lock().await.expect("lock");
    let queued = busy.open(&store, leased(ttl));
    let waiting = spawn(async move { queued.lock().await });
    let witness = busy.client(HoldOptions::default()).await;
    witness.queue_of(1).await;

    within(Duration::from_secs(5), "close drains", store.close()).await.expect("close");
    assert!(!guard.is_held(), "live guards are lost");
    within(AT_ONCE, "live guards are told", guard.lost()).await;
    let ended = within(AT_ONCE, "waiting calls end", waiting.join()).await;
    assert_eq!(kind_of(ended), Some(ErrorKind::Closed));
    assert_eq!(kind_of(lock.lock().await), Some(ErrorKind::Closed));
    assert_eq!(kind_of(lock.try_lock().await), Some(ErrorKind::Closed));
    assert_eq!(kind_of(store.ping().await), Some(ErrorKind::Closed));

    let other = fixture.client(HoldOptions::default()).await;
    let next = other.try_lock().await.expect("a definite answer").expect("what it held is free");
    busy.settles(&witness, Some(held.ticket())).await;
    drop(guard);
    pause(EPSILON).await;
    assert!(
        other.try_lock().await.expect("a definite answer").is_none(),
        "the closed store's guard frees nobody"
    );
    next.release().await.expect("release");
}

/// C12: the lease frees a hold that was never released.
pub(crate) async fn c12_a_forgotten_guard_without_renewal_expires(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let guard = fixture.client(unrenewed(ttl)).await.lock().await.expect("lock");
    let deadline = guard.deadline();
    std::mem::forget(guard);
    let other = fixture.client(HoldOptions::default()).await;
    within(ttl + EPSILON, "the lease ends", other.lock()).await.expect("lock");
    assert!(now() >= deadline, "not before {:?}", belief(ttl));
}
