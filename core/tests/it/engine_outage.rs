//! What decides in this process: the outage policy, and refusals that still hold.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::{Model, model_within};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_core::engine::Engine;
use stanchion_core::{DecidedBy, ErrorKind, Limiter, LimiterOptions, OutagePolicy, Quota};
use tokio::time::{Instant, sleep};

const SHORT: Duration = Duration::from_millis(200);

fn share(n: u32) -> OutagePolicy {
    OutagePolicy::LocalShare(NonZeroU32::new(n).unwrap())
}

fn limiter(engine: &Engine, quota: Quota, policy: OutagePolicy) -> Arc<dyn Limiter> {
    engine.limiter("l", LimiterOptions::new(quota).outage(policy)).unwrap()
}

fn calls(model: &Model) -> u64 {
    model.faults.calls.load(SeqCst)
}

#[tokio::test]
async fn l10_fail_open_allows_within_the_time_limit() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, Quota::per_hour(1).burst(3), OutagePolicy::FailOpen);
    for fault in [&model.faults.away, &model.faults.lose_requests] {
        fault.store(true, SeqCst);
        let watch = Stopwatch::start();
        for _ in 0..5 {
            let decision = limiter.allow().await.unwrap();
            assert!(decision.allowed && decision.decided_by == DecidedBy::OutagePolicy);
            assert_eq!((decision.limit, decision.retry_after), (3, None));
        }
        assert!(watch.elapsed() <= (SHORT + EPSILON) * 5);
        assert!(limiter.reserve_n(3, Duration::ZERO).await.unwrap().unwrap().is_due());
        limiter.wait_n(3).await.unwrap();
        assert!(limiter.wait_n_for(3, Duration::from_millis(1)).await.unwrap());
        assert_eq!(limiter.allow_n(4).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(limiter.reset().await.is_err() && limiter.set_quota(Quota::per_hour(1)).await.is_err());
        fault.store(false, SeqCst);
    }
    // One question in half a second notices that the store is back.
    let watch = Stopwatch::start();
    let decision = loop {
        let decision = limiter.allow().await.unwrap();
        if decision.decided_by == DecidedBy::Store {
            break decision;
        }
        assert!(watch.elapsed() <= Duration::from_millis(500) + EPSILON, "the store decides again");
        sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(decision.remaining, 2);
}

#[tokio::test]
async fn c12_l10_a_policy_decides_nothing_for_a_closed_store() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, Quota::per_hour(1).burst(3), OutagePolicy::FailOpen);
    model.faults.away.store(true, SeqCst);
    // Until it is known to be away.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(700) {
        limiter.allow().await.unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    let _ = timeout(EPSILON, engine.close()).await;
    assert_eq!(limiter.allow().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(limiter.reserve_n(1, Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(limiter.wait().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn l10_a_share_starts_empty_is_shared_and_kept() {
    let (model, engine) = model_within(SHORT);
    // A token in 100 ms, a burst of 8; a quarter of it.
    let quota = Quota::per(40, Duration::from_secs(1)).burst(8);
    let (one, two) = (limiter(&engine, quota, share(4)), limiter(&engine, quota, share(4)));
    one.allow().await.unwrap();
    model.faults.away.store(true, SeqCst);
    let first = one.allow().await.unwrap();
    assert!(!first.allowed && first.decided_by == DecidedBy::OutagePolicy);
    sleep(Duration::from_millis(400)).await;
    // What the share has given by then, at most: its burst, and its pace.
    let given = |at: Duration| 2 + at.as_millis() / 100;
    let (began, mut admitted) = (Instant::now(), 0);
    for limiter in [&one, &two, &one, &two] {
        admitted += u128::from(limiter.allow().await.unwrap().allowed);
    }
    let most = given(began.elapsed());
    assert!((2..=most).contains(&admitted), "{admitted} of {most}, for both handles together");
    timeout(SHORT + EPSILON, two.wait_n(2)).await.expect("at the share's own pace").unwrap();
    assert!(admitted + 2 <= given(began.elapsed()), "{admitted} and 2 in {:?}", began.elapsed());
    model.faults.away.store(false, SeqCst);
    assert_eq!(one.allow().await.unwrap().decided_by, DecidedBy::Store);
    sleep(Duration::from_millis(250)).await;
    model.faults.away.store(true, SeqCst);
    assert!(two.allow_n(2).await.unwrap().allowed, "kept across outages");
}

#[tokio::test]
async fn l10_an_empty_share_tells_when_its_tokens_come() {
    let (model, engine) = model_within(SHORT);
    // The share has a token in 6 min, and a burst of 2.
    let quota = Quota::per(40, Duration::from_secs(3_600)).burst(8);
    let (one, two) = (limiter(&engine, quota, share(4)), limiter(&engine, quota, share(4)));
    one.allow().await.unwrap();
    model.faults.away.store(true, SeqCst);
    let first = one.allow().await.unwrap();
    assert!(!first.allowed && first.decided_by == DecidedBy::OutagePolicy);
    assert_eq!((first.limit, first.remaining, first.retry_after), (2, 0, Some(Duration::from_secs(360))));
    // A place in it, at its own pace; its cancel gives back.
    let place = two.reserve_n(2, Duration::from_secs(3_600)).await.unwrap().unwrap();
    assert!(!place.is_due());
    assert_eq!(place.cancel().await.unwrap(), 2);
    assert!(!one.wait_n_for(2, Duration::from_millis(20)).await.unwrap());
    assert!(one.reserve_n(1, Duration::ZERO).await.unwrap().is_none());
    let over = one.allow_n(5).await.unwrap_err();
    assert_eq!(over.kind(), ErrorKind::Unavailable, "more than the share ever has");
}

#[tokio::test]
async fn c17_l10_a_wait_for_more_than_the_share_has_rides_out_an_outage() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, Quota::per(40, Duration::from_secs(1)).burst(8), share(4));
    for fault in [&model.faults.away, &model.faults.lose_requests, &model.faults.lose_replies] {
        limiter.reset().await.unwrap();
        fault.store(true, SeqCst);
        let waiting = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.wait_n(3).await }
        });
        let watch = Stopwatch::start();
        assert!(limiter.wait_n_for(3, SHORT).await.unwrap_err().is_retryable());
        assert!(limiter.wait_n_for(3, Duration::ZERO).await.unwrap_err().is_retryable());
        assert!(watch.elapsed() <= (SHORT + EPSILON) * 2);
        sleep(SHORT * 2).await;
        assert!(!waiting.is_finished(), "{:?}", waiting.await);
        fault.store(false, SeqCst);
        timeout(Duration::from_secs(1) + EPSILON, waiting).await.expect("works within 1 s").unwrap().unwrap();
    }
    model.faults.away.store(true, SeqCst);
    let over = limiter.wait_n(9).await.unwrap_err();
    assert_eq!(over.kind(), ErrorKind::InvalidArgument, "more than the quota ever has");
}

#[tokio::test]
async fn l10_only_an_outage_is_for_the_policy() {
    let (_model, engine) = model_within(SHORT);
    let first = limiter(&engine, Quota::per_hour(1).burst(3), OutagePolicy::FailOpen);
    first.allow().await.unwrap();
    let other = limiter(&engine, Quota::per_hour(1).burst(4), OutagePolicy::FailOpen);
    assert_eq!(other.allow().await.unwrap_err().kind(), ErrorKind::ConfigMismatch);
    assert_eq!(other.wait().await.unwrap_err().kind(), ErrorKind::ConfigMismatch);
    assert_eq!(first.allow_n(4).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    engine.close().await.unwrap();
    assert_eq!(first.allow().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn l8_a_refusal_that_holds_needs_no_request() {
    let (model, engine) = model_within(SHORT);
    let quota = Quota::per(1, Duration::from_secs(10)).burst(1);
    let (one, two) = (
        limiter(&engine, quota, OutagePolicy::FailClosed),
        limiter(&engine, quota, OutagePolicy::FailClosed),
    );
    let in_time = async {
        loop {
            assert!(one.allow().await.unwrap().allowed);
            let asked = Instant::now();
            let refused = two.allow().await.unwrap();
            assert_eq!(refused.decided_by, DecidedBy::Store);
            let before = calls(&model);
            let cached = one.allow().await.unwrap();
            // A refusal is remembered for 100 ms, in which the machine may stand still.
            if asked.elapsed() < Duration::from_millis(100) {
                assert_eq!(cached.decided_by, DecidedBy::LocalCache);
                assert_eq!(calls(&model), before, "shared by the handles of the name");
                return (refused, cached);
            }
            two.reset().await.unwrap();
        }
    };
    let (refused, cached) = timeout(Duration::from_secs(20), in_time).await.expect("two calls in 100 ms");
    assert!(!cached.allowed);
    assert!(cached.retry_after <= refused.retry_after && cached.reset_after <= refused.reset_after);
    assert!(one.peek().await.unwrap().allowed, "another cost is another question");
    two.reset().await.unwrap();
    assert!(one.allow().await.unwrap().allowed, "a reset of this process counts at once");
    assert_eq!(one.allow().await.unwrap().decided_by, DecidedBy::Store);
    two.set_quota(Quota::per(1, Duration::from_millis(1)).burst(1)).await.unwrap();
    sleep(Duration::from_millis(5)).await;
    assert!(one.allow().await.unwrap().allowed, "and so does a new quota");
    // A new handle compares its quota first.
    one.set_quota(quota).await.unwrap();
    one.reset().await.unwrap();
    one.allow().await.unwrap();
    one.allow().await.unwrap();
    let before = calls(&model);
    limiter(&engine, quota, OutagePolicy::FailClosed).allow().await.unwrap();
    assert_eq!(calls(&model), before + 1);
}

#[tokio::test]
async fn l8_the_cache_can_be_turned_off() {
    let (model, engine) = model_within(SHORT);
    let options = LimiterOptions::new(Quota::per_hour(1).burst(1)).refusal_cache(false);
    let limiter = engine.limiter("l", options).unwrap();
    for _ in 0..4 {
        limiter.allow().await.unwrap();
    }
    assert_eq!(calls(&model), 4);
}

#[tokio::test]
async fn l2_after_a_cached_refusal_the_caller_is_admitted_in_time() {
    let (model, engine) = model_within(SHORT);
    model.faults.delay_ms.store(10, SeqCst);
    let limiter =
        limiter(&engine, Quota::per(1, Duration::from_millis(60)).burst(1), OutagePolicy::FailClosed);
    assert!(limiter.allow().await.unwrap().allowed);
    let mut cached = 0;
    let refusals = async {
        // Where the machine stands still, a round has no refusal that is still remembered.
        for round in 0.. {
            if round >= 5 && cached >= 3 {
                return;
            }
            let mut decision = limiter.allow().await.unwrap();
            if !decision.allowed {
                decision = limiter.allow().await.unwrap();
                cached += u32::from(decision.decided_by == DecidedBy::LocalCache);
            }
            if let Some(wait) = decision.retry_after {
                sleep(wait).await;
                assert!(limiter.allow().await.unwrap().allowed, "{decision:?}");
            }
        }
    };
    timeout(Duration::from_secs(20), refusals).await.expect("refusals are remembered");
}

#[tokio::test]
async fn l7_with_a_reservation_ahead_no_refusal_is_remembered() {
    let (model, engine) = model_within(SHORT);
    let limiter = limiter(&engine, Quota::per(1, Duration::from_secs(10)).burst(2), OutagePolicy::FailClosed);
    limiter.allow_n(2).await.unwrap();
    let place = limiter.reserve_n(1, Duration::from_secs(60)).await.unwrap().unwrap();
    let before = calls(&model);
    for _ in 0..3 {
        let refused = limiter.allow().await.unwrap();
        assert!(!refused.allowed && refused.decided_by == DecidedBy::Store, "a refund could change it");
    }
    assert_eq!(calls(&model), before + 3);
    assert_eq!(place.cancel().await.unwrap(), 1);
}
