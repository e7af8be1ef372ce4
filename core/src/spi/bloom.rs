//! The steps of Bloom filters.
//!
//! A store keeps one record for each name: a header (terms, generation, end) and pages of bits, all of which end at the
//! same instant of store time. The order of bits is that of [`bloom`](crate::bloom); the pages are the store's own.
//!
//! # Lives
//! - The first insert or merge on a name without a record, or with an ended one, makes a record: with the call's terms,
//!   the generation [`fresh`](Opening::fresh), and an end `ttl` from now. A store treats a record past its end as
//!   absent.
//! - [`clear`](BloomSteps::clear) removes all pages and the terms but keeps the header with its generation, for
//!   [`CLEARED_KEPT`], so that a handle that saw the filter live learns that it was not lost. The next insert or merge keeps
//!   the generation and sets new terms and a new end.
//! - A record that a handle has seen ([`Known`]) and that is absent, or has another generation, was lost ([B6]), unless
//!   the end known to the handle has passed by the store's clock.
//! - The header lists the pages that were written. If a page is missing, every step that needs it answers `Lost` until the
//!   filter is cleared. A store that changes pages and header in one transaction need not check this.
//!
//! [B6]: crate::contract#b6

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Object, RequestId};
use crate::bloom::FilterTerms;
use crate::{Result, Ticket};

/// Maximum number of positions of one [`BloomCall`], and of all calls of one request, so that other clients do not wait long.
pub const MAX_POSITIONS: usize = 1 << 16;

/// Length of the pieces in which bits are read and merged: 128 KiB, at multiples of it; the last piece may be shorter.
pub const CHUNK_BYTES: u64 = 1 << 17;

/// Time for which the record of a cleared filter is kept.
pub const CLEARED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A filter's record, as a step found or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Identifies the record.
    pub generation: Ticket,
    /// When it ends, in milliseconds since 1970 by the store's clock; `None` if it does not.
    pub ends: Option<u64>,
}

/// The record that a handle has seen, if any.
pub type Known = Option<Life>;

/// The part of a call that can make a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The filter.
    pub object: Object,
    /// The terms as the caller knows them.
    pub terms: FilterTerms,
    /// The record that the caller has seen.
    pub known: Known,
    /// The generation of a record that this call makes. The same in every retry.
    pub fresh: Ticket,
}

/// The content of a call: the positions of each item, one per hash, item after item; at most [`MAX_POSITIONS`]. Items count
/// in order: of two equal items the second is not new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BloomAsk {
    /// Sets the bits; answers for each item whether one of its bits was not set before.
    Insert(Vec<u64>),
    /// Answers for each item whether all of its bits are set. Makes no record.
    Contains(Vec<u64>),
}

/// One call of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomCall {
    /// The filter.
    pub of: Opening,
    /// The content. Every position is below the number of bits of the terms' shape.
    pub ask: BloomAsk,
}

/// The answer to a [`BloomCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probed {
    /// An answer for each item, in order: whether it is new, or whether it is contained.
    Told {
        /// The answers.
        answers: Vec<bool>,
        /// The record.
        life: Life,
    },
    /// For `Contains`: the filter does not exist or was cleared.
    Empty {
        /// The record of a cleared filter.
        life: Known,
    },
    /// The stored terms differ. Nothing was done.
    Mismatch {
        /// The stored terms.
        stored: FilterTerms,
    },
    /// The record that the caller knows is gone before its end, or a page is missing ([B6]). Nothing was done. Takes
    /// precedence over `Mismatch`.
    ///
    /// [B6]: crate::contract#b6
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
#[non_exhaustive]
pub enum Merged {
    /// All bits of the piece are set.
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
    /// Number of bits set, in all pages.
    pub bits_set: u64,
}

/// The answer to [`BloomSteps::survey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Surveyed {
    /// The filter exists.
    Live(Survey),
    /// As [`Probed::Empty`].
    Empty(Known),
    /// As [`Probed::Lost`].
    Lost,
}

/// The answer to [`BloomSteps::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkRead {
    /// The bytes of the piece; empty if no bit of it is set.
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

    /// Returns the maximum number of positions of one request, at most [`MAX_POSITIONS`]: fewer where each position can cost a
    /// page.
    fn most_positions(&self) -> usize;

    /// Executes calls in order. A retry has the same request id and the same calls; each insert MUST be answered as the
    /// first time ([B3]). To that end a store keeps, for each name and lane, the answers to the inserts of the last
    /// request for 60 s. No retry is sent later than 55 s after the first attempt. A request without inserts on a name
    /// leaves nothing there.
    ///
    /// [B3]: crate::contract#b3
    async fn probe(&self, request: RequestId, calls: &[BloomCall]) -> Answers<Probed>;

    /// Merges a piece. Merging it twice has the effect of merging it once.
    ///
    /// # Errors
    /// As all steps.
    async fn merge(&self, merge: &Merge) -> Result<Merged>;

    /// Clears a filter, also one with missing pages, and returns its record; `None` if there is none.
    ///
    /// # Errors
    /// As all steps.
    async fn clear(&self, object: &Object) -> Result<Known>;

    /// Counts the bits that are set.
    ///
    /// # Errors
    /// As all steps.
    async fn survey(&self, object: &Object, known: Known) -> Result<Surveyed>;

    /// Reads the piece with that number.
    ///
    /// # Errors
    /// As all steps.
    async fn read(&self, object: &Object, known: Known, chunk: u64) -> Result<ChunkRead>;
}
