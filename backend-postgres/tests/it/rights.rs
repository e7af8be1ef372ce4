//! One test for each right in the manual: without it, the error of an operation names the missing right (C21).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::deployment::{grants, make_schema};
use crate::common::*;
use sqlx::{Connection, PgConnection};
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::{
    Error, ErrorKind, FencingToken, LimiterOptions, MutexMode, MutexOptions, Quota, Result, SemaphoreOptions,
    Store, Ticket, WaitGroupOptions,
};
use stanchion_postgres::{PostgresFence, PostgresStore};

const SHORT: Duration = Duration::from_millis(300);
/// Maximum time for which a call is repeated whose outcome is unknown. Without a right, it may stay unknown.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Uses every operation of a store. Returns the errors of operations that the role has no right to.
async fn use_everything(url: &str) -> Vec<Error> {
    let mut refused = Vec::new();
    for mode in MODES {
        match builder(url, mode).migrate(false).connect().await {
            Ok(store) => use_store(&store, &mut refused).await,
            Err(error) => refused.push(error),
        }
    }
    let mut raw = PgConnection::connect(url).await.unwrap();
    let fence = PostgresFence::new("r");
    note(&mut refused, fence.check(&mut raw, FencingToken::new(1).unwrap(), Ticket::random()).await);
    refused.retain(|error| error.kind() == ErrorKind::Unauthorized);
    refused
}

async fn use_store(store: &PostgresStore, refused: &mut Vec<Error>) {
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    // Another process holds the mutex "m".
    let held = store.mutex("free", MutexOptions::default()).unwrap().try_lock().await;
    note(refused, known(|| mutex.try_lock_for(SHORT)).await.map(drop));
    if let Ok(Some(guard)) = held.map_err(|error| refused.push(error)) {
        note(refused, guard.release().await);
    }
    note(refused, mutex.force_unlock().await.map(drop));
    note(refused, mutex.inspect().await.map(drop));
    let semaphore = store.semaphore("s", SemaphoreOptions::new(2)).unwrap();
    match semaphore.try_acquire_many(2).await {
        Ok(permit) => {
            note(refused, known(|| semaphore.try_acquire_many_for(1, SHORT)).await.map(drop));
            drop(permit);
        }
        Err(error) => refused.push(error),
    }
    let group = store.wait_group("w", WaitGroupOptions::default()).unwrap();
    match known(|| group.try_add_for(SHORT)).await {
        Ok(member) => {
            note(refused, known(|| group.wait_for(SHORT)).await.map(drop));
            drop(member);
        }
        Err(error) => refused.push(error),
    }
    let limiter = store.limiter("l", LimiterOptions::new(Quota::per_second(1))).unwrap();
    note(refused, limiter.allow().await.map(drop));
    note(refused, limiter.reserve_n(1, Duration::from_secs(5)).await.map(drop));
    #[cfg(feature = "bloom")]
    {
        let filter = store.bloom_filter("b", stanchion_core::BloomOptions::new(100, 0.01)).unwrap();
        note(refused, filter.insert(b"item").await.map(drop));
        note(refused, filter.clear().await);
    }
    let _ = timeout(Duration::from_secs(2), store.close()).await;
}

/// Asks until the outcome is known: on a machine that stands still, the answer to a call with a short time limit is late.
async fn known<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let watch = Stopwatch::start();
    loop {
        match ask().await {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable)
                    && watch.elapsed() < KNOWN_TIMEOUT => {}
            answer => return answer,
        }
    }
}

fn note<T>(refused: &mut Vec<Error>, outcome: Result<T>) {
    refused.extend(outcome.err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c21_every_missing_right_is_named() {
    let server = server();
    make_schema(&server);
    let mut all = grants("whole");
    // Without the feature, the store only sweeps the filters of others.
    all.retain(|right| cfg!(feature = "bloom") || !right.contains(".bloom_"));
    let url = server.role("whole", "pw", &all.join("\n")).unwrap();
    assert_eq!(use_everything(&url).await.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    let keeper = store(&server.url(), MutexMode::Session, Duration::from_secs(10)).await;
    let keeper = keeper.mutex("m", MutexOptions::default()).unwrap();
    for missing in 0..all.len() {
        let role = format!("lacks_{missing}");
        let mut rights = grants(&role);
        rights.retain(|right| cfg!(feature = "bloom") || !right.contains(".bloom_"));
        let right = rights.remove(missing);
        let what = right.split(" TO ").next().unwrap().rsplit([' ', '.']).next().unwrap().to_owned();
        let url = server.role(&role, "pw", &rights.join("\n")).unwrap();
        // Another process holds the mutex, so that a session is asked to give it up.
        let kept = keeper.lock().await.unwrap();
        let refused = use_everything(&url).await;
        drop(kept);
        assert!(!refused.is_empty(), "nothing needs: {right}");
        assert!(
            refused.iter().any(|error| error.to_string().contains(&what)),
            "without `{right}` nothing names {what}: {refused:?}"
        );
    }
}
