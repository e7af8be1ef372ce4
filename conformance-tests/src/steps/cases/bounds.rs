//! Limits of permits and of queues.

use crate::steps::StepCalls;
use std::time::Duration;

use stanchion_core::OnMismatch;
use stanchion_core::clock::now;
use stanchion_core::spi::{Acquire, Acquired, ParameterCheck};

use super::super::drive::*;
use super::super::harness::StepHarness;
use crate::stopwatch::{EPSILON, Stopwatch};

pub(super) async fn s6_resize_up_wakes_and_down_revokes_nobody(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let held: Vec<_> = (0..2).map(|_| ask_many(&object, 1, 2)).collect();
    for request in &held {
        granted(&process, request).await;
    }
    let waiters: Vec<_> = (0..3).map(|_| ask_many(&object, 1, 2)).collect();
    for request in &waiters {
        waits(&process, request).await;
    }
    process.callers.resize(&object, 4).await.expect("an answer");
    assert_eq!(process.hint().await, waiters[0].ticket);
    assert_eq!(process.hint().await, waiters[1].ticket);
    granted(&process, &waiters[0]).await;
    granted(&process, &waiters[1]).await;
    process.callers.resize(&object, 1).await.expect("an answer");
    assert_eq!(process.callers.inspect(&object).await.expect("an answer").holders.len(), 4);
    for request in held.iter().chain(&waiters[..1]) {
        release(&process, request).await;
        waits(&process, &waiters[2]).await;
    }
    release(&process, &waiters[1]).await;
    granted(&process, &waiters[2]).await;
}

pub(super) async fn c20_limits_are_compared_once_and_then_followed(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let first = |on_mismatch, limit| Acquire {
        check: ParameterCheck::First(on_mismatch),
        queue: false,
        ..ask_many(&object, 1, limit)
    };
    let limit = |answer: Acquired| match answer {
        Acquired::Granted { limit, .. } | Acquired::Waiting { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Refuse, 9)).await), 9);
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Refuse, 9)).await), 9);
    assert_eq!(acquire(&process, &first(OnMismatch::Refuse, 8)).await, Acquired::Mismatch { stored: 9 });
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Adopt, 8)).await), 9);
    assert_eq!(limit(acquire(&process, &ask_many(&object, 1, 8)).await), 9);
    assert_eq!(
        process.callers.inspect(&object).await.expect("an answer").holders.len(),
        4,
        "a mismatch grants nothing"
    );
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Replace, 5)).await), 5);
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Adopt, 9)).await), 5);
    let waiter = ask_many(&object, 1, 5);
    waits(&process, &waiter).await;
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Replace, 6)).await), 6);
    assert_eq!(process.hint().await, waiter.ticket, "a replaced limit wakes");
}

pub(super) async fn c20_a_queued_request_larger_than_the_new_limit_is_told(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    granted(&first, &ask_many(&object, 5, 5)).await;
    let small: Vec<_> = (0..20).map(|_| ask_many(&object, 1, 5)).collect();
    for request in &small {
        waits(&first, request).await;
    }
    let large = ask_many(&object, 4, 5);
    waits(&second, &large).await;
    let last = ask_many(&object, 2, 5);
    waits(&first, &last).await;
    first.callers.resize(&object, 2).await.expect("an answer");
    assert_eq!(second.hint().await, large.ticket);
    assert_eq!(poll(&second, &object).await.ready, [large.ticket], "also without the hint");
    assert_eq!(poll(&first, &object).await.ready, []);
    assert_eq!(acquire(&second, &large).await, Acquired::TooLarge { limit: 2 });
    assert_eq!(first.callers.inspect(&object).await.expect("an answer").waiters, 21);
    assert_eq!(poll(&second, &object).await.ready, []);
}

pub(super) async fn c26_the_queue_is_bounded(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = mutex("m");
    granted(&process, &ask(&object)).await;
    let bounded = || Acquire { max_waiters: Some(2), ..ask(&object) };
    let (first, second) = (bounded(), bounded());
    waits(&process, &first).await;
    waits(&process, &second).await;
    assert_eq!(acquire(&process, &bounded()).await, Acquired::Overloaded);
    waits(&process, &first).await;
    cancel(&process, &first).await;
    waits(&process, &bounded()).await;
}

pub(super) async fn c5_c26_silent_waiters_do_not_fill_the_queue(harness: &dyn StepHarness) {
    let (dead, live) = (harness.process().await, harness.process().await);
    let object = mutex("m");
    granted(&live, &ask(&object)).await;
    let bounded = || Acquire { max_waiters: Some(2), ..ask(&object) };
    waits(&dead, &bounded()).await;
    waits(&dead, &bounded()).await;
    assert_eq!(acquire(&live, &bounded()).await, Acquired::Overloaded);
    let mut quiet = heard(&[&live], &object, LIVENESS + Duration::from_millis(300)).await;
    for _ in 0..2 {
        let (sent, watch, request) = (now(), Stopwatch::start(), bounded());
        let mut answer = acquire(&live, &request).await;
        // After a stall of the store, no process is judged dead for a while (C16).
        let stalled = quiet + sent.elapsed() >= STALL;
        while stalled && answer == Acquired::Overloaded && watch.elapsed() < GRACE + LIVENESS + EPSILON {
            heard(&[&live], &object, Duration::from_millis(100)).await;
            answer = acquire(&live, &request).await;
        }
        assert!(matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
        quiet = sent.elapsed();
    }
    assert_eq!(acquire(&live, &bounded()).await, Acquired::Overloaded);
}
