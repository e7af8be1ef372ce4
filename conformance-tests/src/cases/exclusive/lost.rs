//! How a holder learns of the loss of its hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, CANCELLED, EPSILON, POLL_FLOOR, Stopwatch, TICK, belief, cannot_show, join_all, kind_of, leased,
    long_ttl, now, pause, spawn, unrenewed, within,
};

pub(crate) async fn c9_lost_resolves_at_the_deadline(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let guard = fixture.client(unrenewed(h.ttl())).await.lock().await.expect("lock");
    let deadline = guard.deadline();
    let limit = deadline.saturating_duration_since(now()) + EPSILON;
    within(limit, "lost() at D", guard.lost()).await;
    assert!(now() + TICK >= deadline, "lost {:?} before D", deadline - now());
    assert!(!guard.is_held());
}

pub(crate) async fn c9_lost_never_resolves_while_renewed(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let lock = fixture.client(leased(ttl)).await;
    let other = fixture.client(leased(ttl)).await;
    let guard = lock.lock().await.expect("lock");
    tokio::select! {
        () = guard.lost() => panic!("lost while its renewals succeed"),
        granted = other.lock_for(ttl * 2) => assert!(granted.expect("a definite answer").is_none()),
    }
    assert!(guard.is_held());
    guard.release().await.expect("held to the end");
}

pub(crate) async fn c9_a_lost_guard_stays_lost(h: &dyn Harness, kind: LockKind) {
    let ttl = h.ttl();
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(unrenewed(ttl)).await;
    let guard = lock.lock().await.expect("lock");
    within(belief(ttl) + EPSILON, "lost() at D", guard.lost()).await;
    let next = within(ttl + EPSILON, "the lease ends", lock.lock()).await.expect("lock again");
    for _ in 0..3 {
        assert!(!guard.is_held(), "the same object locked again does not revive it");
        within(AT_ONCE, "lost() again", guard.lost()).await;
        assert_eq!(kind_of(guard.run(async {}).await), Some(ErrorKind::Lost));
    }
    assert!(next.is_held() || now() >= next.deadline());
}

/// C9: if the store no longer has the hold, the next renewal resolves `lost()`.
pub(crate) async fn c9_m8_a_forced_release_is_told_in_a_third_of_the_lease(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let lock = fixture.client(leased(ttl)).await;
    let operator = fixture.client(leased(ttl)).await;
    let guard = lock.lock().await.expect("lock");
    assert!(operator.force(guard.ticket()).await.expect("force"), "somebody held it");
    let told = async {
        let next = operator.lock().await.expect("the name is free");
        guard.lost().await;
        next
    };
    let next = within(ttl / 3 + EPSILON, "the holder is told", told).await;
    assert!(!guard.is_held());
    assert_eq!(kind_of(guard.release().await), Some(ErrorKind::Lost));
    assert!(next.is_held());
    next.release().await.expect("the old holder harmed nobody");
}

pub(crate) async fn m8_force_tells_whether_somebody_held(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let ticket = guard.ticket();
    assert!(lock.force(ticket).await.expect("force"));
    if matches!(kind, LockKind::Mutex) {
        assert!(!lock.force(ticket).await.expect("force"), "nobody held it");
    } else {
        assert!(!lock.force(ticket).await.expect("force"), "the ticket held nothing");
    }
    let next = lock.try_lock().await.expect("a definite answer").expect("free");
    drop(guard);
    pause(EPSILON).await;
    assert!(lock.try_lock().await.expect("a definite answer").is_none(), "the stale guard freed nobody");
    next.release().await.expect("still held");
}

/// C9: data loss is an unsafe fault; the holder learns of the loss all the same.
pub(crate) async fn c9_a_holder_is_told_of_data_loss(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let guard = fixture.client(leased(ttl)).await.lock().await.expect("lock");
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose the store's data");
    }
    within(ttl / 3 + EPSILON, "the holder is told", guard.lost()).await;
    assert!(!guard.is_held());
    assert_eq!(kind_of(guard.release().await), Some(ErrorKind::Lost));
}

/// C18: after a store comes back, even without its data, both waiting and new callers use it again.
pub(crate) async fn c18_clients_go_on_after_data_loss(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let holder = fixture.client(HoldOptions::default()).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let guard = holder.lock().await.expect("lock");
    let mut waiting = Vec::new();
    for (number, lock) in clients.iter().cloned().enumerate() {
        waiting.push(spawn(async move {
            let guard = lock.lock().await.expect("lock");
            guard.release().await.expect("release");
        }));
        holder.queue_of(number as u64 + 1).await;
    }
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose the store's data");
    }
    within(POLL_FLOOR + CANCELLED, "the queue forms anew", join_all(waiting)).await;
    for lock in clients.iter().chain([&holder]) {
        within(AT_ONCE, "it works again", lock.lock()).await.expect("lock").release().await.expect("release");
    }
    drop(guard);
}

pub(crate) async fn m4_run_gives_the_output(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let guard = fixture.client(HoldOptions::default()).await.lock().await.expect("lock");
    let output = guard.run(async {
        pause(Duration::from_millis(5)).await;
        42
    });
    assert_eq!(output.await.expect("held all the time"), 42);
    guard.release().await.expect("release");
}

/// Sets a flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) async fn m4_run_drops_the_future_at_the_deadline(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let guard = fixture.client(unrenewed(h.ttl())).await.lock().await.expect("lock");
    let deadline = guard.deadline();
    let dropped = Arc::new(AtomicBool::new(false));
    let [steps, late] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let flag = DropFlag(Arc::clone(&dropped));
    let (count, count_late) = (Arc::clone(&steps), Arc::clone(&late));
    let work = async move {
        let _flag = flag;
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            if now() >= deadline + TICK {
                count_late.fetch_add(1, Ordering::SeqCst);
            }
            pause(Duration::from_millis(1)).await;
        }
    };
    let watch = Stopwatch::start();
    let limit = deadline.saturating_duration_since(now()) + EPSILON;
    let stopped = within(limit, "run ends at D", guard.run::<_>(async { work.await as () })).await;
    assert_eq!(kind_of(stopped), Some(ErrorKind::Lost));
    assert!(now() >= deadline, "not before D");
    assert!(dropped.load(Ordering::SeqCst), "the future is gone when run returns");
    // The poll that runs at D may have begun before it; another one must not begin.
    assert!(late.load(Ordering::SeqCst) <= 1, "a step after D");
    let ran = watch.elapsed() >= belief(h.ttl()) / 2;
    assert!(steps.load(Ordering::SeqCst) > 1 || !ran, "it ran until then");
}

pub(crate) async fn m4_run_drops_the_future_at_the_loss(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let ttl = fixture.lease(long_ttl(h));
    let guard = fixture.client(leased(ttl)).await.lock().await.expect("lock");
    let operator = fixture.client(leased(ttl)).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = DropFlag(Arc::clone(&dropped));
    let work = async move {
        let _flag = flag;
        std::future::pending::<()>().await;
    };
    let force = async {
        pause(Duration::from_millis(20)).await;
        operator.force(guard.ticket()).await.expect("force")
    };
    let limit = fixture.forcing() + ttl / 3 + EPSILON + EPSILON;
    let (stopped, forced) =
        within(limit, "run ends at the loss", async { tokio::join!(guard.run(work), force) }).await;
    assert!(forced);
    assert_eq!(kind_of(stopped), Some(ErrorKind::Lost));
    assert!(dropped.load(Ordering::SeqCst), "the future is gone when run returns");
}

/// C9: neither a release nor the calls of another handle resolve `lost()` of a live hold.
pub(crate) async fn c9_lost_is_of_this_hold_alone(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let neighbour = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let doings = async {
        for _ in 0..5 {
            let other = neighbour.client(HoldOptions::default()).await.lock().await.expect("lock");
            other.release().await.expect("release");
            assert!(lock.try_lock().await.expect("a definite answer").is_none());
            drop(neighbour.client(HoldOptions::default()).await.lock().await.expect("lock"));
        }
    };
    tokio::select! {
        () = guard.lost() => panic!("lost by what others did"),
        () = doings => {}
    }
    assert!(guard.is_held());
}
