//! The example of a job that runs once a minute on one instance, with its note on Redis.

#![cfg(feature = "redis")]

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stanchion::redis::redis::aio::MultiplexedConnection;
use stanchion::redis::redis::{Client, cmd};
use stanchion::{ErrorKind, Store};
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

#[path = "../../examples/every_minute_redis.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod example;

/// Time in seconds that the case needs of one minute.
const NEEDED: u64 = 20;

/// Waits for a minute that is not over soon.
async fn in_one_minute(connection: &MultiplexedConnection) {
    let (seconds, _): (u64, u64) = cmd("TIME").query_async(&mut connection.clone()).await.unwrap();
    let left = 60 - seconds % 60;
    if left < NEEDED {
        sleep(Duration::from_secs(left + 1)).await;
    }
}

/// Waits until the guard that was dropped is released.
async fn comes_free(store: &dyn Store) {
    store.mutex("jobs/report", Default::default()).unwrap().lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_once_a_minute_although_instances_crash_and_are_overtaken() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let connection = Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let store = stanchion::connect(&server.url()).await.unwrap();
    let (store, connection, ran) = (&*store, &connection, &AtomicU32::new(0));
    in_one_minute(connection).await;

    // An instance that goes away in the middle of its run, and one whose job fails.
    let leaves = example::once_a_minute(store, connection, "report", async |_| pending().await);
    assert!(timeout(Duration::from_millis(300), leaves).await.is_err());
    comes_free(store).await;
    let fails = example::once_a_minute(store, connection, "report", async |_| Err("its own error".into()));
    assert_eq!(fails.await.unwrap_err().to_string(), "its own error");
    comes_free(store).await;

    // An instance that is overtaken: another one makes the report while the first one's task stands still.
    let overtaken = example::once_a_minute(store, connection, "report", async |token| {
        let overtake = async {
            let mutex = store.mutex("jobs/report", Default::default()).unwrap();
            assert!(mutex.force_unlock().await.unwrap());
            let other = example::once_a_minute(store, connection, "report", async |newer| {
                assert!(newer > token);
                ran.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            assert!(other.await.unwrap());
        };
        block_in_place(|| Handle::current().block_on(overtake));
        Ok(())
    });
    let lost = overtaken.await.unwrap_err().downcast::<stanchion::Error>().unwrap();
    assert_eq!(lost.kind(), ErrorKind::Lost);

    let instances = (0..8).map(|_| async {
        for _ in 0..10 {
            let again = example::once_a_minute(store, connection, "report", async |_| {
                ran.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            assert!(!again.await.unwrap());
            sleep(Duration::from_millis(20)).await;
        }
    });
    futures_util::future::join_all(instances).await;
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    store.close().await.unwrap();
}
