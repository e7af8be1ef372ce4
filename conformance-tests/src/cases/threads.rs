//! The blocking face: what threads do that tasks do not.

use std::sync::{Arc, Mutex as StdMutex};
use std::thread;
use std::time::Duration;

use stanchion_core::blocking::{Mutex, Store};
use stanchion_core::{Error, ErrorKind, MutexOptions, Result, SemaphoreOptions, blocking};
use tokio::task::{block_in_place, spawn_blocking};

use crate::harness::Harness;
use crate::support::{
    BRIEF, EPSILON, IDLE, QUEUED, Stopwatch, by_two_clients, eventually, kind_of, now, on_bare_thread, pause,
    queue_of, spawn, takes_its_turn, unique, within,
};

/// Opens the same mutex for threads and for tasks, by two clients.
async fn both(h: &dyn Harness) -> (Mutex, Arc<dyn stanchion_core::Mutex>) {
    let (threads, tasks) = by_two_clients(h).await;
    (Mutex::from(threads), tasks)
}

/// Runs the call of a thread.
async fn by_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(call).await.expect("no panic")
}

pub(crate) async fn c17_a_time_limit_passes_while_a_thread_is_parked(h: &dyn Harness) {
    let (mutex, other) = both(h).await;
    let held = other.lock().await.expect("lock");
    let parked = mutex.clone();
    let (at_least, at_most) = by_thread(move || {
        let (start, watch) = (now(), Stopwatch::start());
        assert!(!matches!(parked.lock_for(BRIEF), Ok(Some(_))), "another caller has it");
        (now() - start, watch.elapsed())
    })
    .await;
    assert!(
        at_least >= BRIEF && at_most <= BRIEF + EPSILON,
        "{at_least:?}, {at_most:?} on a machine that runs"
    );
    queue_of(&other, 0, QUEUED).await;
    held.release().await.expect("release");
    let guard = by_thread(move || mutex.lock_for(QUEUED)).await.expect("an answer");
    drop(guard.expect("it is free"));
}

/// The thread that has the hold looks at it, and a second one waits for it.
pub(crate) async fn m4_a_thread_is_told_of_the_loss(h: &dyn Harness) {
    let (mutex, other) = both(h).await;
    let begun = Arc::new(StdMutex::new(None));
    let token_of = Arc::clone(&begun);
    let working = thread::spawn(move || {
        mutex.run(|token, lost| {
            assert!(!lost.is_lost());
            assert!(!lost.wait_for(IDLE).expect("a thread may wait"), "it is held");
            *token_of.lock().expect("a lock") = Some(token);
            thread::scope(|scope| {
                scope.spawn(|| lost.wait()).join().expect("no panic").expect("a thread may wait")
            });
            assert!(lost.is_lost());
        })
    });
    eventually(QUEUED, "it has the mutex", || async { begun.lock().expect("a lock").is_some() }).await;
    assert!(other.force_unlock().await.expect("force"));
    // Within a third of the default lease of 30 s.
    let told = Duration::from_secs(10) + EPSILON;
    let ended = within(told, "it is told", by_thread(move || working.join().expect("no panic"))).await;
    assert_eq!(kind_of(ended), Some(ErrorKind::Lost));
}

pub(crate) async fn c16_threads_and_tasks_have_one_queue(h: &dyn Harness) {
    let (mutex, other) = both(h).await;
    let held = other.lock().await.expect("lock");
    let order = Arc::new(StdMutex::new(Vec::new()));
    let note = |number: u64| {
        let order = Arc::clone(&order);
        move || order.lock().expect("a lock").push(number)
    };
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for number in 1..=6 {
        let note = note(number);
        if number % 2 == 0 {
            let mutex = mutex.clone();
            threads.push(thread::spawn(move || {
                let guard = mutex.lock()?;
                note();
                guard.release()
            }));
        } else {
            let other = Arc::clone(&other);
            tasks.push(spawn(async move {
                let guard = other.lock().await?;
                note();
                guard.release().await
            }));
        }
        queue_of(&other, number, QUEUED).await;
    }
    held.release().await.expect("release");
    for task in tasks {
        task.join().await.expect("no error");
    }
    by_thread(move || threads.into_iter().try_for_each(|thread| thread.join().expect("no panic")))
        .await
        .expect("no error");
    assert_eq!(*order.lock().expect("a lock"), [1, 2, 3, 4, 5, 6]);
}

/// C28: on a plain thread, on one that a runtime lends, and inside of `block_in_place`, whatever
/// the runtime does meanwhile. A task would stop the runtime that it waits for, so there the call
/// says so.
pub(crate) async fn c28_a_blocking_call_works_wherever_a_thread_may_block(h: &dyn Harness) {
    let (mutex, other) = both(h).await;
    let turn = |mutex: &Mutex| mutex.lock().and_then(blocking::MutexGuard::release);
    on_bare_thread({
        let mutex = mutex.clone();
        move || turn(&mutex).expect("a plain thread may wait")
    })
    .expect("no panic");
    by_thread({
        let mutex = mutex.clone();
        move || turn(&mutex).expect("a thread that is lent may wait")
    })
    .await;
    spawn({
        let mutex = mutex.clone();
        async move { block_in_place(|| turn(&mutex).expect("this thread gives its tasks away")) }
    })
    .join()
    .await;

    let held = other.lock().await.expect("lock");
    let in_task = spawn({
        let mutex = mutex.clone();
        async move { kind_of(mutex.lock()) }
    });
    assert_eq!(within(QUEUED, "it does not wait", in_task.join()).await, Some(ErrorKind::Unsupported));
    held.release().await.expect("release");
    // Guards may be dropped in tasks.
    let guard = by_thread(move || mutex.lock()).await.expect("lock");
    drop(guard);
    takes_its_turn(&other).await;
}

pub(crate) async fn c12_a_scope_of_a_thread_closes_its_store(h: &dyn Harness) {
    let store = Store::from(h.store().await);
    let name = unique("mutex");
    let witness = h.store().await.mutex(&name, MutexOptions::new()).expect("a mutex");
    by_thread(move || {
        let held = store.scope(|store| store.mutex(&name, MutexOptions::new())?.lock());
        assert!(!held.expect("no error").is_held(), "a guard that leaves the scope is lost");
        assert_eq!(kind_of(store.ping()), Some(ErrorKind::Closed));
        let failed: Result<()> = store.scope(|_| Err(Error::new(ErrorKind::Overloaded, "the work's own")));
        assert_eq!(kind_of(failed), Some(ErrorKind::Overloaded));
    })
    .await;
    assert!(witness.try_lock().await.expect("a definite answer").is_some(), "it is free");
}

/// C3: who is told that a call was not made is told the truth.
pub(crate) async fn c3_a_call_that_is_refused_in_a_task_was_not_made(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("semaphore"));
    let semaphore = Store::from(Arc::clone(&store)).semaphore(&name, SemaphoreOptions::new(3));
    let semaphore = semaphore.expect("a semaphore");
    let resized = spawn(async move { semaphore.resize(5) }).join();
    let limit = match within(QUEUED, "it does not wait", resized).await {
        // It was done at once.
        Ok(()) => 5,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            3
        }
    };
    // A request that had left would have arrived.
    pause(IDLE).await;
    let semaphore = store.semaphore(&name, SemaphoreOptions::new(3)).expect("a semaphore");
    assert_eq!(semaphore.available().await.expect("an answer"), limit);
}
