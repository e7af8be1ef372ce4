//! How long many equal things took.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use stanchion::spi::clock::micros;

/// Times of one measure, of which there is one at least.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// In order.
    sorted: Vec<Duration>,
    /// How long the measure took as a whole.
    whole: Duration,
}

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>, whole: Duration) -> Self {
        times.sort_unstable();
        Self { sorted: times, whole }
    }

    /// Returns how many there were in a second.
    fn rate(&self) -> f64 {
        let count = u32::try_from(self.sorted.len()).unwrap_or(u32::MAX);
        f64::from(count) / self.whole.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns the time below which this many of a thousand are.
    fn of_thousand(&self, rank: usize) -> Duration {
        let at = (self.sorted.len() * rank / 1_000).min(self.sorted.len().saturating_sub(1));
        self.sorted.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn value(&self) -> Value {
        let [median, late, last] = [500, 990, 1_000].map(|rank| micros(self.of_thousand(rank)));
        json!({
            "count": self.sorted.len(),
            "per_second": (self.rate() * 10.0).round() / 10.0,
            "p50_us": median,
            "p99_us": late,
            "max_us": last,
        })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, late, last] = [500, 990, 1_000].map(|rank| self.of_thousand(rank).as_secs_f64() * 1e3);
        write!(f, "{:>8.0} a second, p50 {median:.3} ms, p99 {late:.3} ms, max {last:.3} ms", self.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_the_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let times = Times::new(times, Duration::from_secs(4));
        assert_eq!(times.to_string(), "      25 a second, p50 51.000 ms, p99 100.000 ms, max 100.000 ms");
        assert_eq!(times.value()["per_second"], 25.0);
        let one = Times::new(vec![Duration::from_micros(7)], Duration::from_secs(1));
        assert_eq!((&one.value()["p50_us"], &one.value()["max_us"]), (&7.into(), &7.into()));
    }
}
