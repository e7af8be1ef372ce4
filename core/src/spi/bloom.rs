//! The requests about Bloom filters. Objects are of kind
//! [`Kind::BloomFilter`](crate::Kind::BloomFilter).
//!
//! A store keeps one record for each name: a header (terms, generation, end) and pages of bits, all
//! of which end at the same instant of store time. The order of bits is that of
//! [`bloom`](crate::bloom); the pages are the store's own.
//!
//! # Records
//! - The first insert or merge on a name without a record, or with an ended one, makes a record:
//!   with the call's terms, the generation [`fresh`](Opening::fresh), and an end `ttl` from now. A
//!   store treats a record past its end as absent.
//! - [`Clear`] removes all pages and the terms but keeps the header with its generation, for
//!   [`CLEARED_KEPT`], so that a handle that saw the filter live learns that it was not lost. The
//!   next insert or merge keeps the generation and sets new terms and a new end.
//! - A record that a handle has seen and that is absent, or has another generation, was lost
//!   ([B6]), unless the end that the handle has seen has passed by the store's clock.
//! - The header lists the pages that were written. If a page is missing, every step that needs it
//!   answers `Lost` until the filter is cleared. A store that changes pages and header in one
//!   transaction need not check this.
//!
//! [B6]: crate::contract#b6

use std::time::Duration;

use super::{Object, RequestId};
use crate::Ticket;
use crate::bloom::FilterTerms;

/// Maximum number of positions of one [`Probe`], and of all of one batch, so that other clients do
/// not wait long.
pub const MAX_POSITIONS: usize = 1 << 16;

/// Length of the pieces in which bits are read and merged: 128 KiB, at multiples of it; the last
/// piece may be shorter.
pub const CHUNK_BYTES: u64 = 1 << 17;

/// Time for which the record of a cleared filter is kept.
pub const CLEARED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A filter's record, as a step found or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRecord {
    /// Identifies the record.
    pub generation: Ticket,
    /// When it ends, in milliseconds since 1970 by the store's clock; `None` if it does not.
    pub ends: Option<u64>,
}

/// The part of a call that can make a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The filter.
    pub object: Object,
    /// The terms as the caller knows them.
    pub terms: FilterTerms,
    /// The record that the caller has seen.
    pub seen: Option<FilterRecord>,
    /// The generation of a record that this call makes. The same in every retry.
    pub fresh: Ticket,
}

/// The content of a call: the positions of each item, one per hash, item after item; at most
/// [`MAX_POSITIONS`]. Items count in order: of two equal items the second is not new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeItems {
    /// Sets the bits; answers for each item whether one of its bits was not set before.
    Insert(Vec<u64>),
    /// Answers for each item whether all of its bits are set. Makes no record.
    Contains(Vec<u64>),
}

/// One call of one caller. The calls of a batch for one name are executed in order. A retry has the
/// same id and the same calls; each insert MUST be answered as the first time ([B3]). To that end a
/// store keeps, for each name and sequence of batches, the answers to the inserts of the last batch
/// for 60 s. No retry is sent later than 55 s after the first attempt. A batch without inserts on a
/// name leaves nothing there.
///
/// [B3]: crate::contract#b3
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The batch that it leaves in.
    pub id: RequestId,
    /// The filter.
    pub of: Opening,
    /// The content. Every position is below the number of bits of the terms' shape.
    pub items: ProbeItems,
}

/// The answer to a [`Probe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probed {
    /// An answer for each item, in order: whether it is new, or whether it is contained.
    Told {
        /// The answers.
        answers: Vec<bool>,
        /// The record.
        record: FilterRecord,
    },
    /// For `Contains`: the filter does not exist or was cleared.
    Empty {
        /// The record of a cleared filter.
        record: Option<FilterRecord>,
    },
    /// The stored terms differ. Nothing was done.
    Mismatch {
        /// The stored terms.
        stored: FilterTerms,
    },
    /// The record that the caller has seen is gone before its end, or a page is missing ([B6]).
    /// Nothing was done. Takes precedence over `Mismatch`.
    ///
    /// [B6]: crate::contract#b6
    Lost,
}

/// Sets all bits that are set in a piece of an image. Merging it twice has the effect of merging it
/// once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The filter.
    pub of: Opening,
    /// The number of the piece: it begins at byte `chunk · CHUNK_BYTES`.
    pub chunk: u64,
    /// Its bytes, at most [`CHUNK_BYTES`], and not beyond the shape's. An empty piece only makes
    /// the record.
    pub bytes: Vec<u8>,
}

/// The answer to a [`Merge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merged {
    /// All bits of the piece are set.
    Done(FilterRecord),
    /// As [`Probed::Mismatch`].
    Mismatch(FilterTerms),
    /// As [`Probed::Lost`].
    Lost,
}

/// Counts the bits that are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The filter.
    pub object: Object,
    /// The record that the caller has seen.
    pub seen: Option<FilterRecord>,
}

/// Clears a filter, also one with missing pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clear {
    /// The filter.
    pub object: Object,
}

/// Reads the piece with that number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The filter.
    pub object: Object,
    /// The record that the caller has seen.
    pub seen: Option<FilterRecord>,
    /// The number of the piece, as in [`Merge::chunk`].
    pub chunk: u64,
}

/// A filter as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterState {
    /// The terms in force.
    pub terms: FilterTerms,
    /// The record.
    pub record: FilterRecord,
    /// Number of bits set, in all pages.
    pub bits_set: u64,
}

/// The answer to a [`Survey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Surveyed {
    /// The filter exists.
    Live(FilterState),
    /// As [`Probed::Empty`].
    Empty(Option<FilterRecord>),
    /// As [`Probed::Lost`].
    Lost,
}

/// The answer to a [`Read`].
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
