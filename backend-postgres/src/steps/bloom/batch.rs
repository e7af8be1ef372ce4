//! A request of calls on Bloom filters: its arguments, which are the bits of each part by page, and
//! its answer.

use sqlx::postgres::PgRow;
use stanchion_core::spi::{Answers, Probe, Probed, RequestId};
use stanchion_core::{Error, Result};

use super::group::{CallGroup, Part, PartAnswer};
use super::{PAGE_BITS, piece, record};
use crate::error::unexpected;
use crate::steps::call::{StatementArguments, column, uuid};

/// The calls of a request by name, the order in which rows are locked.
#[derive(Debug)]
pub(super) struct BloomBatch<'a> {
    groups: Vec<CallGroup<'a>>,
    count: usize,
}

/// The bits of all parts, in the form of the SQL functions.
#[derive(Debug, Default)]
struct Bits {
    pages: Vec<i32>,
    /// The number of pairs up to the end of each page.
    upto: Vec<i32>,
    /// `item · PAGE_BITS + bit of the page`
    pairs: Vec<i32>,
    /// The number of pages up to the end of each part.
    runs: Vec<i32>,
}

impl<'a> BloomBatch<'a> {
    /// Sorts calls by name. The calls of a name stay in order.
    pub(super) fn of(calls: &'a [Probe]) -> Self {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|index| &calls[*index].of.object.name);
        let alike = |one: &usize, next: &usize| {
            let (one, next) = (&calls[*one].of, &calls[*next].of);
            one.object == next.object && one.terms == next.terms && one.seen == next.seen
        };
        let groups = order.chunk_by(alike).filter_map(|places| CallGroup::of(calls, places)).collect();
        Self { groups, count: calls.len() }
    }

    /// Returns the parts in the order in which they are executed.
    fn parts(&self) -> Vec<(&CallGroup<'a>, char, &Part)> {
        let mut parts = Vec::with_capacity(2 * self.groups.len());
        for group in &self.groups {
            parts.extend(group.contains.iter().map(|part| (group, 'c', part)));
            parts.extend(group.inserts.iter().map(|part| (group, 'i', part)));
        }
        parts
    }

    /// Adds the arguments of `bloom_probe` after the namespace.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that no request or filter has.
    pub(super) fn encode(&self, arguments: StatementArguments, id: RequestId) -> Result<StatementArguments> {
        let parts = self.parts();
        let mut bits = Bits::default();
        for (.., part) in &parts {
            bits.push(part)?;
        }
        let names: Vec<_> = parts.chunk_by(|(one, ..), (next, ..)| one.of.object == next.of.object).collect();
        let sizes = names.iter().map(|parts| small(parts.len()));
        let counts = parts.iter().map(|(.., part)| small(part.items));
        let ttls = parts.iter().map(|(group, ..)| record::ttl(&group.of.terms));
        let ends = parts.iter().map(|(group, ..)| record::ends(group.of.seen));
        let kinds = parts.iter().map(|(_, kind, _)| if *kind == 'i' { b'i' } else { b'c' }.cast_signed());
        Ok(arguments
            .with(uuid(id.sequence))
            .with(i64::try_from(id.number).unwrap_or(i64::MAX))
            .with(names.iter().map(|parts| parts[0].0.of.object.name.as_str()).collect::<Vec<_>>())
            .with(sizes.collect::<Result<Vec<_>>>()?)
            .with(kinds.collect::<Vec<_>>())
            .with(parts.iter().map(|(group, ..)| record::text(&group.of.terms)).collect::<Vec<_>>())
            .with(ttls.collect::<Result<Vec<_>>>()?)
            .with(parts.iter().map(|(group, ..)| record::generation(group.of.seen)).collect::<Vec<_>>())
            .with(ends.collect::<Result<Vec<_>>>()?)
            .with(parts.iter().map(|(group, ..)| uuid(group.fresh)).collect::<Vec<_>>())
            .with(counts.collect::<Result<Vec<_>>>()?)
            .with(bits.runs)
            .with(bits.pages)
            .with(bits.upto)
            .with(bits.pairs))
    }

    /// Reads the answer to each call from the rows of `bloom_probe`.
    ///
    /// # Errors
    /// `Unknown` for rows that the function does not answer.
    pub(super) fn decode(&self, rows: &[PgRow]) -> Result<Answers<Probed>> {
        let mut read = rows.iter().map(part_answer).collect::<Result<Vec<_>>>()?.into_iter();
        let mut answers: Vec<Option<Result<Probed>>> = (0..self.count).map(|_| None).collect();
        for group in &self.groups {
            let contains = group.contains.as_ref().and_then(|_| read.next());
            let inserts = group.inserts.as_ref().and_then(|_| read.next());
            for (index, answer) in group.answers(contains.as_ref(), inserts.as_ref()) {
                answers[index] = Some(answer);
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect())
    }
}

impl Bits {
    fn push(&mut self, part: &Part) -> Result<()> {
        for bits in part.bits.chunk_by(|(one, _), (next, _)| one / PAGE_BITS == next / PAGE_BITS) {
            self.pages.push(piece::page(bits[0].0 / PAGE_BITS)?);
            for (position, item) in bits {
                self.pairs.push(pair(*item, *position)?);
            }
            self.upto.push(small(self.pairs.len())?);
        }
        self.runs.push(small(self.pages.len())?);
        Ok(())
    }
}

fn pair(item: usize, position: u64) -> Result<i32> {
    let bit = position % PAGE_BITS;
    let pair = u64::try_from(item).ok().and_then(|item| item.checked_mul(PAGE_BITS)).map(|item| item + bit);
    pair.and_then(|pair| i32::try_from(pair).ok()).ok_or_else(|| Error::invalid_argument(TOO_MANY))
}

const TOO_MANY: &str = "too many items for one request";

fn small(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|error| Error::invalid_argument(TOO_MANY).with_source(error))
}

fn part_answer(row: &PgRow) -> Result<PartAnswer> {
    let record = record::read(row, 1)?;
    Ok(match record::code(row)? {
        b't' => {
            let lacking: Option<Vec<u8>> = column(row, 3)?;
            PartAnswer::Flags(record.ok_or_else(unexpected)?, lacking.ok_or_else(unexpected)?)
        }
        b'e' => PartAnswer::Empty(record),
        b'm' => PartAnswer::Mismatch(record::terms(row, 4)?),
        b'l' => PartAnswer::Lost,
        b'u' => PartAnswer::Late,
        _ => return Err(unexpected()),
    })
}
