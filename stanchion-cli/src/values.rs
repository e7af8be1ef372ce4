//! Values on the command line.

use std::env;
use std::fs;
use std::process;
use std::time::Duration;

use stanchion::{ListOptions, Name, Quota, SemaphoreOptions, Ttl};

const MIN_TTL: Duration = Duration::from_secs(2);
/// Maximum length of a label, in bytes.
const MAX_LABEL: usize = 512;
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_PERIOD: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Reads the name of an object.
pub(crate) fn name(text: &str) -> Result<String, String> {
    Name::new(text)
        .map(|name| name.as_str().to_owned())
        .map_err(|_| "a name has 1 to 512 bytes and no NUL".to_owned())
}

/// Reads the label of a hold, or of the user that frees it.
pub(crate) fn label(text: &str) -> Result<String, String> {
    let is_short = text.len() <= MAX_LABEL;
    if is_short { Ok(text.to_owned()) } else { Err(format!("a label has at most {MAX_LABEL} bytes")) }
}

/// Reads the beginning of names.
pub(crate) fn prefix(text: &str) -> Result<String, String> {
    let checked = ListOptions::new().prefix(text).check();
    checked.map(|()| text.to_owned()).map_err(|_| format!("a prefix has at most {} bytes", Name::MAX_BYTES))
}

/// Reads the number of permits of a semaphore.
pub(crate) fn permits(text: &str) -> Result<u32, String> {
    let max = SemaphoreOptions::MAX_PERMITS;
    let permits = text.parse().ok().filter(|permits| (1..=max).contains(permits));
    permits.ok_or_else(|| format!("the number of permits is between 1 and {max}"))
}

/// Reads the lease of a member, which nobody renews.
pub(crate) fn member_ttl(text: &str) -> Result<Duration, String> {
    let ttl = time(text)?;
    Ttl::new(ttl).map(|_| ttl).map_err(|_| "the time of a member is between 100ms and 24h".to_owned())
}

/// Reads a length of time. A number without a unit is seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = text.parse().ok().filter(|_| is_number(text));
    if let Some(seconds) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        return Ok(seconds);
    }
    if text.split(|c: char| !c.is_alphabetic()).any(|unit| unit == "M") {
        return Err("1m is a minute, and a month is written out, as 1month: M is neither".to_owned());
    }
    humantime::parse_duration(text).map_err(|_| "a time is written like 500ms, 30s, 5m or 1h 30m".to_owned())
}

/// Reads the time in which a command runs once.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let period = time(text)?;
    let is_sensible = (Duration::from_secs(1)..=MAX_PERIOD).contains(&period);
    if is_sensible {
        Ok(period)
    } else {
        Err("the time in which it runs once is between 1s and 366 days".to_owned())
    }
}

/// Reads the lease of a command's hold: long enough to end the command within it.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = time(text)?;
    if (MIN_TTL..=MAX_TTL).contains(&ttl) { Ok(ttl) } else { Err("a lease is between 2s and 24h".to_owned()) }
}

/// Reads the time between two looks at a store.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let is_sensible = (Duration::from_millis(200)..=Duration::from_secs(3600)).contains(&time);
    if is_sensible { Ok(time) } else { Err("the time between two looks is between 200ms and 1h".to_owned()) }
}

/// Reads how long an idle connection lives.
pub(crate) fn idle_timeout(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let is_sensible = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time);
    if is_sensible { Ok(time) } else { Err("the time of an idle connection is between 1s and 1h".to_owned()) }
}

/// Reads a number of connections.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| "the number of connections is between 1 and 100000".to_owned())
}

/// Returns a label: the host, this process, and a purpose.
pub(crate) fn label_of(what: &str) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let label = format!("{} {} {what}", host.trim(), process::id());
    let end = (0..=MAX_LABEL.min(label.len())).rev().find(|&at| label.is_char_boundary(at));
    label[..end.unwrap_or_default()].trim_end().to_owned()
}

/// Returns the label of a user that frees a lock with this program.
pub(crate) fn operator() -> String {
    label_of(&env::var("USER").unwrap_or_default())
}

/// A rate, such as `50/s` or `10/1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    amount: u64,
    period: Duration,
}

impl Rate {
    pub(crate) fn quota(self, burst: Option<u64>) -> Quota {
        let quota = Quota::per(self.amount, self.period);
        burst.map_or(quota, |burst| quota.burst(burst))
    }
}

/// Reads a rate.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "a rate is written like 50/s, 100/min or 10/500ms".to_owned();
    let (amount, period) = text.split_once('/').ok_or_else(wrong)?;
    let amount = amount.trim().parse().map_err(|_| wrong())?;
    let period = period.trim();
    // A unit alone is one of it.
    let period = match period.chars().next() {
        None => return Err(wrong()),
        Some('0'..='9') => time(period),
        Some(_) => time(&format!("1{period}")),
    };
    Ok(Rate { amount, period: period.map_err(|_| wrong())? })
}

/// Returns a length of time as people read it: whole seconds, or milliseconds if it is shorter.
pub(crate) fn rounded(time: Duration) -> humantime::FormattedDuration {
    let time = match time.as_secs() {
        0 => Duration::from_millis(u64::from(time.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    };
    humantime::format_duration(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        for (text, amount, millis) in
            [("50/s", 50, 1_000), ("100/min", 100, 60_000), ("7/1h", 7, 3_600_000), ("1 / 500ms", 1, 500)]
        {
            assert_eq!(rate(text), Ok(Rate { amount, period: Duration::from_millis(millis) }), "{text}");
        }
        for wrong in ["", "50", "/s", "50/", "x/s", "50/parsec", "-1/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_is_seconds_and_a_month_is_no_minute() {
        for (text, millis) in
            [("30", 30_000), ("0", 0), ("0.5", 500), ("1m", 60_000), ("1h 30m", 5_400_000), ("2min", 120_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(time("1month").unwrap() > Duration::from_secs(30 * 24 * 3_600));
        for wrong in ["1M", "1h 30M", "", ".", "-1", "1e3", "inf", "1 parsec"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert!(time("1M").unwrap_err().contains("month"));
        assert!(period("1s").is_ok() && period("366d").is_ok());
        assert!(period("999ms").is_err() && period("367d").is_err());
    }

    #[test]
    fn a_lease_leaves_time_to_end_a_command() {
        assert_eq!(ttl("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["1s", "1999ms", "25h", "0s", "x", ""] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_and_numbers_are_checked() {
        let [longest, long] = [512, 513].map(|length| "x".repeat(length));
        assert_eq!(name("a b"), Ok("a b".to_owned()));
        assert!(name("").is_err() && name(&long).is_err());
        assert!(label(&longest).is_ok() && label(&long).is_err());
        assert!(prefix("").is_ok() && prefix(&longest).is_ok() && prefix(&long).is_err());
        assert_eq!((permits("1"), permits("2147483647")), (Ok(1), Ok(i32::MAX.unsigned_abs())));
        for wrong in ["0", "-1", "2147483648", "4294967295", "18446744073709551615", "1e3", ""] {
            assert!(permits(wrong).is_err(), "{wrong}");
        }
        assert!(member_ttl("100ms").is_ok() && member_ttl("99ms").is_err() && member_ttl("25h").is_err());
    }
}
