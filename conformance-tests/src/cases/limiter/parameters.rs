//! The quota: which quotas are exact, and clients with different ones.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{ErrorKind, Limiter, LimiterOptions, OnMismatch, Quota};

use super::{client, slow};
use crate::harness::Harness;
use crate::support::{CANCELLED, kind_of, pause, unique, within};

async fn with(h: &dyn Harness, name: &str, quota: Quota, on_mismatch: OnMismatch) -> Arc<dyn Limiter> {
    let options = LimiterOptions::new(quota).on_mismatch(on_mismatch);
    h.store().await.limiter(name, options).expect("a limiter")
}

pub(crate) async fn c20_another_quota_is_never_silent(h: &dyn Harness) {
    let name = unique("limiter");
    let first = client(h, &name, slow(31_111)).await;
    assert!(first.allow_n(111).await.expect("a decision").allowed);
    let refusing = with(h, &name, slow(52_222), OnMismatch::Refuse).await;
    let error = refusing.allow().await.expect_err("a difference is never silent");
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    let text = error.to_string().replace(&name, "");
    assert!(text.contains("31111") && text.contains("52222"), "names both values: {text}");
    assert_eq!(kind_of(refusing.reserve_n(1, Duration::ZERO).await), Some(ErrorKind::ConfigMismatch));

    let adopting = with(h, &name, slow(52_222), OnMismatch::Adopt).await;
    let decision = adopting.allow_n(1_000).await.expect("adopted");
    assert_eq!((decision.limit, decision.remaining), (31_111, 30_000), "the store's quota stands");

    let replacing = with(h, &name, slow(20_000), OnMismatch::Replace).await;
    assert_eq!(replacing.allow().await.expect("replaced").limit, 20_000);
    let decision = first.peek().await.expect("a decision");
    assert_eq!(
        (decision.limit, decision.remaining),
        (20_000, 19_999),
        "for everybody, down to the new burst"
    );
    first.set_quota(slow(9_000)).await.expect("set the quota");
    assert_eq!(replacing.peek().await.expect("a decision").limit, 9_000, "once: after that it follows");
}

pub(crate) async fn c20_asking_neither_compares_nor_stores(h: &dyn Harness) {
    let name = unique("limiter");
    let first = client(h, &name, slow(3)).await;
    for _ in 0..2 {
        assert_eq!(first.peek().await.expect("a decision").limit, 3);
        assert_eq!(first.quota().await.expect("a quota"), slow(3).validate().expect("a quota"));
        assert!(first.allow_n(0).await.expect("a decision").allowed);
        assert!(first.reserve_n(0, Duration::ZERO).await.expect("an answer").is_some());
        assert_eq!(kind_of(first.allow_n(4).await), Some(ErrorKind::InvalidArgument));
    }
    let adopting = with(h, &name, slow(4), OnMismatch::Adopt).await;
    assert_eq!(kind_of(adopting.allow_n(5).await), Some(ErrorKind::InvalidArgument));
    let other = client(h, &name, slow(5)).await;
    other.reset().await.expect("there is nothing");
    let decision = other.allow().await.expect("a decision");
    assert_eq!((decision.allowed, decision.limit, decision.remaining), (true, 5, 4), "the first to take");
    let decision = first.peek().await.expect("a decision");
    assert_eq!((decision.limit, decision.remaining), (5, 4), "it shows what is there");
    assert_eq!(first.quota().await.expect("a quota"), slow(5).validate().expect("a quota"));
    let replacing = with(h, &name, slow(2), OnMismatch::Replace).await;
    assert_eq!(kind_of(replacing.allow_n(3).await), Some(ErrorKind::InvalidArgument));
    assert_eq!(replacing.peek().await.expect("a decision").limit, 5, "a refused call replaces nothing");
    assert_eq!(kind_of(first.allow().await), Some(ErrorKind::ConfigMismatch), "its first decision");
    first.reset().await.expect("nothing is compared");
    assert_eq!(other.peek().await.expect("a decision").remaining, 5);
}

pub(crate) async fn c20_a_quota_outlives_its_handles(h: &dyn Harness) {
    let name = unique("limiter");
    let fast = |limit| Quota::per_second(limit).burst(1);
    assert!(client(h, &name, fast(1_000)).await.allow().await.expect("a decision").allowed);
    // The bucket is full again.
    pause(Duration::from_millis(5)).await;
    let other = client(h, &name, fast(2_000)).await;
    assert_eq!(kind_of(other.allow().await), Some(ErrorKind::ConfigMismatch));
    other.set_quota(fast(3_000)).await.expect("set the quota");
    drop(other);
    let third = client(h, &name, fast(2_000)).await;
    assert_eq!(kind_of(third.allow().await), Some(ErrorKind::ConfigMismatch));
}

/// C20: two notations of the same quota do not differ.
pub(crate) async fn c20_quotas_are_compared_in_lowest_terms(h: &dyn Harness) {
    let name = unique("limiter");
    let first = client(h, &name, Quota::per_second(2).burst(5)).await;
    let second = client(h, &name, Quota::per_minute(120).burst(5)).await;
    assert!(first.allow().await.expect("a decision").allowed);
    assert!(second.allow().await.expect("the same quota").allowed);
}

pub(crate) async fn c20_set_quota_keeps_what_is_in_the_bucket(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (client(h, &name, slow(10)).await, client(h, &name, slow(10)).await);
    assert!(limiter.allow_n(4).await.expect("a decision").allowed);
    assert_eq!(other.peek().await.expect("a decision").remaining, 6);
    limiter.set_quota(slow(100)).await.expect("set the quota");
    let decision = other.peek().await.expect("a decision");
    assert_eq!((decision.limit, decision.remaining), (100, 6), "nothing is given");
    assert_eq!(kind_of(limiter.allow_n(101).await), Some(ErrorKind::InvalidArgument));
    other.set_quota(slow(3)).await.expect("set the quota");
    let decision = limiter.peek().await.expect("a decision");
    assert_eq!((decision.limit, decision.remaining), (3, 3), "up to the new burst");
    assert_eq!(kind_of(limiter.allow_n(4).await), Some(ErrorKind::InvalidArgument));
    let late = client(h, &name, slow(10)).await;
    assert_eq!(kind_of(late.allow().await), Some(ErrorKind::ConfigMismatch), "a new handle compares");
}

/// L11: a quota is exact, or refused with the nearest exact one in the error.
pub(crate) async fn l11_a_quota_is_exact_or_refused(h: &dyn Harness) {
    const LARGEST: u64 = (1 << 53) - 1;
    let store = h.store().await;
    let micro = Duration::from_micros(1);
    for quota in [
        Quota::per(LARGEST, micro),
        Quota::per(1, Duration::from_micros(LARGEST)).burst(LARGEST),
        Quota::per_second(500_000_000_000).burst(1),
        Quota::per(3, Duration::from_secs(7 * 24 * 3_600)).burst(5),
    ] {
        let limiter = store.limiter(&unique("limiter"), LimiterOptions::new(quota)).expect("an exact quota");
        let decision = limiter.allow().await.expect("a decision");
        assert!(decision.allowed && decision.limit == quota.burst_tokens(), "{quota}: {decision:?}");
    }
    for quota in [
        Quota::per(LARGEST + 1, micro),
        Quota::per(1_000_000_007, Duration::from_secs(10)).burst(1),
        Quota::per(1, Duration::from_nanos(1_500)),
        Quota::per(0, micro),
        Quota::per(1, Duration::ZERO),
        Quota::per(1, micro).burst(0),
        Quota::per(1, micro).burst(LARGEST + 1),
    ] {
        let refused = store.limiter(&unique("limiter"), LimiterOptions::new(quota));
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "{quota}");
        let limiter = client(h, &unique("limiter"), slow(3)).await;
        assert_eq!(kind_of(limiter.set_quota(quota).await), Some(ErrorKind::InvalidArgument), "{quota}");
    }
    let inexact = Quota::per(1_000_000_007, Duration::from_secs(10)).burst(1);
    let error = store.limiter("l", LimiterOptions::new(inexact)).expect_err("not exact");
    assert!(error.to_string().contains("per"), "names the nearest exact one: {error}");
}

/// C12: closing ends waits and refuses calls.
pub(crate) async fn c12_close_ends_waits_for_tokens(h: &dyn Harness) {
    let store = h.store().await;
    let name = unique("limiter");
    let quota = Quota::per(1, Duration::from_secs(60)).burst(1);
    let limiter = store.limiter(&name, LimiterOptions::new(quota)).expect("a limiter");
    assert!(limiter.allow().await.expect("a decision").allowed);
    let other = client(h, &name, quota).await;
    let waiter = Arc::clone(&limiter);
    let waiting = crate::support::spawn(async move { waiter.wait().await });
    let queued = || async { other.peek().await.expect("a decision").reset_after > Duration::from_secs(60) };
    crate::support::eventually(CANCELLED, "a reservation", queued).await;
    store.close().await.expect("close");
    let ended = within(CANCELLED, "waiting calls end", waiting.join()).await;
    assert_eq!(kind_of(ended), Some(ErrorKind::Closed));
    assert_eq!(kind_of(limiter.allow().await), Some(ErrorKind::Closed));
    crate::support::eventually(CANCELLED, "the reservation is given back", || async { !queued().await })
        .await;
}
