//! Options are checked when an object is created (C19).

use std::time::Duration;

use stanchion_core::{
    ErrorKind, HoldOptions, LimiterOptions, MutexMode, MutexOptions, Quota, SemaphoreOptions, Store, Ticket,
    WaitGroupOptions,
};

use crate::harness::Harness;
use crate::support::{kind_of, unique};

fn with_hold(hold: &HoldOptions) -> (MutexOptions, SemaphoreOptions, WaitGroupOptions) {
    let mut options = (MutexOptions::default(), SemaphoreOptions::new(1), WaitGroupOptions::default());
    options.0.hold = hold.clone();
    options.1.hold = hold.clone();
    options.2.hold = hold.clone();
    options
}

fn hold(change: impl FnOnce(&mut HoldOptions)) -> HoldOptions {
    let mut options = HoldOptions::default();
    change(&mut options);
    options
}

/// Returns whether the options are accepted; asserts that all kinds agree. Mutexes that sessions
/// keep have one TTL.
fn accepted(store: &dyn Store, hold: &HoldOptions) -> bool {
    let (mutex, semaphore, group) = with_hold(hold);
    let mutex = kind_of(store.mutex("o", mutex));
    let mut answers = vec![kind_of(store.semaphore("o", semaphore))];
    if store.capabilities().mutex_mode == MutexMode::Session && hold.ttl.is_some() {
        assert_eq!(mutex, Some(ErrorKind::InvalidArgument), "{hold:?}: sessions have one TTL for all");
    } else {
        answers.push(mutex);
    }
    if store.capabilities().wait_groups {
        answers.push(kind_of(store.wait_group("o", group)));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{hold:?}: {answers:?}");
    assert!(matches!(answers[0], None | Some(ErrorKind::InvalidArgument)), "{hold:?}: {answers:?}");
    answers[0].is_none()
}

pub(crate) async fn c19_a_lease_out_of_range_is_refused(h: &dyn Harness) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let store = h.store().await;
    for ttl in [Duration::ZERO, Duration::from_millis(99), DAY + Duration::from_nanos(1), Duration::MAX] {
        assert!(!accepted(store.as_ref(), &hold(|hold| hold.ttl = Some(ttl))), "{ttl:?}");
    }
    for ttl in [Duration::from_millis(100), DAY] {
        assert!(accepted(store.as_ref(), &hold(|hold| hold.ttl = Some(ttl))), "{ttl:?}");
    }
    assert!(!accepted(store.as_ref(), &hold(|hold| hold.max_hold = Some(Duration::from_millis(99)))));
    assert!(accepted(store.as_ref(), &hold(|hold| hold.max_hold = Some(Duration::from_millis(100)))));
    if store.capabilities().mutex_mode == MutexMode::Session {
        drop(store.mutex("o", MutexOptions::default().ttl(h.ttl())).expect("the TTL of its sessions"));
    }
}

pub(crate) async fn c19_a_bad_label_or_bound_is_refused(h: &dyn Harness) {
    let store = h.store().await;
    assert!(!accepted(store.as_ref(), &hold(|hold| hold.label = Some("x".repeat(513).into()))));
    assert!(!accepted(store.as_ref(), &hold(|hold| hold.label = Some("a\0b".into()))));
    assert!(!accepted(store.as_ref(), &hold(|hold| hold.max_waiters = Some(0))));
    for label in ["", "\n", "{\"a\": 'b'}", "\u{1f980}"] {
        let options = hold(|hold| hold.label = Some(label.into()));
        assert!(accepted(store.as_ref(), &options), "{label:?}");
        let mut mutex = MutexOptions::default();
        mutex.hold = options;
        let mutex = store.mutex("labelled", mutex).expect("a mutex");
        let guard = mutex.lock().await.expect("lock");
        let state = mutex.inspect().await.expect("inspect");
        assert_eq!(state.holders[0].label.as_deref(), Some(label), "the label comes back as it was given");
        guard.release().await.expect("release");
    }
}

/// C21, C19: the error of a refusal names the operation, the store and, if there is one, the name,
/// in one line.
pub(crate) async fn c21_a_refusal_has_its_context(h: &dyn Harness) {
    let store = h.store().await;
    let kind = store.capabilities().store;
    let name = "two\nlines";
    let refusals = [
        store.mutex(name, MutexOptions::default().ttl(Duration::ZERO)).map(drop),
        store.semaphore(name, SemaphoreOptions::new(0)).map(drop),
    ];
    for (refusal, operation) in refusals.into_iter().zip(["mutex", "semaphore"]) {
        let error = refusal.expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            (error.operation(), error.store(), error.name()),
            (Some(operation), Some(kind), Some(name))
        );
        assert!(!error.is_retryable());
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    let semaphore = store.semaphore(name, SemaphoreOptions::new(2)).expect("a semaphore");
    let error = semaphore.acquire_many(3).await.expect_err("over the limit");
    assert_eq!((error.operation(), error.store()), (Some("acquire_many"), Some(kind)));
    assert_eq!(error.name(), Some(name));
    let error = semaphore.try_acquire_many(0).await.expect_err("zero");
    assert_eq!(error.operation(), Some("try_acquire_many"));
}

fn operation<T>(called: stanchion_core::Result<T>) -> Option<&'static str> {
    called.err().and_then(|error| error.operation())
}

pub(crate) async fn c21_an_error_names_the_call_that_was_made(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("closed"));
    let capabilities = store.capabilities();
    let second = Duration::from_secs(1);
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let semaphore = store.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
    let group = capabilities
        .wait_groups
        .then(|| store.wait_group(&name, WaitGroupOptions::default()).expect("a group"));
    let options = LimiterOptions::new(Quota::per_second(1));
    let limiter = capabilities.limiters.then(|| store.limiter(&name, options).expect("a limiter"));
    store.close().await.expect("close");
    assert_eq!(operation(mutex.lock().await), Some("lock"));
    assert_eq!(operation(mutex.try_lock().await), Some("try_lock"));
    assert_eq!(operation(mutex.lock_for(second).await), Some("lock_for"));
    assert_eq!(operation(semaphore.acquire().await), Some("acquire"));
    assert_eq!(operation(semaphore.acquire_many(2).await), Some("acquire_many"));
    assert_eq!(operation(semaphore.try_acquire().await), Some("try_acquire"));
    assert_eq!(operation(semaphore.try_acquire_many(2).await), Some("try_acquire_many"));
    assert_eq!(operation(semaphore.acquire_for(second).await), Some("acquire_for"));
    assert_eq!(operation(semaphore.acquire_many_for(2, second).await), Some("acquire_many_for"));
    assert_eq!(operation(semaphore.available().await), Some("available"));
    assert_eq!(operation(semaphore.resize(3).await), Some("resize"));
    assert_eq!(operation(semaphore.inspect().await), Some("inspect"));
    assert_eq!(operation(semaphore.force_release(Ticket::random()).await), Some("force_release"));
    if let Some(group) = group {
        assert_eq!(operation(group.add().await), Some("add"));
        assert_eq!(operation(group.add_many(2).await), Some("add_many"));
        assert_eq!(operation(group.try_add().await), Some("try_add"));
        assert_eq!(operation(group.add_for(second).await), Some("add_for"));
        assert_eq!(operation(group.wait().await), Some("wait"));
        assert_eq!(operation(group.wait_for(second).await), Some("wait_for"));
        assert_eq!(operation(group.count().await), Some("count"));
        assert_eq!(operation(group.done(Ticket::random()).await), Some("done"));
    }
    if let Some(limiter) = limiter {
        assert_eq!(operation(limiter.allow().await), Some("allow"));
        assert_eq!(operation(limiter.allow_n(1).await), Some("allow_n"));
        assert_eq!(operation(limiter.reserve(second).await), Some("reserve"));
        assert_eq!(operation(limiter.reserve_n(1, second).await), Some("reserve_n"));
        assert_eq!(operation(limiter.wait().await), Some("wait"));
        assert_eq!(operation(limiter.wait_n(1).await), Some("wait_n"));
        assert_eq!(operation(limiter.wait_for(second).await), Some("wait_for"));
        assert_eq!(operation(limiter.wait_n_for(1, second).await), Some("wait_n_for"));
        assert_eq!(operation(limiter.peek().await), Some("peek"));
        assert_eq!(operation(limiter.set_quota(Quota::per_second(2)).await), Some("set_quota"));
        assert_eq!(operation(limiter.reset().await), Some("reset"));
    }
}
