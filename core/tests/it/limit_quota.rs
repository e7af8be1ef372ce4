//! Which quotas are exact, and what the others are told (L11).

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use std::time::Duration;

use stanchion_core::ErrorKind;
use stanchion_core::limiter::{MAX, Quota};

const BOUND: u64 = 1 << 53;

fn micros(amount: u64, period: u64) -> Quota {
    Quota::per(amount, Duration::from_micros(period)).burst(1)
}

fn refusal(quota: Quota) -> String {
    let error = quota.validate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.to_string()
}

#[test]
fn l11_the_bound_is_on_the_reduced_product() {
    let exact = [
        (Quota::per_second(10), 1, 100_000),
        (Quota::per_second(3), 3, 1_000_000),
        (Quota::per_minute(60), 1, 1_000_000),
        (Quota::per_hour(1000), 1, 3_600_000),
        (Quota::per(1, Duration::from_secs(86_400 * 365)), 1, 31_536_000_000_000),
        (Quota::per_second(9_007_199_253), 9_007_199_253, 1_000_000),
        (micros(1, MAX), 1, MAX),
        (micros(MAX, 1), MAX, 1),
        (micros(6 * MAX, 6), MAX, 1),
        (micros(6, 6 * MAX), 1, MAX),
        (micros(94_906_265, 94_906_264), 94_906_265, 94_906_264),
    ];
    for (quota, amount, period) in exact {
        let reduced = quota.burst(7).validate().unwrap();
        assert_eq!((reduced.amount(), reduced.period(), reduced.burst()), (amount, period, 7), "{quota}");
    }
}

#[test]
fn l11_an_inexact_quota_is_told_the_nearest_exact_one() {
    let table = [
        (micros(1, BOUND), "1 per 9007199254740991 µs"),
        (micros(BOUND, 1), "9007199254740991 per 1 µs"),
        (micros(u64::MAX, 1), "9007199254740991 per 1 µs"),
        (Quota::per(1, Duration::from_secs(u64::MAX)), "1 per 9007199254740991 µs"),
        (micros(94_906_267, 94_906_266), "94906266 per 94906265 µs"),
        (micros(1_000_003, 10_000_000_019), "731799 per 7317968060 µs"),
        (Quota::per_second(9_007_199_257), "8614422319 per 956393 µs"),
    ];
    for (quota, nearest) in table {
        let text = refusal(quota.burst(5));
        assert!(text.contains("below 2^53 (9007199254740992)"), "{text}");
        assert!(text.ends_with(&format!("the nearest exact one is {nearest}")), "{text}");
    }
}

#[test]
fn l11_zero_and_out_of_range_parts_are_refused() {
    assert!(refusal(micros(0, 1)).contains("amount"));
    assert!(refusal(micros(1, 0)).contains("period"));
    assert!(refusal(Quota::per(1, Duration::from_nanos(1500))).contains("period"));
    assert!(refusal(Quota::per_second(1).burst(0)).contains("burst"));
    assert!(refusal(Quota::per_second(1).burst(BOUND)).contains("burst"));
    assert!(Quota::per_second(1).burst(BOUND - 1).validate().is_ok());
}

#[test]
fn l9_a_cost_is_at_most_the_burst() {
    let quota = Quota::per_second(1).burst(5).validate().unwrap();
    assert!(quota.check_cost(0).is_ok() && quota.check_cost(5).is_ok());
    let text = quota.check_cost(6).unwrap_err().to_string();
    assert!(text.contains("cost of 6") && text.contains("burst of 5"), "{text}");
}

#[test]
fn equal_rates_are_equal_once_reduced() {
    let (a, b) = (Quota::per_second(1).burst(60), Quota::per_minute(60));
    assert_ne!(a, b);
    assert_eq!(a.validate().unwrap(), b.validate().unwrap());
    assert_eq!(b.to_string(), "60 per 60s, burst 60");
    assert_eq!((b.amount(), b.period(), b.burst_tokens()), (60, Duration::from_secs(60), 60));
}

#[test]
fn c20_a_stored_quota_is_told_in_the_unit_of_its_writer() {
    for (quota, text) in [
        (Quota::per_second(6), "6 per second, burst 6"),
        (Quota::per(3, Duration::from_millis(500)), "6 per second, burst 3"),
        (Quota::per_minute(7), "7 per minute, burst 7"),
        (Quota::per_hour(1).burst(5), "1 per hour, burst 5"),
        (Quota::per(1, Duration::from_secs(24 * 60 * 60)), "1 per day, burst 1"),
        (Quota::per(5, Duration::from_micros(7)), "5 per 7 µs, burst 5"),
    ] {
        assert_eq!(quota.validate().unwrap().to_string(), text);
    }
}
