//! A server that is killed right after a grant, again and again: tokens neither repeat nor shrink
//! (M2, M3).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::mem::forget;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::{MutexMode, MutexOptions};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::PostgresOptions;
use stanchion_testbed::servers::PostgresServer;

const KILLS: usize = 50;
/// Of the guard that is released: a lock that takes long on a busy machine does not end it.
const LONG_TTL: Duration = Duration::from_secs(10);
/// Of the guard that outlives its server: the next grant may wait for its end.
const SHORT_TTL: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Kills the server after a grant, which is not released. The next grants go to a process that saw
/// earlier ones, and to a new process.
async fn killed_after_grants(mode: MutexMode) {
    // The data of a killed server is with the operating system: only a killed machine needs
    // `fsync`.
    let clock = Clock::new().unwrap();
    let options = PostgresOptions::default().setting("synchronous_commit", "on").clock(&clock);
    let server = PostgresServer::start(options).unwrap();
    let veteran = store(&server.url(), mode, LONG_TTL).await;
    let mut largest = None;
    for round in 0..KILLS {
        let fresh = store(&server.url(), mode, SHORT_TTL).await;
        for (store, ttl) in [(&veteran, LONG_TTL), (&fresh, SHORT_TTL)] {
            let options = MutexOptions::default().ttl(ttl).renew(false);
            let mutex = store.mutex("m", options).unwrap();
            let guard = timeout(TIMEOUT, mutex.lock()).await.expect("the lease ends").unwrap();
            assert!(
                Some(guard.fencing_token()) > largest,
                "{round}: {:?} after {largest:?}",
                guard.fencing_token()
            );
            largest = Some(guard.fencing_token());
            if std::sync::Arc::ptr_eq(store, &fresh) {
                server.kill().unwrap();
                forget(guard);
                // The end of the lease comes at once, by the server's clock.
                clock.forward(SHORT_TTL).unwrap();
            } else {
                guard.release().await.unwrap();
            }
        }
        server.restart().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_m3_c18_tokens_grow_through_crashes_in_lease_mode() {
    killed_after_grants(MutexMode::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_m3_c18_tokens_grow_through_crashes_in_session_mode() {
    killed_after_grants(MutexMode::Session).await;
}
