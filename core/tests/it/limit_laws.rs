//! The limiter's clauses as laws of the bucket, each over drawn quotas and calls.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use crate::limit_model::{Call, any_quota, apply, quota, small_quota};
use proptest::prelude::*;
use stanchion_core::ErrorKind;
use stanchion_core::limiter::{Bucket, ExactQuota, MAX, Snapshot};

/// An admission: when, how much.
type Admitted = (u64, u64);

/// Whether in every window the admitted cost is at most `burst + rate · length`.
fn keeps_the_rate(quota: &ExactQuota, mut admitted: Vec<Admitted>) -> Result<(), TestCaseError> {
    admitted.sort_unstable();
    for (from, &(start, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for &(end, cost) in &admitted[from..] {
            sum += i128::from(cost);
            let most = i128::from(quota.burst()) * i128::from(quota.period())
                + i128::from(quota.amount()) * i128::from(end - start);
            let taken = sum * i128::from(quota.period());
            prop_assert!(taken <= most, "{} in [{}, {}] under {}: {:?}", sum, start, end, quota, admitted);
        }
    }
    Ok(())
}

/// Calls with the time that passes before each, mostly of a kind that leaves reservations ahead.
fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let cost = || prop_oneof![Just(u64::MAX), 1_u64..12];
    let call = prop_oneof![
        2 => cost().prop_map(Call::Take),
        3 => (any::<u8>(), cost()).prop_map(|(id, cost)| Call::Reserve { id, cost, max_wait: MAX }),
        3 => any::<u8>().prop_map(Call::Cancel),
    ];
    prop::collection::vec((prop_oneof![Just(0), 0_u64..30], call), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l1_no_window_admits_more_than_burst_and_rate(quota in small_quota(), calls in calls(), patience in 0_u64..100) {
        let mut bucket = Bucket::new(quota, 0);
        let (mut now, mut taken, mut reserved): (_, Vec<Admitted>, Vec<(u64, u64, u64)>) = (0, vec![], vec![]);
        for (number, (gap, call)) in (0_u64..).zip(calls) {
            now += gap;
            match call {
                Call::Take(cost) => {
                    let cost = cost % (quota.burst() + 1);
                    if bucket.take(now, cost).unwrap().allowed {
                        taken.push((now, cost));
                    }
                }
                Call::Reserve { cost, .. } => {
                    let cost = cost % (quota.burst() + 1);
                    let place = bucket.reserve(now, number.into(), cost, MAX).unwrap().unwrap();
                    reserved.push((place.ready_at, cost, number));
                }
                Call::Cancel(_) if reserved.is_empty() => {}
                Call::Cancel(which) => {
                    let (ready_at, cost, id) = reserved.remove(usize::from(which) % reserved.len());
                    let refund = bucket.cancel(now, id.into());
                    prop_assert!(refund <= cost, "gave back more than it cost (L7)");
                    prop_assert_eq!(bucket.cancel(now, id.into()), 0, "once (L7)");
                    if ready_at <= now {
                        prop_assert_eq!(refund, 0, "its time had come (L7)");
                        taken.push((ready_at, cost));
                    }
                }
            }
        }
        // Then somebody takes all there is, at every microsecond for a while and once the bucket is
        // full.
        for at in (now..now + patience).chain([bucket.full_at().max(now + patience)]) {
            let rest = bucket.peek(at).remaining;
            if rest > 0 {
                prop_assert!(bucket.take(at, rest).unwrap().allowed);
                taken.push((at, rest));
            }
        }
        taken.extend(reserved.iter().map(|&(ready_at, cost, _)| (ready_at, cost)));
        keeps_the_rate(&quota, taken)?;
    }

    #[test]
    fn l2_a_caller_exactly_at_retry_after_is_admitted_and_not_before(
        quota in any_quota(),
        start in 0..=MAX / 4,
        debt in prop::collection::vec(any::<u64>(), 0..4),
        cost in any::<u64>(),
        back in 0_u64..1000,
    ) {
        let mut bucket = Bucket::new(quota, start);
        for (id, cost) in (0..).zip(debt) {
            bucket.reserve(start, id, cost % (quota.burst() + 1), MAX).unwrap();
        }
        let cost = cost % (quota.burst() + 1);
        let now = start.saturating_sub(back);
        let verdict = bucket.take(now, cost).unwrap();
        prop_assert_eq!(verdict.allowed, verdict.retry_after.is_none());
        if let Some(wait) = verdict.retry_after && wait < MAX - now {
            prop_assert!(!bucket.clone().take(now + wait - 1, cost).unwrap().allowed);
            prop_assert!(bucket.take(now + wait, cost).unwrap().allowed);
        }
    }

    #[test]
    fn l2_saturating_demand_gets_the_whole_rate(
        amount in 1_u64..5000,
        period in 1_000_u64..10_000_000,
        burst in 1_u64..50,
        cost in 1_u64..50,
    ) {
        // The burst is worth a millisecond or more; below that a wait rounded up to a microsecond
        // shows.
        let period = period.max((amount * 1000).div_ceil(burst));
        let quota = quota(amount, period, burst);
        let cost = cost.min(burst);
        let mut bucket = Bucket::new(quota, 0);
        let (mut now, mut admitted) = (0_u64, 0_u64);
        for _ in 0..2000 {
            match bucket.take(now, cost).unwrap().retry_after {
                None => admitted += cost,
                Some(wait) => now += wait,
            }
        }
        // What is left in the bucket is less than one cost: demand of that size cannot use it.
        let most = u128::from(burst) * u128::from(quota.period()) + u128::from(quota.amount()) * u128::from(now);
        let got = u128::from(admitted + cost) * u128::from(quota.period());
        prop_assert!(got * 1000 >= most * 999, "{} of {} / {}", admitted, most, quota.period());
    }

    #[test]
    fn l4_a_clock_that_goes_back_mints_nothing(
        quota in small_quota(),
        calls in calls(),
        backs in prop::collection::vec(prop_oneof![Just(0), 0_u64..500], 50),
    ) {
        let (mut steady, mut stepped) = (Bucket::new(quota, 500), Bucket::new(quota, 500));
        let (mut now, mut seen) = (500, 500);
        for ((gap, call), back) in calls.into_iter().zip(backs) {
            now += gap;
            seen = seen.max(now - back);
            // One clock goes back, the other stands still until it is caught up with.
            let (a, b) = (apply(&mut steady, seen, call), apply(&mut stepped, now - back, call));
            prop_assert_eq!(a.map(|(_, cost, _)| cost), b.map(|(_, cost, _)| cost));
            prop_assert_eq!(&steady, &stepped);
        }
    }

    #[test]
    fn l4_a_clock_that_was_far_ahead_is_not_waited_for_and_minted_nothing(
        quota in any_quota(),
        debt in prop::collection::vec(any::<u64>(), 0..4),
        ahead in 60_000_001..MAX / 4,
    ) {
        let now = MAX / 4;
        let mut bucket = Bucket::new(quota, now + ahead);
        bucket.take(now + ahead, quota.burst()).unwrap();
        for (id, cost) in (0..).zip(&debt) {
            bucket.reserve(now + ahead, id, cost % (quota.burst() + 1), MAX).unwrap();
        }
        let before = bucket.peek(now + ahead);
        prop_assert_eq!(bucket.peek(now), before, "no less and no more, at once");
        if let Some(place) = bucket.reserve(now, 9, 0, MAX).unwrap() {
            prop_assert_eq!(place.wait, before.retry_after.unwrap_or(0));
        }
        prop_assert!((0..4).all(|id| bucket.cancel(now, id) == 0), "their time is not known any more");
        prop_assert_eq!(bucket.peek(now), before);
    }

    #[test]
    fn l6_no_reservation_gets_a_time_before_an_earlier_live_one(quota in small_quota(), calls in calls()) {
        let mut bucket = Bucket::new(quota, 0);
        let (mut now, mut live): (u64, Vec<(u8, u64)>) = (0, vec![]);
        for (gap, call) in calls {
            now += gap;
            live.retain(|&(_, ready_at)| ready_at > now);
            let known = |id: u8| live.iter().find(|&&(other, _)| other == id).map(|&(_, ready_at)| ready_at);
            match (call, apply(&mut bucket, now, call)) {
                (Call::Reserve { id, .. }, Some((ready_at, cost, _))) => {
                    if let Some(before) = known(id) {
                        prop_assert_eq!(ready_at, before, "the same id gets the same place");
                        continue;
                    }
                    prop_assert!(live.iter().all(|&(_, earlier)| earlier <= ready_at));
                    if cost > 0 {
                        live.push((id, ready_at));
                    }
                }
                (Call::Cancel(id), _) => live.retain(|&(other, _)| other != id),
                _ => {}
            }
        }
    }

    #[test]
    fn l6_a_refused_reservation_costs_nothing(quota in any_quota(), cost in any::<u64>(), short in 1_u64..1000) {
        let cost = cost % quota.burst() + 1;
        let mut bucket = Bucket::empty(quota, 0);
        let Some(place) = bucket.clone().reserve(0, 1, cost, MAX).unwrap() else { return Ok(()) };
        let before = bucket.clone();
        let too_short = place.wait.saturating_sub(short);
        prop_assert_eq!(bucket.reserve(0, 1, cost, too_short).unwrap().is_some(), place.wait == 0);
        if place.wait > 0 {
            prop_assert_eq!(&bucket, &before);
        }
        prop_assert!(bucket.reserve(0, 1, cost, place.wait).unwrap().is_some());
    }
}

#[test]
fn l5_a_snapshot_says_what_the_bucket_would() {
    let terms = quota(3, 1_000_000, 7);
    let mut bucket = Bucket::new(terms, 0);
    bucket.take(0, 7).unwrap();
    // 2 000 001 µs later: 6 tokens and 3 parts of a million.
    let mut snapshot = Snapshot::new(terms, 6, 3, 0).unwrap();
    for cost in [2, 0, 3, 2, 1, 7] {
        assert_eq!(snapshot.take(cost), bucket.take(2_000_001, cost).unwrap());
    }
    let mut behind = Snapshot::new(terms, 0, 3, 1).unwrap();
    assert_eq!(behind.take(1), bucket.take(2_000_000, 1).unwrap(), "on a clock that went back");
    for (tokens, fraction, behind) in
        [(8, 0, 0), (7, 1, 0), (0, 1_000_000, 0), (i64::MIN, 0, 0), (0, 0, MAX + 1)]
    {
        assert!(Snapshot::new(terms, tokens, fraction, behind).is_err());
    }
}

#[test]
fn l1_a_partial_refund_is_not_given_back_twice() {
    // Two of ten, then one; the second is cancelled, then the first. Were the second's refund taken
    // off the cost behind the first, the bucket would be full when the time of the last comes, and
    // admit eleven at once.
    let mut bucket = Bucket::empty(quota(1, 1000, 10), 0);
    for (id, cost) in [(1, 10), (2, 10), (3, 1)] {
        bucket.reserve(0, id, cost, MAX).unwrap();
    }
    assert_eq!(bucket.cancel(0, 2), 9);
    assert_eq!(bucket.cancel(0, 1), 0);
    assert_eq!(bucket.take(21_000, 0).unwrap().remaining, 9);
}

#[test]
fn l1_a_time_rounded_up_does_not_shorten_the_next() {
    // 7 per 100 µs: tokens come every 14.3 µs, places are whole. From 15 to 29 it would be 14 µs.
    let mut bucket = Bucket::empty(quota(7, 100, 1), 0);
    let place = |bucket: &mut Bucket, id| bucket.reserve(0, id, 1, MAX).unwrap().unwrap().ready_at;
    assert_eq!([1, 2, 3].map(|id| place(&mut bucket, id)), [15, 30, 45]);
}

#[test]
fn l7_gives_back_what_nobody_behind_has_used() {
    let mut bucket = Bucket::empty(quota(10, 1_000_000, 10), 0);
    for (id, cost) in [(1, 10), (2, 4), (3, 3)] {
        bucket.reserve(0, id, cost, MAX).unwrap();
    }
    assert_eq!(bucket.clone().cancel(0, 1), 3, "10 − 4 − 3");
    assert_eq!(bucket.clone().cancel(0, 2), 1, "4 − 3");
    assert_eq!(bucket.clone().cancel(1_699_999, 3), 3, "the last before its time");
    assert_eq!(bucket.clone().cancel(1_700_000, 3), 0, "the last at its time");
    assert_eq!(bucket.cancel(0, 3), 3);
    assert_eq!(bucket.cancel(0, 2), 4, "as if the third had never been");
    assert_eq!(bucket.cancel(0, 1), 10);
    assert_eq!(bucket.cancel(0, 1), 0, "once");
    assert_eq!(bucket, Bucket::empty(quota(10, 1_000_000, 10), 0));
}

#[test]
fn l9_costs_of_zero_and_over_the_burst() {
    let mut bucket = Bucket::new(quota(10, 1_000_000, 10), 0);
    assert!(bucket.take(0, 0).unwrap().allowed);
    assert_eq!(bucket.take(0, 11).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(bucket.reserve(0, 1, 11, MAX).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(bucket.take(0, 10).unwrap().allowed);
    assert!(bucket.take(0, 0).unwrap().allowed, "empty is not in debt");
    bucket.reserve(0, 1, 1, MAX).unwrap();
    let verdict = bucket.take(0, 0).unwrap();
    assert_eq!((verdict.allowed, verdict.retry_after), (false, Some(100_000)));
    assert_eq!(bucket.reserve(0, 2, 0, MAX).unwrap().unwrap().ready_at, 100_000);
}

#[test]
fn c25_an_idle_bucket_is_full_when_it_says_so() {
    let mut bucket = Bucket::new(quota(10, 1_000_000, 10), 0);
    assert!(bucket.is_full(0));
    bucket.take(0, 1).unwrap();
    assert_eq!(bucket.full_at(), 100_000);
    assert!(!bucket.is_full(99_999) && bucket.is_full(100_000));
    bucket.take(0, 9).unwrap();
    bucket.reserve(0, 1, 10, MAX).unwrap();
    assert_eq!(bucket.full_at(), 2_000_000);
    bucket.reset(0);
    assert!(bucket.is_full(0));
}
