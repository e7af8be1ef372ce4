//! The store object itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use stanchion_core::{
    BloomOptions, Error, ErrorKind, Kind, LimiterOptions, ListOptions, MutexMode, MutexOptions, Quota,
    SemaphoreOptions, Store, StoreExt, Ttl, WaitGroupOptions,
};

use crate::harness::Harness;
use crate::support::{
    EPSILON, POLL_FLOOR, cannot_show, eventually, foreign, kind_of, now, spawn, tenant, unique, within,
};

/// Maximum time for which `close` waits for the last releases, with ε.
const CLOSED: Duration = Duration::from_secs(5).saturating_add(EPSILON);

/// C22: a capability that is declared works, and one that is declared missing is refused.
pub(crate) async fn c22_the_declaration_is_true(h: &dyn Harness) {
    let store = h.store().await;
    let capabilities = store.capabilities();
    assert!(!capabilities.store.is_empty());
    assert_eq!(h.store().await.capabilities(), capabilities, "the same from every client");
    within(POLL_FLOOR, "a sign of life", store.ping()).await.expect("ping");
    let unsupported = Some(ErrorKind::Unsupported);
    let group = store.wait_group("w", WaitGroupOptions::default());
    assert_eq!(group.is_ok(), capabilities.wait_groups);
    assert_eq!(kind_of(group), unsupported.filter(|_| !capabilities.wait_groups));
    let limiter = store.limiter("l", LimiterOptions::new(Quota::per_second(1)));
    assert_eq!(limiter.is_ok(), capabilities.limiters);
    assert_eq!(kind_of(limiter), unsupported.filter(|_| !capabilities.limiters));
    let filter = store.bloom_filter("b", BloomOptions::new(1, 0.1));
    assert_eq!(filter.is_ok(), capabilities.bloom_filters);
    assert_eq!(kind_of(filter), unsupported.filter(|_| !capabilities.bloom_filters));
    let view = store.namespace(&tenant("any")).await;
    assert_eq!(view.is_ok(), capabilities.namespaces);
    assert_eq!(kind_of(view), unsupported.filter(|_| !capabilities.namespaces));
    let listed = store.list(ListOptions::new()).await;
    assert_eq!(listed.is_ok(), capabilities.listing);
    assert_eq!(kind_of(listed), unsupported.filter(|_| !capabilities.listing));
    let mutex = store.mutex("m", MutexOptions::default()).expect("every store has mutexes");
    let attached = kind_of(mutex.attach(&foreign(Kind::Mutex)).await);
    let refusal = if capabilities.detach { ErrorKind::InvalidArgument } else { ErrorKind::Unsupported };
    assert_eq!(attached, Some(refusal));
    if !capabilities.detach {
        let refused = mutex.lock().await.expect("lock").detach(Ttl::DEFAULT).await;
        assert_eq!(kind_of(refused), unsupported);
        let again = within(POLL_FLOOR, "released after the refusal", mutex.lock()).await.expect("lock");
        again.release().await.expect("release");
    }
}

/// C12: a closed store object refuses every call; other store objects on the same state continue to
/// work.
pub(crate) async fn c12_a_closed_store_refuses_every_call(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    let capabilities = store.capabilities();
    let name = unique("closed");
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let semaphore = store.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
    within(Duration::from_secs(5), "nothing to drain", store.close()).await.expect("close");
    let closed = Some(ErrorKind::Closed);
    assert_eq!(kind_of(store.ping().await), closed);
    assert_eq!(kind_of(mutex.lock().await), closed);
    assert_eq!(kind_of(mutex.try_lock().await), closed);
    assert_eq!(kind_of(mutex.lock_for(Duration::ZERO).await), closed);
    assert_eq!(kind_of(mutex.lock_for(POLL_FLOOR).await), closed);
    assert_eq!(kind_of(mutex.inspect().await), closed);
    assert_eq!(kind_of(mutex.force_unlock().await), closed);
    assert_eq!(kind_of(semaphore.acquire().await), closed);
    assert_eq!(kind_of(semaphore.try_acquire_many(2).await), closed);
    assert_eq!(kind_of(semaphore.available().await), closed);
    assert_eq!(kind_of(semaphore.resize(3).await), closed);
    assert_eq!(kind_of(store.mutex(&name, MutexOptions::default())), closed);
    assert_eq!(kind_of(store.semaphore(&name, SemaphoreOptions::new(2))), closed);
    if capabilities.limiters {
        let limiter = store.limiter(&name, LimiterOptions::new(Quota::per_second(1)));
        assert_eq!(kind_of(limiter), closed);
    }
    within(POLL_FLOOR * 5, "closing again", store.close()).await.expect("nothing is left to close");
    let mutex = other.mutex(&name, MutexOptions::default()).expect("a mutex");
    mutex.lock().await.expect("the other store object is open").release().await.expect("release");
}

/// C12: closing executes the queued releases of dropped guards.
pub(crate) async fn c12_close_drains_the_release_queue(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    let mut names = Vec::new();
    for _ in 0..50 {
        let name = unique("drained");
        let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
        drop(mutex.lock().await.expect("lock"));
        names.push(name);
    }
    within(Duration::from_secs(5), "close drains", store.close()).await.expect("close");
    for name in names {
        let mutex = other.mutex(&name, MutexOptions::default()).expect("a mutex");
        assert!(mutex.try_lock().await.expect("a definite answer").is_some(), "free when close returned");
    }
}

/// Maximum time that state of a waiting process, not of a name, may outlive its waiters.
const PROCESS_STATE: Duration = Duration::from_secs(10);

/// Maximum time that a networked store keeps its answers to limiter calls (L5), with a margin: it
/// need not renew that time with every call.
const LIMITER_ANSWERS: Duration = Duration::from_secs(70);

/// Maximum time that a lease store keeps the tombstone of a cancel, however short the lease (C4),
/// with a margin.
const TOMBSTONES: Duration = Duration::from_secs(35);

/// How many times as fast as the machine's the clock of a store runs that can be moved.
const FASTER: u32 = 10;

/// C25: nothing of an idle name is left after the retention time.
pub(crate) async fn c25_idle_names_leave_nothing(h: &dyn Harness) {
    let retention = h.ttl();
    let Some(store) = h.forgetful_store(retention).await else {
        return cannot_show("this harness has no store with a short retention");
    };
    let Some(before) = h.leftover().await else {
        return cannot_show("this harness cannot count what the store keeps");
    };
    // Not so short that a hold is lost on a machine that stands still.
    let lease = retention.max(Duration::from_secs(5));
    for _ in 0..20 {
        use_all_kinds(store.as_ref(), &unique("idle"), lease).await;
    }
    let capabilities = store.capabilities();
    let answers = capabilities.limiters && capabilities.shared;
    let for_retries = match capabilities.mutex_mode {
        _ if answers => LIMITER_ANSWERS,
        MutexMode::Lease => TOMBSTONES,
        _ => Duration::ZERO,
    };
    // Where the store's clock can be moved, it runs faster for that time. By that clock, the bound
    // is the same.
    let runs_faster = h.pass(Duration::ZERO).await;
    let (mut to_pass, to_wait) =
        if runs_faster { (for_retries, Duration::ZERO) } else { (Duration::ZERO, for_retries) };
    let limit = retention * 4 + lease + PROCESS_STATE + EPSILON + to_wait;
    let mut last = now();
    eventually(limit, "nothing is left of idle names", || {
        let passed = ((now() - last) * FASTER).min(to_pass);
        (last, to_pass) = (now(), to_pass - passed);
        async move {
            h.pass(passed).await;
            h.leftover().await.is_some_and(|left| left <= before)
        }
    })
    .await;
}

/// Uses a name in every way that leaves state: with a release, a drop, a waiter, a cancelled
/// waiter.
async fn use_all_kinds(store: &dyn Store, name: &str, ttl: Duration) {
    let mut options = MutexOptions::default();
    if store.capabilities().mutex_mode != MutexMode::Session {
        options = options.ttl(ttl);
    }
    let mutex = store.mutex(name, options.clone()).expect("a mutex");
    let guard = mutex.lock().await.expect("lock");
    let waiter = store.mutex(name, options).expect("a mutex");
    let waiting = spawn(async move { drop(waiter.lock().await.expect("lock")) });
    // So short a limit can end before a busy store answers.
    let waited = mutex.lock_for(Duration::from_millis(3)).await;
    assert!(!matches!(waited, Ok(Some(_))), "{waited:?}");
    guard.release().await.expect("release");
    waiting.join().await;
    let semaphore = store.semaphore(name, SemaphoreOptions::new(3).ttl(ttl)).expect("a semaphore");
    drop(semaphore.acquire_many(2).await.expect("acquire"));
    if store.capabilities().wait_groups {
        let options = WaitGroupOptions::default().ttl(ttl);
        let group = store.wait_group(name, options).expect("a wait group");
        group.add().await.expect("add").done().await.expect("done");
        group.wait().await.expect("wait");
    }
    if store.capabilities().limiters {
        let quota = Quota::per_second(1_000).burst(10);
        let limiter = store.limiter(name, LimiterOptions::new(quota)).expect("a limiter");
        assert!(limiter.allow().await.expect("a decision").allowed);
    }
    if store.capabilities().bloom_filters {
        let options = BloomOptions::new(100, 0.01).ttl(Duration::from_secs(1));
        let filter = store.bloom_filter(name, options).expect("a filter");
        assert!(filter.insert(b"a").await.expect("inserted"));
    }
}

/// After success, after an error and after a panic: what was held is free, and the store object
/// refuses calls.
pub(crate) async fn c12_a_scope_closes_its_store_however_it_ends(h: &dyn Harness) {
    let (name, witness) = (unique("scope"), h.store().await);
    let witness = witness.mutex(&name, MutexOptions::new()).expect("a mutex");
    let free = || async { witness.try_lock().await.expect("a definite answer").expect("it is free") };

    let store = h.store().await;
    let held = store.scope(async |store: &dyn Store| {
        let guard = store.mutex(&name, MutexOptions::new())?.lock().await?;
        Ok::<_, Error>(guard)
    });
    let guard = within(CLOSED, "it closes", held).await.expect("no error");
    assert!(!guard.is_held(), "a guard that leaves the scope is lost");
    drop(free().await);
    assert_eq!(kind_of(store.ping().await), Some(ErrorKind::Closed));

    let store = h.store().await;
    let failed = store.scope(async |store: &dyn Store| {
        let _guard = store.mutex(&name, MutexOptions::new())?.lock().await?;
        Err::<(), _>(Error::new(ErrorKind::Overloaded, "the work's own"))
    });
    assert_eq!(kind_of(within(CLOSED, "it closes", failed).await), Some(ErrorKind::Overloaded));
    drop(free().await);
    assert_eq!(kind_of(store.ping().await), Some(ErrorKind::Closed));

    let store = h.store().await;
    let panicked = {
        let (store, name) = (Arc::clone(&store), name.clone());
        spawn(async move {
            let work = store.scope(async |store: &dyn Store| {
                let _guard = store.mutex(&name, MutexOptions::new())?.lock().await?;
                // Without the hook that prints it.
                std::panic::resume_unwind(Box::new("the work's own"));
                #[expect(unreachable_code, reason = "it names the type")]
                Ok::<(), Error>(())
            });
            work.await
        })
    };
    let panic = within(CLOSED, "it closes", AssertUnwindSafe(panicked.join()).catch_unwind()).await;
    let panic = panic.expect_err("a panic");
    assert_eq!(panic.downcast_ref(), Some(&"the work's own"));
    drop(free().await);
    assert_eq!(kind_of(store.ping().await), Some(ErrorKind::Closed));
}

/// C29: holds and waiters are those of the process that is asked, and its requests and connections
/// are counted.
pub(crate) async fn c29_stats_tell_what_the_process_does(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    let name = unique("counted");
    let [mutex, wanted] =
        [&store, &other].map(|store| store.mutex(&name, MutexOptions::default()).expect("a mutex"));
    let semaphore = store.semaphore(&unique("counted"), SemaphoreOptions::new(2)).expect("a semaphore");
    let (guard, permit) = (mutex.lock().await.expect("lock"), semaphore.acquire().await.expect("acquire"));
    let waiting = spawn(async move { wanted.lock().await });
    let is = |store: &Arc<dyn Store>, holds, waiters| {
        let store = Arc::clone(store);
        move || {
            let stats = store.stats();
            async move { (stats.holds, stats.waiters) == (holds, waiters) }
        }
    };
    eventually(POLL_FLOOR, "its own holds", is(&store, 2, 0)).await;
    eventually(POLL_FLOOR, "its own waiter", is(&other, 0, 1)).await;
    let stats = store.stats();
    if stats.connections == Some(0) {
        assert_eq!(stats.requests, 0, "nothing leaves this process");
    } else {
        assert!(stats.requests >= 2, "{stats:?}");
        assert!(stats.connections.is_none_or(|open| open >= 1), "{stats:?}");
    }
    permit.release().await.expect("release");
    guard.release().await.expect("release");
    let guard = within(POLL_FLOOR, "its turn", waiting.join()).await.expect("lock");
    eventually(POLL_FLOOR, "nothing is left", is(&store, 0, 0)).await;
    eventually(POLL_FLOOR, "it holds now", is(&other, 1, 0)).await;
    guard.release().await.expect("release");
}
