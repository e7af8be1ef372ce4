//! The cost admitted in a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{DecidedBy, Limiter, Quota};

use super::{client, slow};
use crate::harness::Harness;
use crate::support::{TICK, join_all, now, pause, spawn, unique, within};

/// The start and the end of an admitted call, and its cost.
type Admitted = (Instant, Instant, u64);

/// Makes calls as fast as possible until `end`, and until a call of any task was refused.
async fn saturate(
    limiter: Arc<dyn Limiter>,
    cost: u64,
    end: Instant,
    any_refused: Arc<AtomicBool>,
) -> (Vec<Admitted>, Vec<(Instant, Instant)>) {
    let (mut admitted, mut refused) = (Vec::new(), Vec::new());
    loop {
        let before = now();
        if before >= end && any_refused.load(Ordering::SeqCst) {
            return (admitted, refused);
        }
        let decision = limiter.allow_n(cost).await.expect("a decision");
        let after = now();
        match decision.retry_after {
            None => admitted.push((before, after, cost)),
            Some(wait) => {
                if decision.decided_by == DecidedBy::Store {
                    refused.push((before, after));
                    any_refused.store(true, Ordering::SeqCst);
                }
                // Mostly too early, so that the demand saturates the limiter.
                pause(wait / 4).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the tokens that the rate gives in `time`, rounded up.
fn refill(amount: u64, period: Duration, time: Duration) -> u64 {
    let tokens = (u128::from(amount) * time.as_nanos()).div_ceil(period.as_nanos());
    u64::try_from(tokens).expect("a short time")
}

/// Returns the time in which the bucket may have overflowed: stretches without a refusal that are
/// long enough for the bucket to fill. On a busy machine all tasks may be stalled, inside a call or
/// not.
fn unproven(start: Instant, refused: &[(Instant, Instant)], fill: Duration) -> Duration {
    let mut refused = refused.to_vec();
    refused.sort_unstable();
    let (mut unproven, mut last) = (Duration::ZERO, None);
    for (before, after) in refused {
        // The bucket is full at first.
        let stretch = after.saturating_duration_since(last.unwrap_or(start));
        unproven += if last.is_none() || stretch >= fill { stretch } else { Duration::ZERO };
        last = Some(before);
    }
    unproven
}

/// Number of tasks of each client.
const TASKS: usize = 8;

/// L1 and, with the same evidence, L2: two clients, several tasks, a rate whose interval is no
/// whole millisecond. The tasks saturate the rate even if a decision takes 200 ms: a window without
/// a refusal would show nothing about L2.
async fn window_of(h: &dyn Harness, amount: u64, period: Duration, burst: u64, costs: [u64; 2]) {
    let name = unique("limiter");
    let quota = Quota::per(amount, period).burst(burst);
    let limiters = [client(h, &name, quota).await, client(h, &name, quota).await];
    let any_refused = Arc::new(AtomicBool::new(false));
    let end = now() + Duration::from_millis(1_500);
    let mut tasks = Vec::new();
    for (cost, limiter) in costs.into_iter().zip(&limiters) {
        let task = |_| spawn(saturate(Arc::clone(limiter), cost, end, Arc::clone(&any_refused)));
        tasks.extend((0..TASKS).map(task));
    }
    let (mut admitted, mut refused) = (Vec::new(), Vec::new());
    for (yes, no) in within(Duration::from_secs(20), "the demand ends", join_all(tasks)).await {
        admitted.extend(yes);
        refused.extend(no);
    }
    admitted.sort_unstable_by_key(|call| call.0);
    for (index, first) in admitted.iter().enumerate() {
        let (mut cost, mut last) = (0, first.1);
        for call in &admitted[index..] {
            cost += call.2;
            last = last.max(call.1);
            let most = burst + refill(amount, period, last - first.0 + TICK);
            assert!(cost <= most, "{cost} admitted in {:?}, {most} allowed", last - first.0);
        }
    }
    let last_refusal = refused.iter().max_by_key(|call| call.0).expect("the demand was over the rate");
    let start = admitted.iter().map(|call| call.1).min().expect("the burst is admitted");
    let given: u64 = admitted.iter().filter(|call| call.0 <= last_refusal.1).map(|call| call.2).sum();
    let demanded = last_refusal.0.saturating_duration_since(start);
    // At a refusal, less than the largest cost was left.
    let largest = costs.into_iter().max().unwrap_or(1);
    let fill = period.mul_f64((burst - largest) as f64 / amount as f64);
    let unproven = unproven(start, &refused, fill);
    let due = burst + refill(amount, period, demanded.saturating_sub(unproven));
    assert!((given + largest) * 1_000 >= due * 999, "{given} of {due} admitted");
}

pub(crate) async fn l1_l2_a_window_admits_burst_and_rate(h: &dyn Harness) {
    window_of(h, 70, Duration::from_secs(1), 20, [1; 2]).await;
}

pub(crate) async fn l1_l2_a_window_of_mixed_costs(h: &dyn Harness) {
    window_of(h, 230, Duration::from_millis(999), 60, [2, 7]).await;
}

/// L1: intervals are not rounded. A rate of 700 a second has an interval of 1428.57 µs.
pub(crate) async fn l1_intervals_are_not_rounded(h: &dyn Harness) {
    let limiter = client(h, &unique("limiter"), Quota::per(7, Duration::from_millis(10)).burst(70)).await;
    // The bucket is emptied at some instant within the first call: on a busy machine, most of the
    // call may come after that.
    let before = now();
    let decision = limiter.allow_n(70).await.expect("a decision");
    assert!(decision.allowed && decision.reset_after == Duration::from_millis(100), "{decision:?}");
    let decision = limiter.allow_n(70).await.expect("a decision");
    let elapsed = now() - before;
    if let Some(wait) = decision.retry_after {
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        assert!(wait + elapsed + TICK >= Duration::from_millis(100), "{wait:?} after {elapsed:?}");
    } else {
        assert!(elapsed + TICK >= Duration::from_millis(100), "full again after {elapsed:?}");
    }
}

/// L2: a call exactly at `retry_after` is admitted, each time.
pub(crate) async fn l2_retry_after_is_enough(h: &dyn Harness) {
    // A token comes every 47.6 ms: more slowly than calls are answered, so that the bucket gets
    // empty.
    let limiter = client(h, &unique("limiter"), Quota::per(21, Duration::from_secs(1)).burst(5)).await;
    assert!(limiter.allow_n(5).await.expect("a decision").allowed);
    for cost in [1, 2, 5, 1, 3, 1, 1, 4] {
        let decision = loop {
            let decision = limiter.allow_n(cost).await.expect("a decision");
            if decision.retry_after.is_some() {
                break decision;
            }
        };
        let wait = decision.retry_after.expect("refused");
        assert!(wait <= Duration::from_micros(cost * 47_620), "{wait:?} for a cost of {cost}");
        pause(wait).await;
        let again = limiter.allow_n(cost).await.expect("a decision");
        assert!(again.allowed, "a cost of {cost} after {wait:?}: {again:?}");
    }
}

/// L5: concurrent calls on one name each get their own decision.
pub(crate) async fn l5_concurrent_calls_get_exact_decisions(h: &dyn Harness) {
    const BURST: u64 = 60;
    let name = unique("limiter");
    let clients = [client(h, &name, slow(BURST)).await, client(h, &name, slow(BURST)).await];
    let calls = (0..100_usize).map(|number| {
        let limiter = Arc::clone(&clients[number % 2]);
        spawn(async move { limiter.allow().await.expect("a decision") })
    });
    let decisions = join_all(calls.collect()).await;
    let mut remaining: Vec<_> =
        decisions.iter().filter(|decision| decision.allowed).map(|decision| decision.remaining).collect();
    remaining.sort_unstable();
    assert_eq!(remaining, (0..BURST).collect::<Vec<_>>(), "each token once");
    assert!(decisions.iter().filter(|decision| !decision.allowed).all(|decision| decision.remaining == 0));
}
