//! Many waiters of one process: few connections, served in order, and no harm to other callers
//! (C15, C16).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use futures_util::future::join_all;
use sqlx::Row;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::within;
use stanchion_core::{MutexMode, MutexOptions};
use tokio::task::JoinSet;
use tokio::time::sleep;

const WAITERS: u64 = 256;
const MAX_CONNECTIONS: i64 = 6;
const TTL: Duration = Duration::from_secs(10);

async fn many_wait(mode: MutexMode, names: usize) {
    let server = server();
    let name = |url: &str| format!("{url}?application_name=waiting");
    let (holder, waiting) =
        (store(&server.url(), mode, TTL).await, store(&name(&server.url()), mode, TTL).await);
    let (mut guards, mut mutexes) = (Vec::new(), Vec::new());
    for name in (0..names).map(|name| format!("m{name}")) {
        guards.push(holder.mutex(&name, MutexOptions::default()).unwrap().lock().await.unwrap());
        mutexes.push(waiting.mutex(&name, MutexOptions::default()).unwrap());
    }
    let (served, mut waiters) = (Arc::new(Mutex::new(vec![Vec::new(); names])), JoinSet::new());
    for number in 0..WAITERS {
        let name = usize::try_from(number).unwrap() % names;
        let (waiter, served) = (Arc::clone(&mutexes[name]), Arc::clone(&served));
        waiters.spawn(async move {
            let guard = waiter.lock().await.unwrap();
            served.lock().unwrap()[name].push(number);
            guard.release().await.unwrap();
        });
        while mutexes[name].inspect().await.unwrap().waiters <= number / names as u64 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiting'";
    for _ in 0..20 {
        let connections: i64 = row(&server.url(), count).await.get(0);
        assert!(connections <= MAX_CONNECTIONS, "{connections}");
        let other = waiting.mutex("unrelated", MutexOptions::default()).unwrap();
        let free = Duration::from_secs(1) + EPSILON;
        let other = within(free, "nobody else wants it", other.lock()).await.unwrap();
        other.release().await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    // All names at a time, so that more than one request is under way.
    within(EPSILON * 10, "answers", join_all(mutexes.iter().map(|mutex| mutex.inspect()))).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    let all = async { while waiters.join_next().await.transpose().unwrap().is_some() {} };
    within(Duration::from_secs(60), "all are served", all).await;
    let served = served.lock().unwrap().clone();
    assert!(served.iter().all(|numbers| numbers.is_sorted()), "{served:?}");
    assert_eq!(served.iter().map(Vec::len).sum::<usize>() as u64, WAITERS);
    let connections: i64 = row(&server.url(), count).await.get(0);
    assert!(connections <= MAX_CONNECTIONS, "{connections}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_many_waiters_take_few_connections_in_lease_mode() {
    many_wait(MutexMode::Lease, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_many_waiters_take_few_connections_in_session_mode() {
    many_wait(MutexMode::Session, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_c16_waiters_for_20_names_take_few_connections_in_both_modes() {
    for mode in [MutexMode::Lease, MutexMode::Session] {
        many_wait(mode, 20).await;
    }
}
