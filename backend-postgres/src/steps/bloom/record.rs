//! Conversions of a filter's record.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Uuid;
use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::spi::FilterRecord;
use stanchion_core::{Error, Result};

use crate::error::unexpected;
use crate::steps::call::{column, ticket, uuid};

/// Returns the terms as "CAPACITY RATE BITS HASHES TTL", the form that the SQL functions keep and
/// compare.
pub(super) fn text(terms: &FilterTerms) -> String {
    let shape = &terms.shape;
    let (capacity, rate, bits, hashes) = (shape.capacity(), shape.rate_bits(), shape.bits(), shape.hashes());
    match terms.ttl_millis() {
        Some(ttl) => format!("{capacity} {rate} {bits} {hashes} {ttl}"),
        None => format!("{capacity} {rate} {bits} {hashes} -"),
    }
}

fn parse(text: &str) -> Option<FilterTerms> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (capacity, rate, bits, hashes) = (number()?, number()?, number()?, number()?);
    let ttl = match words.next()? {
        "-" => None,
        millis => Some(Duration::from_millis(millis.parse().ok()?)),
    };
    let shape = Shape::stored(capacity, rate, bits, u32::try_from(hashes).ok()?).ok()?;
    words.next().is_none().then_some(FilterTerms { shape, ttl })
}

/// Returns the time to live in milliseconds.
///
/// # Errors
/// `InvalidArgument` for a time that is too long for the server's numbers.
pub(super) fn ttl(terms: &FilterTerms) -> Result<Option<i64>> {
    terms.ttl_millis().map(millis).transpose()
}

/// Returns the generation that a caller has seen.
pub(super) fn generation(seen: Option<FilterRecord>) -> Option<Uuid> {
    seen.map(|record| uuid(record.generation))
}

/// Returns when the generation that a caller has seen ends.
///
/// # Errors
/// As [`ttl`].
pub(super) fn ends(seen: Option<FilterRecord>) -> Result<Option<i64>> {
    seen.and_then(|record| record.ends).map(millis).transpose()
}

fn millis(number: u64) -> Result<i64> {
    let long = |error| Error::invalid_argument("a time that is too long").with_source(error);
    i64::try_from(number).map_err(long)
}

/// Reads the code of an answer, in its first column.
///
/// # Errors
/// `Unknown` for an answer that no step gives, as in the functions below.
pub(super) fn code(row: &PgRow) -> Result<u8> {
    column::<i8>(row, 0).map(i8::cast_unsigned)
}

/// Reads the record in this column and the next; `None` if there is none.
pub(super) fn read(row: &PgRow, index: usize) -> Result<Option<FilterRecord>> {
    let Some(generation) = column::<Option<Uuid>>(row, index)? else { return Ok(None) };
    let ends = column::<Option<i64>>(row, index + 1)?.map(number).transpose()?;
    Ok(Some(FilterRecord { generation: ticket(generation), ends }))
}

/// Reads the terms in this column.
pub(super) fn terms(row: &PgRow, index: usize) -> Result<FilterTerms> {
    let stored: Option<&str> = column(row, index)?;
    stored.and_then(parse).ok_or_else(unexpected)
}

pub(super) fn number(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| unexpected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b5_terms_are_read_as_they_were_written() {
        for (capacity, rate, ttl) in [(1, 0.5, None), (1 << 32, 1e-9, Some(Duration::from_millis(1_500)))] {
            let terms = FilterTerms { shape: Shape::new(capacity, rate).unwrap(), ttl };
            assert_eq!(parse(&text(&terms)), Some(terms));
        }
        let terms = FilterTerms { shape: Shape::new(1_000, 0.01).unwrap(), ttl: None };
        let written = text(&terms);
        assert_eq!(written, "1000 4576918229304087675 9600 7 -");
        for foreign in
            ["", "1000 4576918229304087675 9600 7", "1000 4576918229304087675 9600 0 -", "a b c d -"]
        {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
        assert_eq!(parse(&format!("{written} 1")), None);
    }
}
