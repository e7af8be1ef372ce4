//! The bucket against a model in wide integers: the same calls at the same times, the same answers
//! (L3).

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use crate::limit_model::{Call, Model, answer, any_quota, small_quota};
use proptest::prelude::*;
use stanchion_core::limiter::{Bucket, ExactQuota, MAX};

/// A step of the clock, as a share of something the quota makes interesting, and a call.
#[derive(Clone, Copy, Debug)]
struct Step {
    clock: Clock,
    call: Call,
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    Stay,
    Forward(u64),
    Back(u64),
    Periods(u64, u64),
    ToRetry,
    ToFull,
}

fn calls() -> impl Strategy<Value = Call> {
    let cost = || prop_oneof![0_u64..20, any::<u64>()];
    let max_wait = prop_oneof![0_u64..1000, Just(MAX), Just(u64::MAX)];
    prop_oneof![
        3 => cost().prop_map(Call::Take),
        3 => (0_u8..12, cost(), max_wait).prop_map(|(id, cost, max_wait)| Call::Reserve { id, cost, max_wait }),
        2 => (0_u8..12).prop_map(Call::Cancel),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let clock = prop_oneof![
        3 => Just(Clock::Stay),
        2 => (0_u64..50).prop_map(Clock::Forward),
        1 => (0_u32..53).prop_flat_map(|bits| 0..(1_u64 << bits)).prop_map(Clock::Forward),
        1 => any::<u64>().prop_map(Clock::Back),
        2 => (0_u64..40, 0_u64..3).prop_map(|(periods, more)| Clock::Periods(periods, more)),
        2 => Just(Clock::ToRetry),
        1 => Just(Clock::ToFull),
    ];
    prop::collection::vec((clock, calls()).prop_map(|(clock, call)| Step { clock, call }), 1..60)
}

fn moved(now: u64, clock: Clock, quota: &ExactQuota, retry: u64, full: u64) -> u64 {
    let next = match clock {
        Clock::Stay => now,
        Clock::Forward(by) => now.saturating_add(by),
        Clock::Back(to) => to % (now + 1),
        Clock::Periods(periods, more) => {
            now.saturating_add(quota.period().saturating_mul(periods)).saturating_add(more)
        }
        Clock::ToRetry => now.saturating_add(retry),
        Clock::ToFull => now.max(full),
    };
    next.min(MAX)
}

/// Makes every call on both and compares every answer.
fn compare(quota: ExactQuota, start: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut bucket, mut model) = (Bucket::new(quota, start), Model::new(quota, start));
    let (mut now, mut retry) = (start, 0);
    for step in steps {
        now = moved(now, step.clock, &quota, retry, bucket.full_at());
        match step.call {
            Call::Take(cost) => {
                let cost = cost % (quota.burst() + 1);
                let got = answer(bucket.take(now, cost).unwrap());
                prop_assert_eq!(got, model.take(now, cost), "take {} at {}", cost, now);
                retry = got.3.unwrap_or(0);
            }
            Call::Reserve { id, cost, max_wait } => {
                let cost = cost % (quota.burst() + 1);
                let got = bucket.reserve(now, id.into(), cost, max_wait).unwrap();
                let got = got.map(|reserved| (reserved.ready_at, reserved.wait));
                let expected = model.reserve(now, id.into(), cost, max_wait);
                prop_assert_eq!(got, expected, "reserve {} at {}", cost, now);
            }
            Call::Cancel(id) => {
                let refund = bucket.cancel(now, id.into());
                prop_assert_eq!(refund, model.cancel(now, id.into()), "cancel at {}", now);
            }
        }
        prop_assert_eq!(bucket.full_at(), model.full_at());
        prop_assert_eq!(answer(bucket.peek(now)), model.clone().take(now, 0));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l3_small_quotas_agree_with_the_model(quota in small_quota(), steps in steps()) {
        compare(quota, 0, &steps)?;
    }

    #[test]
    fn l11_every_exact_quota_agrees_with_the_model(
        quota in any_quota(),
        start in prop_oneof![Just(0), 0..=MAX],
        steps in steps(),
    ) {
        compare(quota, start, &steps)?;
    }

    #[test]
    fn l3_changed_quotas_agree_with_the_model(
        quotas in prop::collection::vec(prop_oneof![small_quota(), any_quota()], 1..5),
        costs in prop::collection::vec(any::<u64>(), 8),
        gap in prop_oneof![0_u64..100, 0..=MAX / 100],
    ) {
        let (mut bucket, mut model) = (Bucket::new(quotas[0], 0), Model::new(quotas[0], 0));
        let (mut now, mut id) = (0, 0);
        for quota in quotas {
            bucket.set_quota(now, quota);
            model.set_quota(now, quota);
            for cost in &costs {
                let cost = cost % (quota.burst() + 1);
                prop_assert_eq!(answer(bucket.take(now, cost).unwrap()), model.take(now, cost));
                let reserved = bucket.reserve(now, id, cost, MAX).unwrap();
                let expected = model.reserve(now, id, cost, MAX);
                prop_assert_eq!(reserved.map(|reserved| (reserved.ready_at, reserved.wait)), expected);
                prop_assert_eq!(bucket.cancel(now, id / 2), model.cancel(now, id / 2));
                (now, id) = (now + gap, id + 1);
            }
        }
        bucket.reset(now);
        model.reset(now);
        prop_assert_eq!(answer(bucket.peek(now)), model.take(now, 0));
    }
}
