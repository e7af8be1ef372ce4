//! What a release says when a reply was lost: yes, no or unknown, never one for another.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::{Model, ModelHold, model, model_within};
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::AT_ONCE;
use stanchion_core::engine::Engine;
use stanchion_core::{ErrorKind, Mutex, MutexGuard, MutexOptions, SemaphoreOptions, Ttl};

const TTL: Duration = Duration::from_secs(4);
/// A lease whose next renewal is ten times as far away as what has to happen at once.
const LONG: Duration = Duration::from_secs(60);

fn mutex(engine: &Engine) -> Arc<dyn Mutex> {
    engine.mutex("m", MutexOptions::default().ttl(LONG)).unwrap()
}

fn lose_next(model: &Model) {
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
}

/// Somebody elsewhere frees all holds.
fn free_elsewhere(model: &Model) {
    model.records.lock().unwrap().values_mut().for_each(|record| record.holds.clear());
}

/// Releases by a request whose reply is lost.
async fn release(model: &Model, guard: MutexGuard) -> Result<(), ErrorKind> {
    lose_next(model);
    guard.release().await.map_err(|error| error.kind())
}

#[tokio::test]
async fn c3_m8_a_hold_freed_by_force_is_not_reported_as_released() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    let guard = mutex.lock().await.unwrap();
    assert!(mutex.force_unlock().await.unwrap());
    timeout(AT_ONCE, guard.lost()).await.expect("its holder is told at once");
    assert_eq!(release(&model, guard).await, Err(ErrorKind::Lost));
    let semaphore = engine.semaphore("s", SemaphoreOptions::new(2).ttl(LONG)).unwrap();
    let (freed, kept) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    assert!(semaphore.force_release(freed.ticket()).await.unwrap());
    assert!(!freed.is_held() && kept.is_held());
    lose_next(&model);
    assert_eq!(freed.release().await.unwrap_err().kind(), ErrorKind::Lost);
    lose_next(&model);
    kept.release().await.unwrap();
}

#[tokio::test]
async fn c3_m8_after_force_in_doubt_a_release_in_doubt_is_unknown() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    for executed in [true, false] {
        let guard = mutex.lock().await.unwrap();
        model.faults.lose_requests.store(!executed, SeqCst);
        lose_next(&model);
        assert_eq!(mutex.force_unlock().await.unwrap_err().kind(), ErrorKind::Unknown);
        model.faults.lose_requests.store(false, SeqCst);
        assert!(guard.is_held());
        assert_eq!(release(&model, guard).await, Err(ErrorKind::Unknown));
        // A release that was answered leaves no doubt.
        let guard = mutex.lock().await.unwrap();
        guard.release().await.unwrap();
        // What was queued again must not take the number of the next request.
        engine.drain().await.unwrap();
    }
}

#[tokio::test]
async fn c3_c11_where_a_tombstone_is_left_the_store_tells_whose_it_is() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    for freed in [false, true] {
        lose_next(&model);
        let guard = mutex.lock().await.unwrap();
        if freed {
            free_elsewhere(&model);
        }
        let expected = if freed { Err(ErrorKind::Lost) } else { Ok(()) };
        assert_eq!(release(&model, guard).await, expected);
        assert_eq!(model.left(), (0, 0));
    }
}

#[tokio::test]
async fn c3_a_release_in_doubt_beyond_the_deadline_is_unknown() {
    let (model, engine) = model_within(LONG);
    let options = MutexOptions::default().ttl(TTL).renew(false);
    let guard = engine.mutex("m", options).unwrap().lock().await.unwrap();
    // The release is sent within the lease, and its answer is lost after it.
    model.faults.delay_ms.store(4_200, SeqCst);
    assert!(guard.is_held());
    assert_eq!(release(&model, guard).await, Err(ErrorKind::Unknown), "released, or expired");
}

#[tokio::test]
async fn c3_m8_a_forced_release_that_was_certainly_not_made_leaves_no_doubt() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    let guard = mutex.lock().await.unwrap();
    model.faults.away.store(true, SeqCst);
    assert_eq!(mutex.force_unlock().await.unwrap_err().kind(), ErrorKind::Unavailable);
    model.faults.away.store(false, SeqCst);
    assert_eq!(release(&model, guard).await, Ok(()));
}

/// Loses the reply of the next call, and lets no later one through.
async fn lose_next_then_away(model: &Arc<Model>) {
    lose_next(model);
    let lost = model.faults.lose_reply.load(SeqCst);
    while model.faults.calls.load(SeqCst) < lost {
        tokio::task::yield_now().await;
    }
    model.faults.away.store(true, SeqCst);
}

#[tokio::test]
async fn c3_c24_a_transfer_that_may_have_been_made_is_unknown() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    let lease = Ttl::new(LONG).unwrap();
    let detached = mutex.lock().await.unwrap().detach(lease).await.unwrap();
    let ((), attached) = tokio::join!(lose_next_then_away(&model), mutex.attach(&detached));
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::Unknown);
    model.faults.away.store(false, SeqCst);
    engine.drain().await.unwrap();
    let guard = timeout(AT_ONCE, mutex.lock()).await.expect("what it may have taken is freed").unwrap();
    let ((), detached) = tokio::join!(lose_next_then_away(&model), guard.detach(lease));
    assert_eq!(detached.unwrap_err().kind(), ErrorKind::Unknown);
}

#[tokio::test]
async fn m8_lock_begins_again_where_force_met_a_grant_that_was_not_heard() {
    let (model, engine) = model();
    let mutex = mutex(&engine);
    model.faults.lose_replies.store(true, SeqCst);
    let locking = tokio::spawn(async move { mutex.lock().await });
    let forced = || {
        let mut records = model.records.lock().unwrap();
        let record = records.values_mut().find(|record| !record.holds.is_empty())?;
        let hold = record.holds.pop()?;
        record.tombstones.insert(hold.ticket, tokio::time::Instant::now() + LONG);
        Some(hold.ticket)
    };
    let ticket = loop {
        match forced() {
            Some(ticket) => break ticket,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    model.faults.lose_replies.store(false, SeqCst);
    let guard = timeout(AT_ONCE, locking).await.expect("it is free").unwrap().unwrap();
    assert!(guard.is_held() && guard.ticket() != ticket);
}

#[tokio::test]
async fn c12_close_frees_what_was_under_way_and_is_granted_after_it() {
    for way in 0..3 {
        let (model, engine) = model();
        let mutex = mutex(&engine);
        let transferred = mutex.lock().await.unwrap().detach(Ttl::new(LONG).unwrap()).await.unwrap();
        let detached = transferred.ticket();
        if way < 2 {
            assert!(mutex.force_unlock().await.unwrap());
        }
        model.faults.delay_ms.store(300, SeqCst);
        let calls = model.faults.calls.load(SeqCst);
        let acquiring = tokio::spawn(async move {
            match way {
                0 => mutex.lock().await.map(Some),
                1 => mutex.try_lock().await,
                _ => mutex.attach(&transferred).await.map(Some),
            }
        });
        while model.faults.calls.load(SeqCst) == calls {
            tokio::task::yield_now().await;
        }
        engine.close().await.unwrap();
        // As after the end of the process: nothing more is sent.
        model.faults.away.store(true, SeqCst);
        let _refused = acquiring.await.unwrap();
        // A transfer that came after what frees it is refused: the detached hold is as it was.
        let is_new = |hold: &ModelHold| hold.ticket != detached;
        let records = model.records.lock().unwrap();
        assert!(!records.values().any(|record| record.holds.iter().any(is_new)), "way {way}");
    }
}

#[tokio::test]
async fn c12_c24_a_detach_that_a_close_overtakes_says_what_became_of_the_hold() {
    let (model, engine) = model();
    let guard = mutex(&engine).lock().await.unwrap();
    model.faults.delay_ms.store(300, SeqCst);
    let calls = model.faults.calls.load(SeqCst);
    let detaching = tokio::spawn(async move { guard.detach(Ttl::new(LONG).unwrap()).await });
    while model.faults.calls.load(SeqCst) == calls {
        tokio::task::yield_now().await;
    }
    engine.close().await.unwrap();
    // As after the end of the process: nothing more is sent.
    model.faults.away.store(true, SeqCst);
    let detached = detaching.await.unwrap().map(|detached| detached.ticket()).ok();
    let records = model.records.lock().unwrap();
    let left = records.values().find_map(|record| record.holds.first()).map(|hold| hold.ticket);
    assert_eq!(left, detached, "a detached hold that is none, or one that nobody has");
}

#[tokio::test]
async fn c4_only_a_request_that_was_not_answered_leaves_a_tombstone() {
    let (model, engine) = model();
    let options = MutexOptions::default().ttl(Duration::from_secs(24 * 60 * 60));
    let mutex = engine.mutex("m", options).unwrap();
    let held = mutex.lock().await.unwrap();
    let tombstones = || {
        let records = model.records.lock().unwrap();
        records.values().flat_map(|record| record.tombstones.values().copied()).collect::<Vec<_>>()
    };
    assert!(mutex.lock_for(Duration::from_millis(50)).await.unwrap().is_none());
    engine.drain().await.unwrap();
    assert_eq!(model.left(), (1, 0), "its place is given up");
    assert_eq!(tombstones(), []);
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
    assert!(mutex.lock_for(Duration::from_millis(200)).await.unwrap().is_none());
    engine.drain().await.unwrap();
    let [until] = tombstones()[..] else { panic!("of the request whose reply was lost") };
    assert!(until <= tokio::time::Instant::now() + Duration::from_secs(5 * 60));
    drop(held);
}
