//! Limiters of the engine over a model of a store: flights, their retries, and what ends them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model, model_within};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::engine::Engine;
use stanchion_core::spi::LimitAsk;
use stanchion_core::{Decision, ErrorKind, Limiter, LimiterOptions, OnMismatch, Quota};
use tokio::time::sleep;

const SHORT: Duration = Duration::from_millis(200);
const TOKEN: Duration = Duration::from_secs(10);

/// A token in 10 s, a burst of 10.
fn tens() -> Quota {
    Quota::per(1, TOKEN).burst(10)
}

fn limiter(engine: &Engine, quota: Quota) -> Arc<dyn Limiter> {
    engine.limiter("l", LimiterOptions::new(quota).refusal_cache(false)).unwrap()
}

async fn until(what: &str, limit: Duration, seen: impl Fn() -> bool + Send + Sync) {
    let wait = async {
        while !seen() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(limit, wait).await.unwrap_or_else(|_| panic!("{what} within {limit:?}"));
}

fn decides(model: &Model) -> usize {
    model.limits.flights.lock().unwrap().len()
}

/// Tokens missing in the only bucket, parts counted as one.
fn missing(model: &Model) -> u64 {
    model.limits.missing().div_ceil(10_000_000)
}

#[tokio::test]
async fn l5_a_lost_reply_is_answered_again_and_not_charged_again() {
    let (model, engine) = model();
    let limiter = limiter(&engine, tens());
    for remaining in [9, 8, 7] {
        model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
        let decision = limiter.allow().await.unwrap();
        assert!(decision.allowed);
        assert_eq!(decision.remaining, remaining);
    }
    let place = {
        model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
        limiter.reserve_n(10, TOKEN * 10).await.unwrap().unwrap()
    };
    assert_eq!(missing(&model), 13);
    assert_eq!(decides(&model), 8);
    // A cancel whose reply is lost is told what the first gave back.
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
    assert_eq!(place.cancel().await.unwrap(), 10);
    assert_eq!(missing(&model), 3);
}

#[tokio::test]
async fn l5_concurrent_calls_share_flights_and_each_is_decided() {
    let (model, engine) = model();
    model.faults.delay_ms.store(10, SeqCst);
    let limiter = limiter(&engine, Quota::per_hour(1).burst(60));
    let calls = (0..100).map(|_| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move { limiter.allow().await.unwrap() })
    });
    let mut remaining = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        let decision = call.await.unwrap();
        remaining.extend(decision.allowed.then_some(decision.remaining));
    }
    // In the order of their arrival: here, of their tasks.
    assert_eq!(remaining, (0..60).rev().collect::<Vec<_>>());
    assert!(decides(&model) <= 3, "{} flights", decides(&model));
}

#[tokio::test]
async fn l5_callers_that_gave_up_are_not_charged() {
    let (model, engine) = model_within(Duration::from_secs(3));
    model.faults.delay_ms.store(20, SeqCst);
    let limiter = limiter(&engine, tens());
    model.faults.lose_from.store(model.faults.calls.load(SeqCst) + 2, SeqCst);
    let first = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.allow().await.unwrap() }
    });
    // Both are polled next, gather behind the first and leave together; what carries them is lost
    // for a while.
    let [waiting, asking] = [true, false].map(|wait| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move {
            if wait { limiter.wait_n(2).await } else { limiter.allow_n(5).await.map(drop) }
        })
    });
    assert!(first.await.unwrap().allowed);
    assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
    sleep(SHORT * 2).await;
    model.faults.lose_from.store(0, SeqCst);
    timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("it goes on").unwrap().unwrap();
    assert_eq!(missing(&model), 3, "one and two; nobody waited for the five");
    let flights = model.limits.flights.lock().unwrap();
    let (last, before) = (flights.last().unwrap(), &flights[1]);
    assert_eq!((last.0, before.1.len()), (before.0, 2), "a retry under the same name");
    let given_up = LimitAsk::Take { cost: 0 };
    assert_eq!(last.1.iter().filter(|call| call.ask == given_up).count(), 1);
}

#[tokio::test]
async fn c17_calls_with_a_limit_keep_it() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, tens());
    let expect = |kind: ErrorKind| {
        let limiter = Arc::clone(&limiter);
        async move {
            let watch = Stopwatch::start();
            assert_eq!(limiter.allow().await.unwrap_err().kind(), kind);
            assert_eq!(limiter.reserve_n(1, TOKEN).await.unwrap_err().kind(), kind);
            let cut = limiter.wait_n_for(1, SHORT).await.unwrap_err();
            assert_eq!(cut.kind(), kind);
            assert_eq!(
                (cut.operation(), cut.store(), cut.name()),
                (Some("wait_n_for"), Some("model"), Some("l"))
            );
            assert_eq!(limiter.wait_n_for(1, Duration::ZERO).await.unwrap_err().kind(), kind);
            assert!(watch.elapsed() <= (SHORT + EPSILON) * 4, "{:?}", watch.elapsed());
        }
    };
    model.faults.away.store(true, SeqCst);
    expect(ErrorKind::Unavailable).await;
    // Each at once: a call that waited for its time limit would take ten times as long.
    let watch = Stopwatch::start();
    for _ in 0..50 {
        assert_eq!(limiter.allow().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(watch.elapsed() < SHORT * 50 / 10, "at once: {:?}", watch.elapsed());
    model.faults.away.store(false, SeqCst);
    model.faults.lose_requests.store(true, SeqCst);
    expect(ErrorKind::Unknown).await;
    model.faults.lose_requests.store(false, SeqCst);
    model.faults.delay_ms.store(60_000, SeqCst);
    expect(ErrorKind::Unknown).await;
}

#[tokio::test]
async fn c17_who_was_not_sent_is_told_so() {
    let (model, engine) = model_within(TOKEN * 2);
    model.faults.delay_ms.store(100, SeqCst);
    let limiter = limiter(&engine, tens());
    let ask = |limit: Duration| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move { limiter.wait_n_for(1, limit).await })
    };
    let alone = ask(TOKEN);
    until("a flight", EPSILON, || decides(&model) == 1).await;
    let behind = ask(TOKEN);
    alone.await.unwrap().unwrap();
    until("the next flight", EPSILON, || decides(&model) == 2).await;
    model.faults.delay_ms.store(5_000, SeqCst);
    behind.await.unwrap().unwrap();
    let stuck = [ask(TOKEN), ask(TOKEN)];
    until("a flight of the lone one", EPSILON, || decides(&model) == 3).await;
    until("it is overtaken", EPSILON, || decides(&model) == 4).await;
    // The one that overtook is a task's, which is not overtaken in turn.
    let late = ask(SHORT).await.unwrap().unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    assert_eq!(decides(&model), 4);
    for call in stuck {
        assert!(call.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn c17_wait_rides_out_an_outage() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, tens());
    for fault in [&model.faults.away, &model.faults.lose_requests, &model.faults.lose_replies] {
        fault.store(true, SeqCst);
        let waiting = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.wait().await }
        });
        sleep(SHORT * 4).await;
        assert!(!waiting.is_finished());
        fault.store(false, SeqCst);
        timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("works within 1 s").unwrap().unwrap();
    }
    assert_eq!(missing(&model), 3, "each once");
}

#[tokio::test]
async fn c4_dropped_at_any_poll_nothing_is_left() {
    for (polls, lost) in (0..10).flat_map(|polls| [(polls, false), (polls, true)]) {
        let (model, engine) = model();
        let limiter = limiter(&engine, tens());
        limiter.allow_n(10).await.unwrap();
        model.faults.delay_ms.store(8, SeqCst);
        for call in 0..3 {
            model.faults.lose_replies.store(lost, SeqCst);
            match call {
                0 => drop(drop_after(polls, limiter.wait_n(4)).await),
                1 => drop(drop_after(polls, limiter.wait_n_for(4, TOKEN * 100)).await),
                _ => drop(drop_after(polls, limiter.reserve_n(4, TOKEN * 100)).await),
            }
            model.faults.lose_replies.store(false, SeqCst);
            until("nothing is left", Duration::from_secs(1) + EPSILON, || missing(&model) <= 10).await;
        }
    }
}

#[tokio::test]
async fn c5_a_caller_that_is_not_polled_keeps_nobody() {
    let (model, engine) = model();
    let limiter = limiter(&engine, tens());
    // The first is executed, its reply is lost, and it has to be sent again once it is polled.
    model.faults.lose_reply.store(1, SeqCst);
    let mut idle = Box::pin(limiter.allow_n(2));
    poll_fn(|cx| {
        assert!(idle.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    for remaining in [7, 6, 5] {
        let decision =
            timeout(Duration::from_secs(1) + EPSILON, limiter.allow()).await.expect("not kept").unwrap();
        assert_eq!(decision.remaining, remaining);
    }
    let late = idle.await.unwrap();
    assert_eq!((late.allowed, late.remaining), (true, 8), "as it was decided the first time");
    assert_eq!(missing(&model), 5, "and charged");
    let flights = model.limits.flights.lock().unwrap();
    let (first, last) = (flights[0].0, flights.last().unwrap().0);
    assert_eq!(first, last, "sent again under its name");
    assert_ne!(first.sequence, flights[1].0.sequence, "what overtakes has another");
}

#[tokio::test]
async fn c12_close_ends_waits_and_gives_back() {
    let (model, engine) = model();
    let limiter = limiter(&engine, tens());
    limiter.allow_n(10).await.unwrap();
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.wait_n(2).await })
        })
        .collect();
    until("their reservations", EPSILON, || missing(&model) == 16).await;
    engine.close().await.unwrap();
    assert_eq!(missing(&model), 10, "when close returns");
    for wait in waits {
        let ended = timeout(Duration::from_secs(1) + EPSILON, wait).await.expect("it ends").unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(limiter.allow().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(limiter.set_quota(tens()).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn c12_close_ends_a_wait_during_an_outage() {
    let (model, engine) = model();
    let limiter = limiter(&engine, tens());
    model.faults.away.store(true, SeqCst);
    let waiting = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.wait().await }
    });
    sleep(SHORT).await;
    let closing = tokio::spawn(async move { engine.close().await });
    let ended = timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("it ends").unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    model.faults.away.store(false, SeqCst);
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn l6_a_place_that_would_come_late_is_given_back() {
    let (model, engine) = model();
    let limiter = limiter(&engine, Quota::per(1, Duration::from_secs(1)).burst(1));
    limiter.allow().await.unwrap();
    // The store is asked for a place within 1 s and answers after 1.5 s, so that it would be 2 s in
    // the end.
    model.faults.delay_ms.store(3_000, SeqCst);
    let watch = Stopwatch::start();
    let limit = Duration::from_millis(1_900);
    assert!(!limiter.wait_n_for(1, limit).await.is_ok_and(|waited| waited), "not within {limit:?}");
    assert!(watch.elapsed() <= limit + EPSILON, "{:?}", watch.elapsed());
    model.faults.delay_ms.store(0, SeqCst);
    until("it is given back", Duration::from_secs(4), || model.limits.missing() == 0).await;
}

#[tokio::test]
async fn c20_a_quota_is_compared_once_and_followed() {
    let (model, engine) = model();
    let first = limiter(&engine, tens());
    first.allow().await.unwrap();
    let other = |on_mismatch| {
        let options = LimiterOptions::new(Quota::per(1, TOKEN).burst(5)).on_mismatch(on_mismatch);
        engine.limiter("l", options).unwrap()
    };
    let error = other(OnMismatch::Refuse).allow().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("burst 5") && error.to_string().contains("burst 10"), "{error}");
    let replacing = other(OnMismatch::Replace);
    assert_eq!(replacing.allow().await.unwrap().limit, 5);
    first.set_quota(tens()).await.unwrap();
    assert_eq!(replacing.peek().await.unwrap().limit, 10, "once");
    assert_eq!(other(OnMismatch::Adopt).allow_n(7).await.unwrap().limit, 10);
    assert_eq!(replacing.allow_n(11).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // What is gone is made again with the quota last heard of.
    model.limits.names.lock().unwrap().clear();
    assert_eq!(replacing.peek().await.unwrap().limit, 10);
    let decides = decides(&model);
    for cost in [1 << 53, u64::MAX] {
        assert_eq!(replacing.allow_n(cost).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(self::decides(&model), decides, "refused without asking");
}

#[tokio::test]
async fn l6_of_one_at_once_nothing_is_given_back() {
    let (model, engine) = model();
    let limiter = limiter(&engine, tens());
    let due = limiter.reserve_n(4, TOKEN).await.unwrap().unwrap();
    assert!(due.is_due());
    let calls = model.faults.calls.load(SeqCst);
    drop(due);
    assert_eq!(limiter.reserve_n(4, TOKEN).await.unwrap().unwrap().cancel().await.unwrap(), 0);
    limiter.wait().await.unwrap();
    sleep(SHORT).await;
    assert_eq!(model.faults.calls.load(SeqCst), calls + 2, "nothing to cancel");
    assert_eq!(missing(&model), 9);
    let _: Decision = limiter.peek().await.unwrap();
}
