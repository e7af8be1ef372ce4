//! Behaviour of mutexes only: several guards of the same hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stanchion_core::{ErrorKind, MutexExt, MutexGuard, MutexOptions};

use crate::harness::Harness;
use crate::support::{
    AT_ONCE, BRIEF, CANCELLED, EPSILON, IDLE, QUEUED, belief, beside, by_two_clients, definite, eventually,
    kind_of, lease_of, now, on_bare_thread, pause, poll_once, queue_of, spawn, stays_pending, takes_its_turn,
    unique, within,
};

pub(crate) async fn m5_a_second_try_lock_by_the_same_task_is_a_no(h: &dyn Harness) {
    let store = h.store().await;
    let name = unique("mutex");
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let again = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    for mutex in [&mutex, &again] {
        assert!(mutex.try_lock().await.expect("a definite answer").is_none());
        assert!(definite(|| mutex.lock_for(BRIEF)).await.expect("a definite answer").is_none());
    }
    let mut waiting = Box::pin(again.lock());
    stays_pending(IDLE, "not re-entrant", &mut waiting).await;
    drop(waiting);
    guard.release().await.expect("release");
}

pub(crate) async fn m5_the_last_of_reentered_guards_releases(h: &dyn Harness) {
    let (mutex, other) = by_two_clients(h).await;
    let first = mutex.lock().await.expect("lock");
    let second = first.reenter();
    let third = second.reenter();
    assert_eq!(first.ticket(), third.ticket(), "one hold");
    assert_eq!(first.fencing_token(), third.fencing_token(), "one grant");
    first.release().await.expect("others are left");
    assert!(other.try_lock().await.expect("a definite answer").is_none());
    on_bare_thread(move || drop(third)).expect("no panic without a runtime");
    assert!(second.is_held());
    assert!(definite(|| other.lock_for(IDLE)).await.expect("a definite answer").is_none());
    queue_of(&other, 0, CANCELLED).await;
    second.release().await.expect("the last one");
    let guard = other.try_lock().await.expect("a definite answer").expect("free");

    let another = guard.reenter();
    drop(guard);
    assert!(definite(|| mutex.lock_for(IDLE)).await.expect("a definite answer").is_none());
    drop(another);
    drop(within(QUEUED, "the last one dropped releases", mutex.lock()).await.expect("lock"));
}

/// C9: the release of one guard is no loss to another guard of the same hold.
pub(crate) async fn c9_m5_an_ordinary_release_is_no_loss(h: &dyn Harness) {
    let mutex = h.store().await.mutex(&unique("mutex"), MutexOptions::default()).expect("a mutex");
    let kept = mutex.lock().await.expect("lock");
    let released = kept.reenter();
    let mut lost = Box::pin(kept.lost());
    assert!(poll_once(&mut lost).await.is_none());
    released.release().await.expect("release");
    stays_pending(IDLE, "lost() after another guard's release", &mut lost).await;
    drop(lost);
    kept.release().await.expect("release");
}

/// M5: a loss is the loss of all guards of the hold.
pub(crate) async fn c11_m5_reentered_guards_are_lost_together(h: &dyn Harness) {
    let ttl = h.ttl();
    let store = h.store().await;
    let name = unique("mutex");
    let options = MutexOptions::default().ttl(ttl).renew(false);
    let mutex = store.mutex(&name, options).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    let guards: [MutexGuard; 3] = [guard.reenter(), guard.reenter(), guard];
    for guard in &guards {
        within(belief(ttl) + EPSILON, "lost() at D", guard.lost()).await;
    }
    let other = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let next = within(ttl + EPSILON, "the lease ends", other.lock()).await.expect("lock");
    for guard in guards {
        assert!(!guard.is_held());
        assert_eq!(kind_of(guard.release().await), Some(ErrorKind::Lost));
    }
    assert!(next.is_held() && other.try_lock().await.expect("a definite answer").is_none());
}

/// C24: a hold that other guards still share cannot be detached.
pub(crate) async fn c24_m5_only_the_last_guard_detaches(h: &dyn Harness) {
    let mutex = h.store().await.mutex(&unique("mutex"), MutexOptions::default()).expect("a mutex");
    let kept = mutex.lock().await.expect("lock");
    let refused = kept.reenter().detach(lease_of(Duration::from_secs(10))).await;
    assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
    assert!(kept.is_held());
    let detached = kept.detach(lease_of(Duration::from_secs(10))).await.expect("the last one");
    mutex.attach(&detached).await.expect("attach").release().await.expect("release");
}

/// M3: a token is never below the store's time in microseconds, which is what makes it grow after
/// data loss.
pub(crate) async fn c7_m3_a_first_token_is_the_stores_time(h: &dyn Harness) {
    const DAY: u64 = 86_400_000_000;
    let mutex = h.store().await.mutex(&unique("mutex"), MutexOptions::default()).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    let token = guard.fencing_token().get();
    let ours = stanchion_core::clock::wall_micros();
    assert!(token.abs_diff(ours) < DAY, "{token} is no time in microseconds near {ours}");
    assert!(token < stanchion_core::FencingToken::LIMIT);
}

/// The options of a hold without a TTL are usable on every store.
pub(crate) async fn c10_a_hold_without_options_stays_held(h: &dyn Harness) {
    let mutex = h.store().await.mutex(&unique("mutex"), MutexOptions::default()).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    let end = now() + h.ttl();
    while now() < end {
        assert!(guard.is_held());
        assert!(guard.deadline().is_none_or(|deadline| deadline > now().into_std()));
        tokio::task::yield_now().await;
    }
    guard.release().await.expect("release");
}

pub(crate) async fn m4_a_mutex_runs_a_future_and_unlocks(h: &dyn Harness) {
    let (mutex, other) = by_two_clients(h).await;
    let first = other.lock().await.expect("lock");
    let earlier = first.fencing_token();
    first.release().await.expect("release");
    // In a task of its own, so that a future that cannot be sent between threads does not compile.
    let (runner, witness) = (Arc::clone(&mutex), Arc::clone(&other));
    let ran = spawn(async move {
        let held = async |token| (token, witness.try_lock().await.expect("a definite answer").is_none());
        runner.run(held).await
    });
    let (token, was_held) = ran.join().await.expect("it ran");
    assert!(token > earlier && was_held);
    assert!(
        other.try_lock().await.expect("a definite answer").is_some(),
        "it is released when `run` returns"
    );
}

/// The future is dropped, and the call reports the loss.
pub(crate) async fn m4_a_loss_ends_what_a_mutex_runs(h: &dyn Harness) {
    let (mutex, other) = by_two_clients(h).await;
    let steps = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&steps);
    let running = spawn(async move {
        let work = mutex.run(|_| async move {
            loop {
                count.fetch_add(1, Ordering::Relaxed);
                pause(Duration::from_millis(5)).await;
            }
        });
        work.await
    });
    eventually(AT_ONCE, "it runs", || async { steps.load(Ordering::Relaxed) > 0 }).await;
    assert!(other.force_unlock().await.expect("force"));
    // Within a third of the default lease of 30 s.
    let told = Duration::from_secs(10) + EPSILON;
    assert_eq!(kind_of(within(told, "it is told", running.join()).await), Some(ErrorKind::Lost));
    let at_the_end = steps.load(Ordering::Relaxed);
    pause(IDLE).await;
    assert_eq!(steps.load(Ordering::Relaxed), at_the_end, "it takes no step after that");
}

pub(crate) async fn c4_a_dropped_run_leaves_nothing(h: &dyn Harness) {
    let (mutex, other) = by_two_clients(h).await;
    let mut running = Box::pin(mutex.run(|_| std::future::pending::<()>()));
    stays_pending(IDLE, "it runs without an end", &mut running).await;
    drop(running);
    takes_its_turn(&other).await;

    let held = other.lock().await.expect("lock");
    let mut waiting = Box::pin(mutex.run(|_| async { panic!("it never has the mutex") }));
    beside(&mut waiting, "it waits", queue_of(&other, 1, AT_ONCE)).await;
    drop(waiting);
    queue_of(&other, 0, CANCELLED).await;
    held.release().await.expect("release");
}

/// M8: who comes later is not freed by a ticket that was seen before.
pub(crate) async fn m8_a_mutex_is_freed_of_the_hold_that_was_meant(h: &dyn Harness) {
    let (mutex, other) = by_two_clients(h).await;
    let earlier = mutex.lock().await.expect("lock");
    let seen = earlier.ticket();
    earlier.release().await.expect("release");
    let guard = mutex.lock().await.expect("lock");
    // From elsewhere some stores know a ticket only after a second.
    let is_known = async || {
        let seen = other.inspect().await.expect("inspect");
        seen.holders.first().is_some_and(|holder| holder.ticket == Some(guard.ticket()))
    };
    eventually(AT_ONCE, "its ticket is known", is_known).await;
    assert!(!other.force_unlock_of(seen).await.expect("force"), "that hold has ended");
    assert!(!mutex.force_unlock_of(seen).await.expect("force"), "that hold has ended");
    assert!(other.try_lock().await.expect("a definite answer").is_none() && guard.is_held());
    assert!(other.force_unlock_of(guard.ticket()).await.expect("force"));
    takes_its_turn(&other).await;
    assert!(!other.force_unlock_of(guard.ticket()).await.expect("force"), "it is freed once");
}
