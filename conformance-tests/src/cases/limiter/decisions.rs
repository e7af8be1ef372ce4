//! The fields of a decision.

use std::num::NonZeroU32;
use std::time::Duration;

use stanchion_core::{DecidedBy, ErrorKind, LimiterOptions, OutagePolicy, Quota};

use super::{client, slow};
use crate::harness::Harness;
use crate::support::{AT_ONCE, EPSILON, Stopwatch, TICK, definite, kind_of, now, pause, unique, within};

/// L8: every field, for an allowed call, a refused call and a `peek`.
pub(crate) async fn l8_a_decision_says_everything(h: &dyn Harness) {
    const TOKEN: Duration = Duration::from_secs(10);
    let limiter = client(h, &unique("limiter"), Quota::per(1, TOKEN).burst(4)).await;
    let start = now();
    let full = limiter.peek().await.expect("a decision");
    assert!(full.allowed && full.retry_after.is_none());
    assert_eq!((full.limit, full.remaining, full.reset_after), (4, 4, Duration::ZERO));
    let yes = limiter.allow_n(3).await.expect("a decision");
    assert!(yes.allowed && yes.retry_after.is_none());
    assert_eq!((yes.limit, yes.remaining), (4, 1));
    assert_eq!(yes.reset_after, TOKEN * 3, "counted from the decision");
    let no = limiter.allow_n(3).await.expect("a decision");
    assert!(!no.allowed);
    assert_eq!((no.limit, no.remaining), (4, 1), "a no takes nothing");
    let passed = now() - start + TICK;
    let wait = no.retry_after.expect("a no says when");
    assert!(wait <= TOKEN * 2 && wait + passed >= TOKEN * 2, "{wait:?}");
    assert!(no.reset_after <= TOKEN * 3 && no.reset_after + passed >= TOKEN * 3, "{:?}", no.reset_after);
    for decision in [full, yes, no] {
        assert_eq!(decision.decided_by, DecidedBy::Store);
    }
}

pub(crate) async fn l9_a_cost_of_zero_takes_nothing(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (client(h, &name, slow(3)).await, client(h, &name, slow(3)).await);
    for left in [3, 2, 1, 0] {
        for _ in 0..3 {
            let decision = other.allow_n(0).await.expect("a decision");
            assert_eq!(decision.remaining, left);
            assert_eq!(other.peek().await.expect("a decision").remaining, left);
        }
        assert_eq!(limiter.allow().await.expect("a decision").allowed, left > 0);
    }
}

pub(crate) async fn l9_a_cost_over_the_burst_is_an_error(h: &dyn Harness) {
    let limiter = client(h, &unique("limiter"), slow(3)).await;
    for cost in [4, 1 << 53, u64::MAX] {
        assert_eq!(kind_of(limiter.allow_n(cost).await), Some(ErrorKind::InvalidArgument));
        let refused = limiter.reserve_n(cost, Duration::MAX).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
        let refused = within(AT_ONCE, "never an endless wait", limiter.wait_n(cost)).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
        let refused = within(AT_ONCE, "never an endless wait", limiter.wait_n_for(cost, Duration::MAX)).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
    }
    assert!(limiter.allow_n(3).await.expect("a decision").allowed, "nothing was taken");
}

/// L10: while the store answers, it decides, whatever the policy.
pub(crate) async fn l10_the_policy_is_silent_while_the_store_answers(h: &dyn Harness) {
    let share = NonZeroU32::new(4).expect("not zero");
    for policy in [OutagePolicy::FailClosed, OutagePolicy::FailOpen, OutagePolicy::LocalShare(share)] {
        let options = LimiterOptions::new(slow(2)).outage(policy);
        let limiter = h.store().await.limiter(&unique("limiter"), options).expect("a limiter");
        for expected in [true, true, false, false] {
            let decision = limiter.allow().await.expect("a decision");
            assert_eq!(decision.allowed, expected, "{policy:?}");
            assert_ne!(decision.decided_by, DecidedBy::OutagePolicy);
        }
    }
}

/// L8: `reset` fills the bucket for all clients.
pub(crate) async fn l8_reset_fills_the_bucket(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (client(h, &name, slow(5)).await, client(h, &name, slow(5)).await);
    assert!(limiter.allow_n(5).await.expect("a decision").allowed);
    assert!(!other.allow().await.expect("a decision").allowed);
    other.reset().await.expect("reset");
    assert_eq!(limiter.peek().await.expect("a decision").remaining, 5);
    assert!(limiter.allow_n(5).await.expect("a decision").allowed);
}

/// C17: a wait that cannot end in time is refused at once, and costs nothing.
pub(crate) async fn c17_l6_a_wait_beyond_the_limit_is_refused_at_once(h: &dyn Harness) {
    let limiter = client(h, &unique("limiter"), Quota::per(1, Duration::from_secs(10)).burst(2)).await;
    assert!(limiter.wait_n_for(2, Duration::ZERO).await.expect("a definite answer"), "it is there");
    for limit in [Duration::ZERO, Duration::from_micros(1), Duration::from_secs(5)] {
        let refused = || within(AT_ONCE, "refused at once", limiter.wait_n_for(1, limit));
        let admitted = definite(refused).await;
        assert!(!admitted.expect("a definite answer"), "10 s is not within {limit:?}");
    }
    let wait = limiter.allow().await.expect("a decision").retry_after.expect("the bucket is empty");
    assert!(wait <= Duration::from_secs(10), "the refusals cost nothing: {wait:?}");
}

/// L6: `wait` is not early, and not late by more than the allowance.
pub(crate) async fn l6_wait_returns_at_its_time(h: &dyn Harness) {
    const TOKEN: Duration = Duration::from_millis(100);
    let limiter = client(h, &unique("limiter"), Quota::per(1, TOKEN).burst(1)).await;
    let before = now();
    limiter.wait().await.expect("wait");
    let first = Stopwatch::start();
    for number in 1..=4_u32 {
        limiter.wait().await.expect("wait");
        assert!(now() + TICK >= before + TOKEN * number, "early by {:?}", before + TOKEN * number - now());
        let waited = first.elapsed();
        assert!(waited <= TOKEN * number + EPSILON, "late: {waited:?} for {number}");
    }
    pause(TICK).await;
    let admitted = limiter.allow().await.expect("a decision").allowed;
    assert!(!admitted || now() + TICK >= before + TOKEN * 5, "waiting took the tokens");
}
