//! Executors whose wakers do more than to wake: what one does is its own affair.

use std::sync::Arc;
use std::task::Context;
use std::thread;
use std::time::Duration;

use stanchion_core::{MutexGuard, MutexOptions, SemaphoreOptions, Store, WaitGroupOptions};

use crate::harness::Harness;
use crate::support::{
    AT_ONCE, BRIEF, EPSILON, POLL_FLOOR, beside, eventually, leased, pause, queue_of, spawn, unique, within,
};
use crate::wakers::{Call, Owner, owned, panicking};

async fn is_dropped(what: &str, owner: &Owner) {
    eventually(POLL_FLOOR * 2 + EPSILON, what, || async { owner.is_empty() }).await;
}

/// Asserts that nobody has stopped with a lock of the store's.
async fn answers(store: &Arc<dyn Store>) {
    let other = Arc::clone(store);
    let asked = thread::spawn(move || other.stats());
    eventually(AT_ONCE, "the state of the store can be read", || async { asked.is_finished() }).await;
    store.ping().await.expect("the store answers");
}

/// The lease of holds that have to be kept: longer than a busy machine stands still.
fn lease(h: &dyn Harness) -> Duration {
    h.ttl().max(Duration::from_secs(4))
}

/// Locks a mutex that is renewed.
async fn renewed(store: &Arc<dyn Store>, ttl: Duration) -> MutexGuard {
    let mut options = MutexOptions::default();
    options.hold = leased(ttl);
    store.mutex(&unique("renewed"), options).expect("a mutex").lock().await.expect("lock")
}

pub(crate) async fn c27_a_waker_that_drops_its_task_stops_nobody(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("owner"));
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let renewed = renewed(&store, lease(h)).await;
    let waiter = || -> Call {
        let mutex = Arc::clone(&mutex);
        Box::pin(async move { drop(mutex.lock().await) })
    };

    let (guard, mut waiting) = (mutex.lock().await.expect("lock"), waiter());
    beside(&mut waiting, "the mutex is held", queue_of(&mutex, 1, AT_ONCE)).await;
    let waiting = owned(waiting);
    guard.release().await.expect("release");
    is_dropped("the waiter was woken", &waiting).await;
    answers(&store).await;
    let guard = within(POLL_FLOOR * 3 + EPSILON, "nothing is left of it", mutex.lock()).await.expect("lock");

    let holder = owned(Box::pin(async move { guard.lost().await }));
    assert!(mutex.force_unlock().await.expect("an answer"));
    is_dropped("the holder was told", &holder).await;
    answers(&store).await;

    if store.capabilities().wait_groups {
        let group = store.wait_group(&name, WaitGroupOptions::default()).expect("a group");
        let member = group.add().await.expect("add");
        let mut waiting: Call = Box::pin(async move { drop(group.wait().await) });
        beside(&mut waiting, "there is a member", pause(BRIEF)).await;
        let waiting = owned(waiting);
        member.done().await.expect("done");
        is_dropped("the end was told", &waiting).await;
        answers(&store).await;
    }
    pause(lease(h) * 5 / 4).await;
    renewed.release().await.expect("it was renewed");

    let (guard, mut waiting) = (mutex.lock().await.expect("lock"), waiter());
    beside(&mut waiting, "the mutex is held", queue_of(&mutex, 1, AT_ONCE)).await;
    let waiting = owned(waiting);
    within(AT_ONCE + POLL_FLOOR, "the store closes", store.close()).await.expect("closed");
    is_dropped("the waiter was told of the end", &waiting).await;
    drop(guard);
}

/// Leaves a call that waits to a waker that panics.
fn leave_to_panic(call: &mut Call) {
    let waker = panicking();
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it waits");
}

pub(crate) async fn c27_a_waker_that_panics_stops_nobody(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("panicking"));
    let mut options = SemaphoreOptions::new(2);
    options.hold = leased(lease(h));
    let semaphore = store.semaphore(&name, options).expect("a semaphore");
    let renewed = renewed(&store, lease(h)).await;
    let waiters = async |count| {
        eventually(AT_ONCE, "they wait", || async {
            semaphore.inspect().await.expect("an answer").waiters == count
        })
        .await;
    };
    let acquire = || -> Call {
        let semaphore = Arc::clone(&semaphore);
        Box::pin(async move { drop(semaphore.acquire().await.expect("acquire")) })
    };

    let (all, mut first) = (semaphore.acquire_many(2).await.expect("acquire"), acquire());
    beside(&mut first, "all are held", waiters(1)).await;
    leave_to_panic(&mut first);
    let second = spawn(acquire());
    waiters(2).await;
    all.release().await.expect("release");
    pause(BRIEF).await;
    // It is first in the queue.
    within(POLL_FLOOR + EPSILON, "it was woken all the same", first).await;
    within(POLL_FLOOR + EPSILON, "the other waiter is woken", second.join()).await;

    let (one, other) =
        (semaphore.acquire().await.expect("acquire"), semaphore.acquire().await.expect("acquire"));
    let (tickets, other) = ((one.ticket(), other.ticket()), spawn(async move { other.lost().await }));
    let mut lost: Call = Box::pin(async move { one.lost().await });
    leave_to_panic(&mut lost);
    assert!(semaphore.force_release(tickets.0).await.expect("an answer"));
    assert!(semaphore.force_release(tickets.1).await.expect("an answer"));
    within(POLL_FLOOR + EPSILON, "the other holder is told", other.join()).await;
    lost.await;

    if store.capabilities().wait_groups {
        let group = store.wait_group(&name, WaitGroupOptions::default()).expect("a group");
        let member = group.add().await.expect("add");
        let wait = || -> Call {
            let group = Arc::clone(&group);
            Box::pin(async move {
                let _ended = group.wait().await.expect("zero");
            })
        };
        let mut first = wait();
        beside(&mut first, "there is a member", pause(BRIEF)).await;
        leave_to_panic(&mut first);
        let others: Vec<_> = (0..3).map(|_| spawn(wait())).collect();
        pause(BRIEF).await;
        member.done().await.expect("done");
        for other in others {
            within(POLL_FLOOR + EPSILON, "the others are woken", other.join()).await;
        }
        first.await;
    }
    answers(&store).await;
    pause(lease(h) * 5 / 4).await;
    renewed.release().await.expect("it was renewed");
}
