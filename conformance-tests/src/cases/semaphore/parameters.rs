//! The limit as a parameter of several clients (C20).

use std::sync::Arc;

use stanchion_core::{ErrorKind, HoldOptions, OnMismatch, Semaphore, SemaphoreOptions};

use super::{client, queue_of};
use crate::harness::Harness;
use crate::support::{AT_ONCE, EPSILON, POLL_FLOOR, kind_of, spawn, unique, within};

async fn with(h: &dyn Harness, name: &str, permits: u32, on_mismatch: OnMismatch) -> Arc<dyn Semaphore> {
    let options = SemaphoreOptions::new(permits).on_mismatch(on_mismatch);
    h.store().await.semaphore(name, options).expect("a semaphore")
}

pub(crate) async fn c20_another_limit_is_refused_naming_both(h: &dyn Harness) {
    let name = unique("semaphore");
    let kept = client(h, &name, 3_111, HoldOptions::default()).await.acquire().await.expect("acquire");
    let other = client(h, &name, 5_222, HoldOptions::default()).await;
    for _ in 0..2 {
        let error = other.try_acquire().await.expect_err("a difference is never silent");
        assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
        let text = error.to_string().replace(&name, "");
        assert!(text.contains("3111") && text.contains("5222"), "names both values: {text}");
    }
    let refused = within(AT_ONCE, "refused at once", other.acquire()).await;
    assert_eq!(kind_of(refused), Some(ErrorKind::ConfigMismatch));
    assert!(kept.is_held());
}

pub(crate) async fn c20_looking_neither_compares_nor_stores(h: &dyn Harness) {
    let name = unique("semaphore");
    let first = client(h, &name, 3, HoldOptions::default()).await;
    assert_eq!(first.available().await.expect("a number"), 3);
    assert_eq!(first.inspect().await.expect("inspect").limit, None, "nothing is stored");
    let permit = client(h, &name, 2, HoldOptions::default()).await.acquire().await.expect("the first to ask");
    assert_eq!(first.available().await.expect("nothing is compared"), 1);
    assert_eq!(kind_of(first.try_acquire().await), Some(ErrorKind::ConfigMismatch));
    drop(permit);
}

pub(crate) async fn c20_a_refused_call_stores_nothing(h: &dyn Harness) {
    let name = unique("semaphore");
    let small = client(h, &name, 2, HoldOptions::default()).await;
    assert_eq!(kind_of(small.try_acquire_many(3).await), Some(ErrorKind::InvalidArgument));
    let large = client(h, &name, 5, HoldOptions::default()).await;
    let four = large.try_acquire_many(4).await.expect("nothing was stored").expect("four of five");
    let replacing = with(h, &name, 2, OnMismatch::Replace).await;
    assert_eq!(kind_of(replacing.try_acquire_many(3).await), Some(ErrorKind::InvalidArgument));
    let waiter = Arc::clone(&large);
    let waiting = spawn(async move { waiter.acquire_many(2).await.expect("acquire") });
    queue_of(large.as_ref(), 1).await;
    let options = SemaphoreOptions::new(4).on_mismatch(OnMismatch::Replace).max_waiters(1);
    let bounded = h.store().await.semaphore(&name, options).expect("a semaphore");
    assert_eq!(kind_of(bounded.acquire().await), Some(ErrorKind::Overloaded));
    assert_eq!(large.inspect().await.expect("inspect").limit, Some(5), "nothing was replaced");
    drop(four);
    drop(within(POLL_FLOOR + EPSILON, "the waiter's turn", waiting.join()).await);
}

pub(crate) async fn c20_a_limit_outlives_its_handles(h: &dyn Harness) {
    let name = unique("semaphore");
    client(h, &name, 2, HoldOptions::default())
        .await
        .acquire()
        .await
        .expect("acquire")
        .release()
        .await
        .expect("release");
    let other = client(h, &name, 3, HoldOptions::default()).await;
    assert_eq!(kind_of(other.try_acquire().await), Some(ErrorKind::ConfigMismatch));
    other.resize(4).await.expect("resize");
    drop(other);
    let third = client(h, &name, 3, HoldOptions::default()).await;
    assert_eq!(third.available().await.expect("a number"), 4);
    assert_eq!(kind_of(third.try_acquire().await), Some(ErrorKind::ConfigMismatch));
}

pub(crate) async fn c20_adopt_uses_the_stores_limit(h: &dyn Harness) {
    let name = unique("semaphore");
    let first = client(h, &name, 3, HoldOptions::default()).await;
    let one = first.acquire().await.expect("acquire");
    let adopting = with(h, &name, 5, OnMismatch::Adopt).await;
    let two = adopting.try_acquire_many(2).await.expect("adopted").expect("free");
    assert!(adopting.try_acquire().await.expect("a definite answer").is_none(), "three of three are out");
    assert_eq!(kind_of(adopting.try_acquire_many(4).await), Some(ErrorKind::InvalidArgument));
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(3), "the store's limit stands");
    drop((one, two));
}

pub(crate) async fn c20_replace_changes_the_limit_once(h: &dyn Harness) {
    let name = unique("semaphore");
    let first = client(h, &name, 3, HoldOptions::default()).await;
    let one = first.acquire().await.expect("acquire");
    let replacing = with(h, &name, 5, OnMismatch::Replace).await;
    let four = replacing.try_acquire_many(4).await.expect("replaced").expect("four of five");
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(5), "for everybody");
    four.release().await.expect("release");
    first.resize(2).await.expect("resize");
    let second = replacing.try_acquire().await.expect("a definite answer").expect("one of two");
    assert!(replacing.try_acquire().await.expect("a definite answer").is_none());
    assert_eq!(
        first.inspect().await.expect("inspect").limit,
        Some(2),
        "once: after that it follows the store"
    );
    drop((one, second));
}

/// C20: a replace happens once, also if the first operation has to wait and asks the store again.
pub(crate) async fn c20_a_queued_replace_replaces_once(h: &dyn Harness) {
    let name = unique("semaphore");
    let first = client(h, &name, 3, HoldOptions::default()).await;
    let three = first.acquire_many(3).await.expect("acquire");
    let replacing = with(h, &name, 4, OnMismatch::Replace).await;
    let waiting = spawn(async move { replacing.acquire_many(2).await.expect("acquire") });
    queue_of(first.as_ref(), 1).await;
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(4), "replaced when it queued");
    first.resize(6).await.expect("resize");
    let two = within(POLL_FLOOR + EPSILON, "room enough", waiting.join()).await;
    assert_eq!(first.inspect().await.expect("inspect").limit, Some(6), "not replaced again");
    drop((three, two));
}

/// C20: a handle compares at its first operation only, and follows the store afterwards.
pub(crate) async fn c20_a_used_handle_follows_the_store(h: &dyn Harness) {
    let name = unique("semaphore");
    let used = client(h, &name, 3, HoldOptions::default()).await;
    let one = used.acquire().await.expect("acquire");
    client(h, &name, 3, HoldOptions::default()).await.resize(6).await.expect("resize");
    let five = used.try_acquire_many(5).await.expect("a definite answer").expect("five more of six");
    let late = client(h, &name, 3, HoldOptions::default()).await;
    assert_eq!(kind_of(late.try_acquire().await), Some(ErrorKind::ConfigMismatch), "a new handle compares");
    drop((one, five));
}

pub(crate) async fn c20_a_queued_request_over_the_new_limit_ends(h: &dyn Harness) {
    let name = unique("semaphore");
    let holder = client(h, &name, 3, HoldOptions::default()).await;
    let other = client(h, &name, 3, HoldOptions::default()).await;
    let one = holder.acquire().await.expect("acquire");
    let large = Arc::clone(&other);
    let large = spawn(async move { large.acquire_many(3).await });
    queue_of(holder.as_ref(), 1).await;
    let small = Arc::clone(&other);
    let small = spawn(async move { small.acquire().await });
    queue_of(holder.as_ref(), 2).await;
    holder.resize(2).await.expect("resize");
    let ended = within(POLL_FLOOR + EPSILON, "the impossible request ends", large.join()).await;
    assert_eq!(kind_of(ended), Some(ErrorKind::InvalidArgument));
    let granted = within(POLL_FLOOR + EPSILON, "who fits behind it runs", small.join()).await;
    granted.expect("acquire").release().await.expect("release");
    one.release().await.expect("release");
}

/// C19: counts are checked before any request is sent.
pub(crate) async fn c19_bad_counts_are_refused(h: &dyn Harness) {
    const TOO_MANY: u32 = SemaphoreOptions::MAX_PERMITS + 1;
    let store = h.store().await;
    let name = unique("semaphore");
    for permits in [0, TOO_MANY, u32::MAX] {
        let refused = store.semaphore(&name, SemaphoreOptions::new(permits));
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "a limit of {permits}");
    }
    let semaphore = client(h, &name, 3, HoldOptions::default()).await;
    for count in [0, TOO_MANY, u32::MAX] {
        assert_eq!(kind_of(semaphore.acquire_many(count).await), Some(ErrorKind::InvalidArgument));
        assert_eq!(kind_of(semaphore.try_acquire_many(count).await), Some(ErrorKind::InvalidArgument));
        let limited = semaphore.acquire_many_for(count, EPSILON).await;
        assert_eq!(kind_of(limited), Some(ErrorKind::InvalidArgument));
        assert_eq!(kind_of(semaphore.resize(count).await), Some(ErrorKind::InvalidArgument));
    }
    let largest =
        client(h, &unique("semaphore"), SemaphoreOptions::MAX_PERMITS, HoldOptions::default()).await;
    let all = largest.try_acquire_many(SemaphoreOptions::MAX_PERMITS).await.expect("a definite answer");
    assert_eq!(all.expect("free").weight(), SemaphoreOptions::MAX_PERMITS);
}
