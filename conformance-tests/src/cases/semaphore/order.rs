//! The order of requests of different sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stanchion_core::HoldOptions;

use super::{client, queue_of};
use crate::harness::Harness;
use crate::support::{
    BRIEF, CANCELLED, EPSILON, POLL_FLOOR, definite, join_all, pause, spawn, unique, within,
};

/// S5: small requests that keep coming do not starve the large one in front of them.
pub(crate) async fn s5_a_large_request_is_not_starved(h: &dyn Harness) {
    let name = unique("semaphore");
    let large = client(h, &name, 3, HoldOptions::default()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut small = Vec::new();
    for _ in 0..6 {
        let (semaphore, stop) = (client(h, &name, 3, HoldOptions::default()).await, Arc::clone(&stop));
        small.push(spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let permit = semaphore.acquire().await.expect("acquire");
                pause(Duration::from_millis(4)).await;
                permit.release().await.expect("release");
            }
        }));
    }
    for _ in 0..4 {
        pause(Duration::from_millis(30)).await;
        let limit = POLL_FLOOR * 2 + EPSILON;
        within(limit, "all three permits", large.acquire_many(3))
            .await
            .expect("acquire")
            .release()
            .await
            .expect("release");
    }
    stop.store(true, Ordering::SeqCst);
    within(POLL_FLOOR * 6, "the small ones", join_all(small)).await;
}

/// S5, C16: a request that would fit waits behind one that does not fit yet.
pub(crate) async fn s5_c16_nobody_passes_the_head_of_the_queue(h: &dyn Harness) {
    let name = unique("semaphore");
    let holder = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    let one = holder.acquire().await.expect("acquire");
    let (large, small) = (Arc::clone(&other), Arc::clone(&holder));
    let large = spawn(async move { large.acquire_many(3).await.expect("acquire") });
    queue_of(holder.as_ref(), 1).await;
    let small = spawn(async move { small.acquire().await.expect("acquire") });
    queue_of(holder.as_ref(), 2).await;
    for semaphore in [&holder, &other] {
        assert!(semaphore.try_acquire().await.expect("a definite answer").is_none(), "passed the queue");
        let granted = definite(|| semaphore.acquire_many_for(1, BRIEF)).await.expect("a definite answer");
        assert!(granted.is_none(), "passed the queue");
    }
    assert!(!small.is_finished(), "passed the head of the queue");
    one.release().await.expect("release");
    let all = within(POLL_FLOOR + EPSILON, "the large one", large.join()).await;
    assert!(!small.is_finished());
    all.release().await.expect("release");
    within(POLL_FLOOR + EPSILON, "the small one", small.join()).await.release().await.expect("release");
}

/// C5: when the large head is dropped, every waiter behind it that fits is granted, not only the
/// first.
pub(crate) async fn c5_s5_a_dropped_large_head_lets_all_who_fit_run(h: &dyn Harness) {
    let name = unique("semaphore");
    let holder = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    let one = holder.acquire().await.expect("acquire");
    let large = Arc::clone(&other);
    let large = spawn(async move { large.acquire_many(3).await.expect("acquire") });
    queue_of(holder.as_ref(), 1).await;
    let mut small = Vec::new();
    for number in 0..2 {
        let semaphore = Arc::clone(if number == 0 { &holder } else { &other });
        small.push(spawn(async move { semaphore.acquire().await.expect("acquire") }));
        queue_of(holder.as_ref(), number + 2).await;
    }
    large.cancel().await;
    let granted = within(CANCELLED, "both small ones", join_all(small)).await;
    assert_eq!(granted.len(), 2);
    assert_eq!(holder.available().await.expect("available"), 0);
    one.release().await.expect("release");
}

/// C14: one release of several permits lets several waiters run.
pub(crate) async fn c14_a_large_release_wakes_all_who_fit(h: &dyn Harness) {
    let name = unique("semaphore");
    let holder = client(h, &name, 4, HoldOptions::default()).await;
    let other = client(h, &name, 4, HoldOptions::default()).await;
    let all = holder.acquire_many(4).await.expect("acquire");
    let mut waiters = Vec::new();
    for (number, weight) in [1_u32, 2, 1].into_iter().enumerate() {
        let semaphore = Arc::clone(if number % 2 == 0 { &holder } else { &other });
        waiters.push(spawn(async move { semaphore.acquire_many(weight).await.expect("acquire") }));
        queue_of(holder.as_ref(), number as u64 + 1).await;
    }
    all.release().await.expect("release");
    let granted = within(POLL_FLOOR + EPSILON, "all three waiters", join_all(waiters)).await;
    assert!(granted.iter().all(stanchion_core::Permit::is_held));
    assert_eq!(other.available().await.expect("available"), 0);
}
