//! The record of a filter on the wire.

use std::time::Duration;

use stanchion_core::Result;
use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::spi::FilterRecord;

use crate::error::unexpected;
use crate::steps::reply::Reply;

/// Writes terms as "bits hashes capacity rate ttl". Equal terms are equal texts.
pub(super) fn terms(terms: &FilterTerms) -> String {
    let (shape, ttl) = (&terms.shape, terms.ttl_millis().unwrap_or(0));
    let (bits, hashes, capacity) = (shape.bits(), shape.hashes(), shape.capacity());
    format!("{bits} {hashes} {capacity} {:016x} {ttl}", shape.rate_bits())
}

/// Reads terms as they are stored.
///
/// # Errors
/// `Unknown` for a text that no step stores.
pub(super) fn stored(text: &str) -> Result<FilterTerms> {
    parse(text).ok_or_else(unexpected)
}

fn parse(text: &str) -> Option<FilterTerms> {
    let mut words = text.split(' ');
    let bits = words.next()?.parse().ok()?;
    let hashes = words.next()?.parse().ok()?;
    let capacity = words.next()?.parse().ok()?;
    let rate = u64::from_str_radix(words.next()?, 16).ok()?;
    let ttl: u64 = words.next()?.parse().ok()?;
    let shape = Shape::stored(capacity, rate, bits, hashes).ok()?;
    let ttl = (ttl > 0).then(|| Duration::from_millis(ttl));
    words.next().is_none().then_some(FilterTerms { shape, ttl })
}

/// Adds the generation and the end of the record that a caller has seen, as two arguments.
pub(super) fn push_seen(arguments: &mut Vec<Vec<u8>>, seen: Option<&FilterRecord>) {
    let generation = seen.map(|record| record.generation.to_string()).unwrap_or_default();
    let ends = seen.and_then(|record| record.ends).unwrap_or(0);
    arguments.extend([generation, ends.to_string()].map(String::into_bytes));
}

/// Reads a record from an answer, from this place on.
///
/// # Errors
/// `Unknown` for an answer that no step gives.
pub(super) fn read(reply: &Reply, index: usize) -> Result<FilterRecord> {
    record_of(&reply.text(index)?, reply.number(index + 1)?).ok_or_else(unexpected)
}

/// Makes a record of this generation. `ends` is 0 for one that does not end.
pub(super) fn record_of(generation: &str, ends: u64) -> Option<FilterRecord> {
    Some(FilterRecord { generation: generation.parse().ok()?, ends: (ends > 0).then_some(ends) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b5_terms_are_read_as_they_were_written() {
        for (capacity, rate, ttl) in [(1, 0.5, None), (100_000, 1e-6, Some(Duration::from_millis(1_500)))] {
            let made = FilterTerms { shape: Shape::new(capacity, rate).unwrap(), ttl };
            assert_eq!(parse(&terms(&made)), Some(made));
        }
        assert_eq!(
            terms(&FilterTerms { shape: Shape::new(1_000, 0.01).unwrap(), ttl: None }),
            "9600 7 1000 3f847ae147ae147b 0"
        );
        for text in
            ["", "9600 7 1000 3f847ae147ae147b", "9600 7 1000 3f847ae147ae147b 0 1", "9601 7 1000 1 0"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
