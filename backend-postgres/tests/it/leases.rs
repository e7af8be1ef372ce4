//! Leases of very different lengths in one process: no lease harms the others.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::future::Future;
use std::time::Duration;

use crate::common::{lease, server};
use futures_util::FutureExt;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use stanchion_conformance::support::{CANCELLED, stays_pending, within};
use stanchion_core::spi::{Cancel, Object};
use stanchion_core::{ErrorKind, Kind, MutexOptions, Name, Store, Ticket, Ttl};
use stanchion_testbed::servers::PostgresServer;
use tokio::time::sleep;

/// So long that a machine that stands still for two seconds does not end it.
const SHORT: Duration = Duration::from_secs(5);
/// The row of an object is locked for half of it; the short lease has to be renewed several times
/// meanwhile.
const LONG: Duration = Duration::from_secs(12);

/// Locks the row of an object until the end of the transaction.
async fn lock_row<'r>(raw: &'r mut PgConnection, name: &str) -> Transaction<'r, Postgres> {
    let mut lock = raw.begin().await.unwrap();
    let row = sqlx::query("SELECT FROM stanchion.objects WHERE name = $1 FOR UPDATE").bind(name);
    row.fetch_one(&mut *lock).await.unwrap();
    lock
}

/// Runs a future while another transaction locks the row of an object for this time.
async fn while_locked<T>(url: &str, name: &str, time: Duration, other: impl Future<Output = T>) -> T {
    let mut raw = PgConnection::connect(url).await.unwrap();
    let lock = lock_row(&mut raw, name).await;
    let freed = async {
        sleep(time).await;
        lock.rollback().await.unwrap();
    };
    tokio::join!(freed, other).1
}

/// Returns the shortest time, in seconds, for which a tombstone still lasts.
fn shortest_tombstone(server: &PostgresServer) -> Option<f64> {
    let left = "SELECT (min(expiry) - stanchion.now()) / 1e6 FROM stanchion.tombstones";
    server.sql(left).unwrap().trim().parse().ok()
}

#[tokio::test]
async fn c13_a_long_lease_that_waits_for_its_row_costs_no_short_one() {
    let server = server();
    let builder = lease(&server.url()).request_timeout(LONG / 3);
    let store = builder.connect().await.unwrap();
    let options = MutexOptions::default();
    let (first, second) = (store.mutex("a", options.clone().ttl(SHORT)), store.mutex("b", options.ttl(LONG)));
    let (short, long) = (first.unwrap().lock().await.unwrap(), second.unwrap().lock().await.unwrap());
    // Within this time the long lease is due for renewal, and is not lost.
    while_locked(&server.url(), "b", LONG / 2, async {
        let lost = &mut Box::pin(short.lost());
        stays_pending(LONG / 2, "it is renewed while the other waits", lost).await;
    })
    .await;
    stays_pending(LONG, "it is renewed when its row is free", &mut Box::pin(long.lost())).await;
    assert!(short.is_held() && long.is_held());
}

#[tokio::test]
async fn c4_a_short_lease_cuts_no_others_cancel() {
    let server = server();
    let steps = lease(&server.url()).steps().await.unwrap();
    let cancel = |name: &str, ttl| Cancel {
        object: Object { kind: Kind::Mutex, name: Name::new(name).unwrap() },
        ticket: Ticket::random(),
        tombstone: Some(Ttl::new(ttl).unwrap()),
    };
    let batch = [cancel("short", Ttl::MIN), cancel("long", LONG)];
    for answer in steps.own.cancel(&batch).await {
        answer.unwrap();
    }
    let mut raw = PgConnection::connect(&server.url()).await.unwrap();
    let lock = lock_row(&mut raw, "long").await;
    let answers = steps.own.cancel(&batch).await;
    lock.rollback().await.unwrap();
    // The time limit is not that of the shortest lease, and somebody else's lock costs its own name
    // only.
    let [short, long] = answers.try_into().expect("two answers");
    short.expect("its row is free");
    assert_eq!(long.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c4_what_a_dropped_call_of_a_short_lease_left_under_way_is_refused_for_30_s() {
    let server = server();
    let store = lease(&server.url()).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default().ttl(Ttl::MIN)).unwrap();
    let guard = store.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap();
    // Dropped before its request was answered.
    assert!(mutex.lock().now_or_never().is_none());
    let left = async {
        loop {
            if let Some(left) = shortest_tombstone(&server) {
                return left;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let left = within(CANCELLED, "a tombstone", left).await;
    assert!((25.0..=30.0).contains(&left), "for {left} s");
    guard.release().await.unwrap();
}
