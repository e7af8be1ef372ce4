//! The Bloom filter.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::bloom::{FilterTerms, Shape};
use crate::{Error, OnMismatch, Result};

/// The shortest time to live of a filter.
const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest one, 10 years.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Options of a Bloom filter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BloomOptions {
    /// How many different items the filter is for, 1 to 2³².
    pub capacity: u64,
    /// The part of other items that it takes for contained once it is full, 10⁻⁹ to 0.5.
    pub false_positive_rate: f64,
    /// How long it lives, 1 s to 10 years. `None`: until it is cleared.
    pub ttl: Option<Duration>,
    /// What to do where the store's parameters differ.
    pub on_mismatch: OnMismatch,
}

impl BloomOptions {
    /// A filter for so many different items, 1 to 2³², at that false-positive rate, 10⁻⁹ to 0.5.
    #[must_use]
    pub fn new(capacity: u64, false_positive_rate: f64) -> Self {
        Self { capacity, false_positive_rate, ttl: None, on_mismatch: OnMismatch::default() }
    }

    /// How long the filter lives, 1 s to 10 years, counted from its first insert by the store's clock: all of it ends at
    /// that instant (B5). Parts of a millisecond do not count.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What to do where the store's capacity, rate or time to live differs (C20). `Replace` is refused: the bits do not
    /// tell which items they are of, so nothing could be carried over. Clear the filter instead.
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

    /// The parameters, checked.
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

/// A named Bloom filter: a set of items that forgets which they were. "Not contained" is certain, "contained" is wrong
/// for about [`false_positive_rate`](BloomOptions::false_positive_rate) of the items that were never inserted, once the
/// filter holds as many as it was made for.
///
/// Items are hashed by the caller: their length costs neither requests nor room. A filter of *n* items takes
/// `−n·ln p / (ln 2)²` bits, that is 1.2 bytes an item at 1 %, 3.6 at one in a million; the layout is written down in
/// `stanchion_core::bloom`, and the same on every store (B4).
///
/// # Which one should you use?
/// A filter answers "was this one here before?" for very many items in little room, where a wrong yes is bearable: a
/// message that is skipped, a cache that is not filled. Where it is not, keep the items themselves.
///
/// # Guarantees
/// - No false negative: what was inserted is contained until the filter ends or is cleared (B1).
/// - [`insert`](Self::insert) tells one caller that an item is new, and nobody else, across processes, lost replies and
///   retries (B3). At a rate of *p*, about *p* of the items of a full filter are new to nobody.
/// - What the store lost is told as `StateLost`, not as "not contained", wherever the store can know (B6): to each handle
///   that saw the filter before; and, where a part of it is missing, to everybody, until it is cleared.
///
/// # What is not guaranteed
/// Who comes after the loss of a whole filter cannot know, and finds an empty one. Items cannot be taken out. A filter
/// without a [`ttl`](BloomOptions::ttl) stays in the store until it is cleared, whoever uses it.
#[async_trait]
pub trait BloomFilter: Debug + Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Its size: as the options say or, with [`OnMismatch::Adopt`], as the store was found to have it.
    fn shape(&self) -> Shape;

    /// Inserts an item, and tells whether it was new.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// As [`insert_many`](Self::insert_many).
    async fn insert(&self, item: &[u8]) -> Result<bool> {
        Ok(self.insert_many(&[item]).await?.first().copied().unwrap_or(false))
    }

    /// Inserts items, and tells of each, in order, whether it was new. They count one after the other: of two equal ones
    /// the second is not new. One request sets so many bits as the store bears well, at most 65,536; larger batches
    /// leave in several, one after the other. Concurrent calls of a process share requests.
    ///
    /// # Errors
    /// `ConfigMismatch` if the store's parameters differ; `StateLost` (B6); `Unavailable`, `Unknown`. After an error it is
    /// not known which items were inserted. To insert them again loses nothing but the news: those that were are not
    /// new any more.
    ///
    /// # Cancel safety
    /// A dropped call may have inserted some or all of the items; they are new to nobody then.
    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>>;

    /// Whether an item is contained. "No" is certain.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    async fn contains(&self, item: &[u8]) -> Result<bool> {
        Ok(self.contains_many(&[item]).await?.first().copied().unwrap_or(false))
    }

    /// Whether items are contained, each in order. Sent as [`insert_many`](Self::insert_many); makes no filter where there
    /// is none.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>>;

    /// About how many different items were inserted, by the bits that are set (Swamidass and Baldi 2007): within some
    /// per cent as long as the filter is not overfull. It reads all of the filter, in the store.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    async fn len_estimate(&self) -> Result<u64>;

    /// The part of the bits that is set, 0 to 1; about a half at the capacity. It reads all of the filter, in the store.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    async fn fill_ratio(&self) -> Result<f64>;

    /// Inserts all that is in another filter of this store. One that is not there adds nothing. It is not one step: what
    /// is inserted into the other meanwhile may come along or not.
    ///
    /// # Errors
    /// `ConfigMismatch` if the other's capacity or rate differs; nothing is changed then. `InvalidArgument` for a bad name;
    /// as [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call may have added a part. To call it again adds the rest.
    async fn union_with(&self, other: &str) -> Result<()>;

    /// Removes all items and the parameters: the next insert, by whomever, brings its own and starts a new life.
    ///
    /// # Errors
    /// `Unavailable`, `Unknown`.
    ///
    /// # Cancel safety
    /// A dropped call may have cleared the filter, or not.
    async fn clear(&self) -> Result<()>;

    /// The bytes of the filter, 40 and an eighth of its bits, in the layout of all stores (B4). A filter that is not there
    /// gives one without items. It is not one step: what is inserted meanwhile may be in it or not. A filter
    /// that ends or is cleared meanwhile gives one without items, never a part; but where it is cleared and begun anew
    /// meanwhile, with the same parameters and without a time to live, a part of each may be in it.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many); `Overloaded` if there is no memory for it.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    async fn export(&self) -> Result<Vec<u8>>;

    /// Inserts all that is in exported bytes, of this store or another. It is not one step: others may see a part.
    /// Where the filter ends in between it begins again, three times in all; a clear in between takes out what was in by
    /// then, and is not always noticed.
    ///
    /// # Errors
    /// `InvalidArgument` if they are no export, or not a whole one; `ConfigMismatch` if their capacity or rate differs.
    /// Nothing is changed then. `StateLost` if the filter ended each time before all was in it. As
    /// [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call may have added a part. To call it again adds the rest.
    async fn import(&self, exported: &[u8]) -> Result<()>;
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
