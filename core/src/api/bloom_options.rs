//! The options of a Bloom filter.

use std::time::Duration;

use crate::bloom::{FilterTerms, Shape};
use crate::{Error, OnMismatch, Result};

/// Minimum time to live of a filter.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Maximum time to live of a filter: 10 years.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Options of a Bloom filter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BloomOptions {
    /// Number of different items that the filter is made for, 1 to 2³².
    pub capacity: u64,
    /// Fraction of other items that a full filter reports as contained, 10⁻⁹ to 0.5.
    pub false_positive_rate: f64,
    /// Time to live, 1 s to 10 years. `None`: until it is cleared.
    pub ttl: Option<Duration>,
    /// Reaction if the store's parameters differ.
    pub on_mismatch: OnMismatch,
}

impl BloomOptions {
    /// Makes options of a filter for `capacity` different items, 1 to 2³², at that false-positive
    /// rate, 10⁻⁹ to 0.5.
    #[must_use]
    pub fn new(capacity: u64, false_positive_rate: f64) -> Self {
        Self { capacity, false_positive_rate, ttl: None, on_mismatch: OnMismatch::default() }
    }

    /// Sets the time to live, 1 s to 10 years, counted from the first insert by the store's clock:
    /// the whole filter ends at that instant ([B5]). Fractions of a millisecond are ignored.
    ///
    /// [B5]: crate::contract#b5
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the reaction if the store's capacity, rate or time to live differs ([C20]). `Replace`
    /// is refused: the items cannot be recovered from the bits. Clear the filter instead.
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        self.terms().map(drop)
    }

    /// Returns the checked parameters.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn terms(&self) -> Result<FilterTerms> {
        let shape = Shape::new(self.capacity, self.false_positive_rate)?;
        if self.on_mismatch == OnMismatch::Replace {
            let detail =
                "a filter's parameters cannot be replaced, its bits would mean nothing; clear it instead";
            return Err(Error::invalid_argument(detail));
        }
        if self.ttl.is_some_and(|ttl| !(MIN_TTL..=MAX_TTL).contains(&ttl)) {
            return Err(Error::invalid_argument("the ttl of a filter is between 1 s and 10 years"));
        }
        let whole = |ttl: Duration| Duration::new(ttl.as_secs(), ttl.subsec_millis() * 1_000_000);
        Ok(FilterTerms { shape, ttl: self.ttl.map(whole) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn options_out_of_range_are_refused() {
        let good = || BloomOptions::new(1000, 0.01);
        for bad in [
            BloomOptions::new(0, 0.01),
            BloomOptions::new(1000, 1.0),
            good().ttl(Duration::from_millis(999)),
            good().ttl(MAX_TTL + Duration::from_millis(1)),
            good().on_mismatch(OnMismatch::Replace),
        ] {
            assert_eq!(bad.check().unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
        }
        let terms = good().ttl(Duration::from_micros(1_500_700)).terms().unwrap();
        assert_eq!(terms.ttl_millis(), Some(1500));
        assert!(good().ttl(MIN_TTL).check().is_ok() && good().ttl(MAX_TTL).check().is_ok());
    }
}
