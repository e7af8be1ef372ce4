//! The steps of Bloom filters.
//!
//! A store keeps one record for each name: a header (terms, generation, end) and pages of bits, all of which end at the
//! same instant of store time. The order of bits is that of [`bloom`](crate::bloom); the pages are the store's own.
//!
//! # Lives
//! - The first insert or merge where there is no record, or an ended one, makes one: of the call's terms, with
//!   the generation [`fresh`](Opening::fresh), ending `ttl` from now. A store that finds it past its end treats it as
//!   none.
//! - [`clear`](BloomSteps::clear) removes all pages and the terms but keeps the header with its generation, for
//!   [`CLEARED_KEPT`]: who saw the filter live learns so that it was not lost. The next insert or merge keeps the
//!   generation, and brings terms and end anew.
//! - A record that a handle saw ([`Known`]) and that is gone, or of another generation, was lost (B6), unless the end
//!   that the handle knows is past by the store's clock.
//! - The header tells which pages were written. One that is missing makes every step that needs it answer `Lost`, until
//!   the filter is cleared. A store that keeps pages and header in one table with transactions need not notice that.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Object, RequestId};
use crate::bloom::FilterTerms;
use crate::{Result, Ticket};

/// The most positions of one [`BloomCall`], and of all calls of one request: others are not kept waiting for long.
pub const MAX_POSITIONS: usize = 1 << 16;

/// Bits are read and merged in pieces of this length, 128 KiB, at multiples of it; the last one may be shorter.
pub const CHUNK_BYTES: u64 = 1 << 17;

/// How long the header of a cleared filter stays.
pub const CLEARED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A filter's record, as a step found or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Names it.
    pub generation: Ticket,
    /// When it ends, in milliseconds since 1970 by the store's clock; `None` if it does not.
    pub ends: Option<u64>,
}

/// The record that a handle has seen, if any.
pub type Known = Option<Life>;

/// What every call brings that can make a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The filter.
    pub object: Object,
    /// The terms as the caller knows them.
    pub terms: FilterTerms,
    /// The record that it has seen.
    pub known: Known,
    /// The generation of a record that this call makes. The same in every retry.
    pub fresh: Ticket,
}

/// What a filter is asked: the positions of each item, as many as there are hashes, one item after the other; at most
/// [`MAX_POSITIONS`]. Items count in order: of two equal ones the second is not new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BloomAsk {
    /// Sets the bits, and tells of each item whether one of its bits was not set yet.
    Insert(Vec<u64>),
    /// Tells of each item whether all of its bits are set. Makes no record.
    Contains(Vec<u64>),
}

/// One call of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomCall {
    /// The filter.
    pub of: Opening,
    /// What is asked. Every position is below the bits of the terms' shape.
    pub ask: BloomAsk,
}

/// The answer to a [`BloomCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// One for each item, in order: whether it is new, or whether it is contained.
    Told {
        /// The answers.
        answers: Vec<bool>,
        /// The record.
        life: Life,
    },
    /// Asked whether it contains something, a filter that is not there or was cleared.
    Empty {
        /// The record of a cleared filter.
        life: Known,
    },
    /// The stored terms differ. Nothing was done.
    Mismatch {
        /// The stored terms.
        stored: FilterTerms,
    },
    /// What the caller knows is gone before its end, or a page is missing (B6). Nothing was done. Comes before
    /// `Mismatch`.
    Lost,
}

/// Sets all bits that are set in a piece of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The filter.
    pub of: Opening,
    /// The number of the piece: it begins at byte `chunk · CHUNK_BYTES`.
    pub chunk: u64,
    /// Its bytes, at most [`CHUNK_BYTES`], and not beyond the shape's. An empty piece only makes the record.
    pub bytes: Vec<u8>,
}

/// The answer to a [`Merge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// All of its bits are set.
    Done(Life),
    /// As [`Probed::Mismatch`].
    Mismatch(FilterTerms),
    /// As [`Probed::Lost`].
    Lost,
}

/// A filter as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The terms in force.
    pub terms: FilterTerms,
    /// The record.
    pub life: Life,
    /// How many bits are set, in all pages.
    pub bits_set: u64,
}

/// The answer to [`BloomSteps::survey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surveyed {
    /// There is one.
    Live(Survey),
    /// As [`Probed::Empty`].
    Empty(Known),
    /// As [`Probed::Lost`].
    Lost,
}

/// The answer to [`BloomSteps::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkRead {
    /// The bytes of the piece; none at all if no bit of it is set.
    Bytes(Vec<u8>),
    /// As [`Probed::Empty`]: the filter was cleared, or ended, in the meantime.
    Empty,
    /// As [`Probed::Lost`].
    Lost,
}

/// The steps of Bloom filters. Objects are of kind [`Kind::BloomFilter`](crate::Kind::BloomFilter).
#[async_trait]
pub trait BloomSteps: Debug + Send + Sync {
    /// Steps on objects of one lane can leave in one request.
    fn lane(&self, object: &Object) -> usize;

    /// The most positions of one request, [`MAX_POSITIONS`] at most: fewer where each can cost a page of its own.
    fn most_positions(&self) -> usize;

    /// Carries calls out in order. A retry of a flight brings the same calls, and each insert is answered as the first
    /// time (B3): a store keeps, for each name and lane, the answers to the inserts of the last flight, for 60 s. None
    /// comes later than 55 s after the first. A flight with no insert on a name leaves nothing.
    async fn probe(&self, flight: RequestId, calls: &[BloomCall]) -> Answers<Probed>;

    /// Merges a piece. To do it twice changes nothing.
    ///
    /// # Errors
    /// As said for all steps.
    async fn merge(&self, merge: &Merge) -> Result<Merged>;

    /// Empties a filter, also one of which pages are missing, and tells its record; `None` if there is none.
    ///
    /// # Errors
    /// As said for all steps.
    async fn clear(&self, object: &Object) -> Result<Known>;

    /// Counts the bits.
    ///
    /// # Errors
    /// As said for all steps.
    async fn survey(&self, object: &Object, known: Known) -> Result<Surveyed>;

    /// Reads the piece of that number.
    ///
    /// # Errors
    /// As said for all steps.
    async fn read(&self, object: &Object, known: Known, chunk: u64) -> Result<ChunkRead>;
}
