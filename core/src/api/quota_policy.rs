//! What an answer over HTTP says of a limit.

use std::time::Duration;

use super::decision::whole_seconds;
use crate::{DecidedBy, Decision, Error, Quota, Result};

/// Maximum window that a policy states, in seconds.
const DAY: u64 = 24 * 60 * 60;
/// A second, in µs.
const SECOND: u64 = 1_000_000;
/// The largest integer of structured fields (RFC 9651, section 3.3.1).
const LARGEST: u64 = 999_999_999_999_999;
/// Maximum length of a name or unit, in bytes.
const LONGEST: usize = 128;

/// A limit as the HTTP fields `RateLimit-Policy` and `RateLimit` name it, as of
/// [draft-ietf-httpapi-ratelimit-headers-10]: its name, and what a token stands for. An answer that
/// several limits had a say in has one item of each in both fields.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// # let store = stanchion::connect("memory:").await?;
/// use stanchion::{LimiterOptions, Quota, QuotaPolicy};
///
/// let quota = Quota::per_minute(60).burst(10);
/// let decision = store.limiter("partner", LimiterOptions::new(quota))?.allow_n(4).await?;
/// let fields = QuotaPolicy::new("partner")?.fields(&quota, &decision);
/// assert_eq!(fields[0], ("ratelimit-policy", "\"partner\";q=60;w=60".to_owned()));
/// assert_eq!(fields[1], ("ratelimit", "\"partner\";r=6;t=1".to_owned()));
/// # Ok(())
/// # }
/// ```
///
/// [draft-ietf-httpapi-ratelimit-headers-10]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuotaPolicy {
    /// A structured field's string, with its quotation marks.
    name: String,
    /// `qu` and its value, or nothing.
    unit: String,
}

impl QuotaPolicy {
    /// Makes a policy by its name, whose tokens are requests.
    ///
    /// # Errors
    /// `InvalidArgument` unless the name is 1 to 128 characters of printable ASCII.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self { name: string(name)?, unit: String::new() })
    }

    /// Sets what a token stands for where it is no request: `content-bytes` and
    /// `concurrent-requests` are the draft's, any other word is one that clients have agreed on.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is 1 to 128 characters of printable ASCII.
    pub fn unit(mut self, unit: &str) -> Result<Self> {
        self.unit = format!(";qu={}", string(unit)?);
        Ok(self)
    }

    /// Returns the name as a string of structured fields, which is one of JSON as well: with
    /// quotation marks.
    #[must_use]
    pub fn quoted_name(&self) -> &str {
        &self.name
    }

    /// Returns the `t` of [`fields`](Self::fields): the number of seconds, rounded up, until there
    /// is more; `None` if there is no more to come.
    #[must_use]
    pub fn more_after_secs(&self, quota: &Quota, decision: &Decision) -> Option<u64> {
        let seconds = whole_seconds(next_token(quota, decision)?).max(1);
        // What was refused needs at least one token more.
        Some(decision.retry_after_secs().map_or(seconds, |retry| seconds.min(retry)))
    }

    /// Returns the fields `ratelimit-policy` and `ratelimit` of an answer, with `retry-after` for a
    /// refusal. `quota` is that of the limiter, of which a decision has only the burst.
    ///
    /// The policy states the quota and its window: `q=50;w=1` for 50 tokens a second. If the period
    /// is no whole number of seconds, the window is the shortest one of whole seconds in which
    /// whole tokens come; with a larger burst it is as many windows as the burst needs,
    /// `q=100;w=2`. It is left out if it is longer than a day, and `q` is the burst then. `r` is
    /// what could be taken at once, never more than `q`, and `t` in how many seconds, rounded up,
    /// there is more; without `t`, there is no more to come. `Retry-After` is never before it. No
    /// number is larger than those of structured fields, 999,999,999,999,999. Where an outage
    /// policy has admitted without counting, nothing is known of the rest, and the policy stands
    /// alone.
    ///
    /// Where another quota than the given one has decided (that of another instance, or the share
    /// of an outage policy), `t` is the mean time for a token, as the decision tells it.
    #[must_use]
    pub fn fields(&self, quota: &Quota, decision: &Decision) -> Vec<(&'static str, String)> {
        let Self { name, unit } = self;
        let (tokens, window) = match window(quota) {
            Some((tokens, seconds)) => (tokens, format!(";w={seconds}")),
            None => (quota.burst_tokens().min(LARGEST), String::new()),
        };
        let rest = decision.remaining.min(tokens);
        let more =
            self.more_after_secs(quota, decision).map(|seconds| format!(";t={}", seconds.min(LARGEST)));
        let mut fields = vec![("ratelimit-policy", format!("{name};q={tokens}{window}{unit}"))];
        if decision.decided_by != DecidedBy::OutagePolicy || more.is_some() {
            fields.push(("ratelimit", format!("{name};r={rest}{}", more.unwrap_or_default())));
        }
        fields.extend(decision.retry_after_secs().map(|seconds| ("retry-after", seconds.to_string())));
        fields
    }
}

/// Returns the time until one more token could be taken; `None` if the bucket is full.
fn next_token(quota: &Quota, decision: &Decision) -> Option<Duration> {
    let Decision { limit, remaining, reset_after, .. } = *decision;
    let missing = limit.checked_sub(remaining).filter(|missing| *missing > 0)?;
    let micros = reset_after.as_micros();
    let of_others = u128::from(missing - 1).saturating_mul(quota.period().as_micros());
    let of_others = of_others / u128::from(quota.amount()).max(1);
    let mean = micros.div_ceil(missing.into());
    let next = micros.checked_sub(of_others).filter(|next| *next > 0).unwrap_or(mean);
    // In debt, as only a refused caller's bucket is, the first token takes longer than the others.
    let next = if decision.allowed { next.min(mean) } else { next };
    Some(Duration::from_micros(u64::try_from(next).unwrap_or(u64::MAX)))
}

/// The period, if that is whole seconds, else the shortest window of whole seconds in which a whole
/// number of tokens comes, with that number; as often as it takes for the burst. `None` if it is
/// longer than a day, or the number has no place in a field.
fn window(quota: &Quota) -> Option<(u64, u64)> {
    let second = u128::from(SECOND);
    let (amount, period) = (u128::from(quota.amount()), quota.period().as_micros());
    let seconds = match period {
        0 => return None,
        _ if period.is_multiple_of(second) => period / second,
        _ => period / gcd(period, amount * second),
    };
    let tokens = amount.checked_mul(seconds)?.checked_mul(second)? / period;
    let times = u128::from(quota.burst_tokens()).div_ceil(tokens.max(1)).max(1);
    let (tokens, seconds) = (tokens.checked_mul(times)?, seconds.checked_mul(times)?);
    let window = (u64::try_from(tokens).ok()?, u64::try_from(seconds).ok()?);
    (window.1 <= DAY && (1..=LARGEST).contains(&window.0)).then_some(window)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns a text as a string of structured fields (RFC 9651, section 4.1.6).
fn string(text: &str) -> Result<String> {
    if text.is_empty() || text.len() > LONGEST || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        let detail = format!(
            "a name or unit in RateLimit fields has 1 to {LONGEST} characters of printable ASCII, not {}",
            Error::shown(text)
        );
        return Err(Error::invalid_argument(detail));
    }
    Ok(format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_period_or_the_shortest_one_of_whole_seconds() {
        let quota = |amount, micros| Quota::per(amount, Duration::from_micros(micros)).burst(1);
        let window = |amount, micros| window(&quota(amount, micros));
        assert_eq!(window(50, 1_000_000), Some((50, 1)));
        assert_eq!(window(60, 60_000_000), Some((60, 60)));
        assert_eq!(window(3, 500_000), Some((6, 1)));
        assert_eq!(window(1, 1_500_000), Some((2, 3)));
        assert_eq!(window(1, 7), Some((1_000_000, 7)));
        assert_eq!(window(1, 2 * DAY * 1_000_000), None);
        assert_eq!(window(LARGEST + 1, 1_000_000), None);
        assert_eq!(window(0, 1_000_000), None);
    }

    /// The fields of a bucket with that rest, which is full after that time.
    fn fields(quota: &Quota, remaining: u64, full: u64, retry: Option<u64>) -> Vec<String> {
        let retry = retry.map(Duration::from_millis);
        let decision = Decision::new(quota.burst_tokens(), remaining, retry, Duration::from_millis(full));
        let fields = QuotaPolicy::new("a").unwrap().fields(quota, &decision);
        fields.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn the_time_is_that_of_the_next_token() {
        let quota = Quota::per_minute(6).burst(5);
        for (remaining, full, retry, state) in [
            (5, 0, None, "\"a\";r=5"),
            (4, 9_001, None, "\"a\";r=4;t=10"),
            (2, 20_000 + 300, None, "\"a\";r=2;t=1"),
            (0, 40_000 + 7_200, None, "\"a\";r=0;t=8"),
            // Three tokens are asked for, one comes sooner.
            (0, 40_000 + 7_200, Some(27_200), "\"a\";r=0;t=8"),
            // A remembered refusal may know less of the bucket.
            (0, 50_000, Some(6_100), "\"a\";r=0;t=7"),
        ] {
            assert_eq!(fields(&quota, remaining, full, retry)[1], state);
        }
        let refused = fields(&quota, 0, 47_200, Some(27_200));
        assert_eq!(refused[2], "28");
    }

    #[test]
    fn the_rest_is_no_more_than_the_quota_and_numbers_are_those_of_structured_fields() {
        for (quota, policy) in [
            (Quota::per_second(50).burst(100), "\"a\";q=100;w=2"),
            (Quota::per_second(50).burst(101), "\"a\";q=150;w=3"),
            (Quota::per(1, Duration::from_secs(10)).burst(5), "\"a\";q=5;w=50"),
            (Quota::per_hour(1).burst(25), "\"a\";q=25"),
        ] {
            let rest = format!("\"a\";r={}", quota.burst_tokens());
            assert_eq!(fields(&quota, quota.burst_tokens(), 0, None), [policy.to_owned(), rest]);
        }
        let huge = Quota::per(u64::MAX, Duration::from_secs(1)).burst(u64::MAX);
        let largest = format!("\"a\";q={LARGEST}");
        assert_eq!(fields(&huge, u64::MAX, 0, None), [largest, format!("\"a\";r={LARGEST}")]);
    }

    /// The bucket of another rate, or a share of it, has decided.
    #[test]
    fn the_time_is_the_mean_one_where_another_quota_has_decided() {
        let policy = QuotaPolicy::new("a").unwrap();
        for (quota, limit, full, more) in [
            (Quota::per_hour(100), 50, 3_600, 72),
            (Quota::per_second(10), 10, 60, 6),
            (Quota::per_hour(4).burst(40), 40, 3_600, 90),
        ] {
            let decision = Decision::new(limit, 0, None, Duration::from_secs(full));
            assert_eq!(policy.more_after_secs(&quota, &decision), Some(more), "{quota}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_rest_that_nobody_counted() {
        let mut open = Decision::new(9, 9, None, Duration::ZERO);
        open.decided_by = DecidedBy::OutagePolicy;
        let fields = QuotaPolicy::new("a").unwrap().fields(&Quota::per_second(9), &open);
        assert_eq!(fields, [("ratelimit-policy", "\"a\";q=9;w=1".to_owned())]);
        // A share is counted.
        (open.remaining, open.reset_after) = (8, Duration::from_millis(100));
        assert_eq!(QuotaPolicy::new("a").unwrap().fields(&Quota::per_second(9), &open).len(), 2);
    }

    #[test]
    fn names_are_strings_of_structured_fields() {
        let policy = |name| QuotaPolicy::new(name).map(|policy| policy.quoted_name().to_owned());
        assert_eq!(policy("api/").unwrap(), "\"api/\"");
        assert_eq!(policy(r#"a "b" \c"#).unwrap(), r#""a \"b\" \\c""#);
        for wrong in ["", "a\n", "ä", &"x".repeat(LONGEST + 1)] {
            policy(wrong).unwrap_err();
        }
        let (quota, full) = (Quota::per_second(9), Decision::new(9, 9, None, Duration::ZERO));
        let policy = QuotaPolicy::new("a").unwrap().unit("content-bytes").unwrap();
        assert_eq!(policy.fields(&quota, &full)[0].1, "\"a\";q=9;w=1;qu=\"content-bytes\"");
    }
}
