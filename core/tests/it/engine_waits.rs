//! What the log says of waits that were long.

use std::sync::Arc;
use std::time::Duration;

use stanchion::memory::MemoryStore;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::{Capabilities, MutexMode, MutexOptions, SemaphoreOptions, Store};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};
use tracing::Level;

use crate::engine_log::{Log, log};
use crate::model::Model;

/// From this length on the engines of these tests tell a wait.
const SLOW: Duration = Duration::from_millis(300);

fn engine() -> Engine {
    let model = Model::new();
    let steps = model.steps(Duration::from_secs(2));
    let wake = Some(model.wakes());
    let own = Background { wake, slow_wait: SLOW, ..Background::new(Arc::clone(&steps)) };
    Engine::start(Capabilities::full("waited for", MutexMode::Lease), steps, own).unwrap()
}

/// The one line about a wait for that name.
async fn told(log: &Log, name: &str, outcome: &str) {
    let lines = log.told(name, 1).await;
    let [(level, line)] = &lines[..] else { panic!("{name}: {lines:?}") };
    assert_eq!(*level, Level::INFO, "{line}");
    let outcome = format!("outcome=\"{outcome}\"");
    for part in ["a call waited long", "kind=\"mutex\"", "wait.duration=", &outcome] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn a_long_wait_is_told_with_its_end_and_a_short_one_is_not() {
    let (log, _alone) = log().await;
    let engine = engine();
    let mutex = |name| engine.mutex(name, MutexOptions::default()).unwrap();
    let (granted, cancelled, late) = (mutex("w granted"), mutex("w cancelled"), mutex("w timed out"));
    let (failed, short) = (mutex("w failed"), mutex("w short"));
    let guards = [granted.lock().await.unwrap(), cancelled.lock().await.unwrap()];
    let kept = [late.lock().await.unwrap(), failed.lock().await.unwrap()];

    assert!(late.lock_for(SLOW * 3 / 2).await.unwrap().is_none());
    told(&log, "w timed out", "timed_out").await;

    assert!(timeout(SLOW * 3 / 2, cancelled.lock()).await.is_err());
    told(&log, "w cancelled", "cancelled").await;

    let (waiting, released) = tokio::join!(granted.lock(), async {
        sleep(SLOW * 3 / 2).await;
        drop(guards);
    });
    drop((waiting.unwrap(), released));
    told(&log, "w granted", "granted").await;

    // A machine that stands still makes a long wait of a short one.
    let mut quick = 0;
    while quick < 3 {
        let (began, before) = (Instant::now(), log.lines("w short").len());
        let guard = short.lock().await.unwrap();
        assert!(short.lock_for(SLOW / 10).await.unwrap().is_none());
        drop(guard);
        engine.drain().await.unwrap();
        if began.elapsed() < SLOW {
            assert_eq!(log.lines("w short").len(), before);
            quick += 1;
        }
    }

    let (closed, waited) = tokio::join!(
        async {
            sleep(SLOW * 3 / 2).await;
            engine.close().await
        },
        failed.lock()
    );
    closed.unwrap();
    assert!(waited.is_err());
    told(&log, "w failed", "failed").await;
    assert!(log.lines("w failed")[0].1.contains("error.type=\"closed\""));
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_memory_is_told_from_the_threshold_on() {
    let (log, _alone) = log().await;
    let second = Duration::from_secs(1);
    let store = MemoryStore::new();
    for (name, waits, is_told) in
        [("m short", second - Duration::from_millis(1), false), ("m\nlong", second, true)]
    {
        let mutex = store.mutex(name, MutexOptions::default()).unwrap();
        let guard = mutex.lock().await.unwrap();
        let release = async {
            yield_now().await;
            advance(waits).await;
            drop(guard);
        };
        let (locked, ()) = tokio::join!(mutex.lock(), release);
        drop(locked.unwrap());
        assert_eq!(log.lines(&name.replace('\n', "\\n")).len(), usize::from(is_told), "{name}");
    }
    // A name is one line of the log, whatever is in it.
    told(&log, "m\\nlong", "granted").await;

    let mutex = store.mutex("m timed out", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    assert!(mutex.lock_for(second).await.unwrap().is_none());
    told(&log, "m timed out", "timed_out").await;
    let cancelled = store.mutex("m cancelled", MutexOptions::default()).unwrap();
    let other = cancelled.lock().await.unwrap();
    assert!(tokio::time::timeout(second, cancelled.lock()).await.is_err());
    told(&log, "m cancelled", "cancelled").await;
    drop((guard, other));
}

#[tokio::test(start_paused = true)]
async fn the_threshold_of_the_memory_store_is_an_option() {
    let (log, _alone) = log().await;
    for (name, slow_wait, is_told) in
        [("never told", Duration::MAX, false), ("always told", Duration::ZERO, true)]
    {
        let store = MemoryStore::builder().slow_wait(slow_wait).build();
        let permits = store.semaphore(name, SemaphoreOptions::new(1)).unwrap();
        let permit = permits.acquire().await.unwrap();
        assert!(permits.acquire_for(Duration::from_secs(90)).await.unwrap().is_none());
        drop(permit);
        assert_eq!(log.lines(name).len(), usize::from(is_told), "{name}");
    }
}
