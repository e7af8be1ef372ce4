//! How large a filter is and how many hashes it takes.

use std::f64::consts::LN_2;
use std::fmt;

use crate::{Error, Result};

/// The sizes that fix the layout of a filter. Two filters of equal shape have the same bits for the
/// same items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    capacity: u64,
    rate_bits: u64,
    bits: u64,
    hashes: u32,
}

impl Shape {
    /// The largest capacity, 2³² items.
    pub const MAX_CAPACITY: u64 = 1 << 32;
    /// The smallest false-positive rate.
    pub const MIN_RATE: f64 = 1e-9;
    /// The largest false-positive rate.
    pub const MAX_RATE: f64 = 0.5;
    /// No filter has more bits, 2³⁸ (32 GiB).
    pub const MAX_BITS: u64 = 1 << 38;
    /// No filter takes more hashes.
    pub const MAX_HASHES: u32 = 64;

    /// The shape for `capacity` items, 1 to 2³², at a false-positive rate of 10⁻⁹ to 0.5.
    ///
    /// # Errors
    /// `InvalidArgument` outside these ranges.
    ///
    /// # Examples
    /// ```
    /// use stanchion_core::bloom::Shape;
    ///
    /// let shape = Shape::new(100_000, 0.01)?;
    /// assert_eq!((shape.bits(), shape.hashes()), (958_528, 7));
    /// # Ok::<(), stanchion_core::Error>(())
    /// ```
    pub fn new(capacity: u64, false_positive_rate: f64) -> Result<Self> {
        check(capacity, false_positive_rate)?;
        let doublings = -ln(false_positive_rate) / LN_2;
        let bits = whole((to_f64(capacity) * doublings / LN_2).ceil()).next_multiple_of(64);
        let hashes = u32::try_from(whole(doublings.round())).unwrap_or(Self::MAX_HASHES).max(1);
        Ok(Self { capacity, rate_bits: false_positive_rate.to_bits(), bits, hashes })
    }

    /// The shape that a store or an export holds.
    ///
    /// # Errors
    /// `InvalidArgument` if it cannot be one: a number out of its range, or bits that are no
    /// multiple of 64.
    pub fn stored(capacity: u64, rate_bits: u64, bits: u64, hashes: u32) -> Result<Self> {
        check(capacity, f64::from_bits(rate_bits))?;
        let possible = (64..=Self::MAX_BITS).contains(&bits) && bits.is_multiple_of(64);
        if !possible || !(1..=Self::MAX_HASHES).contains(&hashes) {
            let detail = format!("no filter has {bits} bits and {hashes} hashes");
            return Err(Error::invalid_argument(detail));
        }
        Ok(Self { capacity, rate_bits, bits, hashes })
    }

    /// The items that it was made for. More may be inserted; the false-positive rate grows then.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The false-positive rate with a number of items in it.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        f64::from_bits(self.rate_bits)
    }

    /// The rate, as the bits of an IEEE double: stores keep it so, and compare it exactly.
    #[must_use]
    pub fn rate_bits(&self) -> u64 {
        self.rate_bits
    }

    /// The bits of the filter, a multiple of 64.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The bytes of the filter.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bits / 8
    }

    /// The positions of each item.
    #[must_use]
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// The part of the bits that is set, 0 to 1.
    #[must_use]
    pub fn fill_ratio(&self, bits_set: u64) -> f64 {
        to_f64(bits_set.min(self.bits)) / to_f64(self.bits)
    }

    /// How many different items were inserted, estimated by the bits that are set: `−m/k·ln(1 −
    /// X/m)` (Swamidass and Baldi 2007). A filter of which every bit is set counts as one with a
    /// single bit left.
    #[must_use]
    pub fn len_estimate(&self, bits_set: u64) -> u64 {
        let (bits, unset) = (to_f64(self.bits), to_f64(self.bits.saturating_sub(bits_set).max(1)));
        whole((-bits / f64::from(self.hashes) * (unset / bits).ln()).round())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, bits, hashes, .. } = self;
        write!(f, "{capacity} items at {:e} ({bits} bits, {hashes} hashes)", self.false_positive_rate())
    }
}

fn check(capacity: u64, rate: f64) -> Result<()> {
    if !(1..=Shape::MAX_CAPACITY).contains(&capacity) {
        let detail = format!("a capacity is between 1 and {}, not {capacity}", Shape::MAX_CAPACITY);
        return Err(Error::invalid_argument(detail));
    }
    if !(Shape::MIN_RATE..=Shape::MAX_RATE).contains(&rate) {
        let (min, max) = (Shape::MIN_RATE, Shape::MAX_RATE);
        let detail = format!("a false-positive rate is between {min:e} and {max}, not {rate}");
        return Err(Error::invalid_argument(detail));
    }
    Ok(())
}

/// The natural logarithm of a normal number, the same to the last bit on every platform: the
/// standard library's is the platform's. `ln(2ᵉ·y) = e·ln 2 + 2·artanh((y − 1)/(y + 1))`.
fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let exponent = i32::try_from(x.to_bits() >> 52).map_or(0, |biased| biased - 1023);
    let y = f64::from_bits((x.to_bits() & FRACTION) | 1.0f64.to_bits());
    let z = (y - 1.0) / (y + 1.0);
    // z is at most 1/3: the 20th term is below 2⁻⁶⁶.
    let series = (0..20).rev().fold(0.0, |sum, term| sum * z * z + 1.0 / f64::from(2 * term + 1));
    f64::from(exponent) * LN_2 + 2.0 * z * series
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_standard_library() {
        for rate in [0.5, 0.3, 0.25, 0.1, 0.01, 1e-3, 1e-4, 1.234e-5, 1e-6, 1e-9] {
            let (ours, theirs) = (ln(rate), rate.ln());
            assert!((ours - theirs).abs() <= theirs.abs() * 4.0 * f64::EPSILON, "{rate}: {ours} {theirs}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_formula() {
        let sizes = |capacity, rate| {
            let shape = Shape::new(capacity, rate).unwrap();
            (shape.bits(), shape.hashes())
        };
        assert_eq!(sizes(1, 0.5), (64, 1));
        assert_eq!(sizes(1000, 0.01), (9600, 7));
        assert_eq!(sizes(100_000, 1e-6), (2_875_520, 20));
        assert_eq!(sizes(1_000_000, 1e-4), (19_170_176, 13));
        let (bits, hashes) = sizes(Shape::MAX_CAPACITY, Shape::MIN_RATE);
        assert!(bits <= Shape::MAX_BITS, "{bits}");
        assert_eq!(hashes, 30);
    }

    #[test]
    fn out_of_range_is_refused() {
        for (capacity, rate) in [
            (0, 0.01),
            (Shape::MAX_CAPACITY + 1, 0.01),
            (1, 0.0),
            (1, 0.51),
            (1, 0.9e-9),
            (1, -0.1),
            (1, f64::NAN),
            (1, f64::INFINITY),
        ] {
            assert!(Shape::new(capacity, rate).is_err(), "{capacity} {rate}");
        }
        let rate = 0.01f64.to_bits();
        for (bits, hashes) in [(0, 7), (63, 7), (96, 7), (Shape::MAX_BITS + 64, 7), (64, 0), (64, 65)] {
            assert!(Shape::stored(1000, rate, bits, hashes).is_err(), "{bits} {hashes}");
        }
        assert_eq!(Shape::stored(1000, rate, 9600, 7).unwrap(), Shape::new(1000, 0.01).unwrap());
    }

    #[test]
    fn estimates_follow_the_bits() {
        let shape = Shape::new(1000, 0.01).unwrap();
        assert_eq!((shape.len_estimate(0), shape.len_estimate(7)), (0, 1));
        // Half of the bits are set at the capacity.
        assert!((950..1000).contains(&shape.len_estimate(4800)), "{}", shape.len_estimate(4800));
        assert_eq!(shape.len_estimate(9600), shape.len_estimate(9599));
        assert!((shape.fill_ratio(4800) - 0.5).abs() < 1e-12);
    }
}
