//! The Bloom filter.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::Result;
use crate::bloom::Shape;

/// A named Bloom filter: a set of items that does not keep the items. "Not contained" is certain;
/// "contained" is wrong for about [`false_positive_rate`](crate::BloomOptions::false_positive_rate)
/// of the items that were never inserted, once the filter contains as many items as it was made
/// for.
///
/// The caller hashes the items: their length costs neither requests nor space. A filter of *n*
/// items takes `−n·ln p / (ln 2)²` bits, that is 1.2 bytes an item at 1 %, 3.6 at one in a million;
/// the layout is written down in `stanchion_core::bloom`, and the same on every store ([B4]).
///
/// # Which one should you use?
/// Use a filter to ask whether an item was seen before, for very many items in little space, where
/// a wrong yes is acceptable: a message is skipped, a cache is not filled. Otherwise keep the items
/// themselves.
///
/// # Guarantees
/// - No false negatives: an inserted item is contained until the filter ends or is cleared ([B1]).
/// - [`insert`](Self::insert) reports an item as new to one caller only, across processes, lost
///   replies and retries ([B3]). At a rate of *p*, about *p* of the items of a full filter are
///   reported as new to no caller.
/// - A loss of data is reported as `StateLost`, not as "not contained", where the store can know
///   ([B6]): to each handle that has seen the filter before; and, if a part is missing, to every
///   caller, until the filter is cleared.
///
/// # What is not guaranteed
/// A handle made after the loss of a whole filter cannot know, and finds an empty filter. Items
/// cannot be removed. A filter without a [`ttl`](crate::BloomOptions::ttl) stays in the store until
/// it is cleared.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use stanchion::BloomOptions;
///
/// let store = stanchion::connect("memory:").await?;
/// let seen = store.bloom_filter("mails", BloomOptions::new(10_000, 0.001))?;
/// assert!(!seen.contains(b"1@example.org").await?, "this is certain");
/// assert!(seen.insert(b"1@example.org").await?, "it is new");
/// assert!(!seen.insert(b"1@example.org").await?, "it is not new any more");
/// # Ok(())
/// # }
/// ```
///
/// [B4]: crate::contract#b4
/// [B1]: crate::contract#b1
/// [B3]: crate::contract#b3
/// [B6]: crate::contract#b6
#[async_trait]
pub trait BloomFilter: Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the size: that of the options or, with
    /// [`OnMismatch::Adopt`](crate::OnMismatch::Adopt), that of the store's filter.
    fn shape(&self) -> Shape;

    /// Inserts an item, and returns whether it was new.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// As [`insert_many`](Self::insert_many).
    async fn insert(&self, item: &[u8]) -> Result<bool> {
        Ok(self.insert_many(&[item]).await?.first().copied().unwrap_or(false))
    }

    /// Inserts items, and returns for each, in order, whether it was new. Of two equal items the
    /// second is not new. One request has at most 500 items, and fewer where the store requires it;
    /// larger batches leave in several requests, one after the other ([C27]). Concurrent calls of a
    /// process share requests.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 10,000 items; `ConfigMismatch` if the store's parameters
    /// differ; `StateLost` ([B6]); `Unavailable`, `Unknown`. After an error it is not known which
    /// items were inserted. They can be inserted again; an item that was inserted is then not new.
    ///
    /// # Cancel safety
    /// A dropped call may have inserted some or all of the items; these are then reported as new to
    /// no caller.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::BloomOptions;
    ///
    /// let seen = store.bloom_filter("seen", BloomOptions::new(1_000, 0.01))?;
    /// assert_eq!(seen.insert_many(&[b"a", b"b", b"a"]).await?, [true, true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [B6]: crate::contract#b6
    /// [C27]: crate::contract#c27
    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>>;

    /// Returns whether an item is contained. `false` is certain.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    async fn contains(&self, item: &[u8]) -> Result<bool> {
        Ok(self.contains_many(&[item]).await?.first().copied().unwrap_or(false))
    }

    /// Returns for each item, in order, whether it is contained. Sent as
    /// [`insert_many`](Self::insert_many). Makes no filter.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>>;

    /// Returns an estimate of the number of different items inserted, from the number of bits set
    /// (Swamidass and Baldi 2007): within some per cent unless the filter is overfull. The store
    /// reads the whole filter.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    async fn len_estimate(&self) -> Result<u64>;

    /// Returns the fraction of bits set, 0 to 1; about a half at the capacity. The store reads the
    /// whole filter.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    async fn fill_ratio(&self) -> Result<f64>;

    /// Inserts all items of another filter of this store. A filter that does not exist adds
    /// nothing. The union is not atomic: items inserted into the other filter meanwhile may be
    /// included or not.
    ///
    /// # Errors
    /// `ConfigMismatch` if the other's capacity or rate differs; nothing is changed then.
    /// `InvalidArgument` for a bad name; as [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call may have added a part. Calling it again adds the rest.
    async fn union_with(&self, other: &str) -> Result<()>;

    /// Removes all items and the parameters: the next insert of any process sets its own and starts
    /// the filter anew.
    ///
    /// # Errors
    /// `Unavailable`, `Unknown`.
    ///
    /// # Cancel safety
    /// A dropped call may have cleared the filter, or not.
    async fn clear(&self) -> Result<()>;

    /// Returns the filter as bytes, 40 plus an eighth of its bits, in the layout of all stores
    /// ([B4]). A filter that does not exist is exported without items. The export is not atomic:
    /// items inserted meanwhile may be included or not. A filter that ends or is cleared meanwhile
    /// is exported without items, never in part. Limitation: if it is cleared and begun anew
    /// meanwhile, with the same parameters and without a time to live, the export may contain a
    /// part of each.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many); `Overloaded` if there is no memory for it.
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    ///
    /// [B4]: crate::contract#b4
    async fn export(&self) -> Result<Vec<u8>>;

    /// Inserts all items of an export, of this store or another. The import is not atomic: other
    /// callers may see a part. If the filter ends in between, the import begins again, three times
    /// in all. A clear in between removes the items that were imported before it, and is not always
    /// noticed.
    ///
    /// # Errors
    /// `InvalidArgument` if the bytes are not a complete export; `ConfigMismatch` if its capacity
    /// or rate differs; nothing is changed then. `StateLost` if the filter ended each time before
    /// the import was complete. As [`insert_many`](Self::insert_many).
    ///
    /// # Cancel safety
    /// A dropped call may have added a part. Calling it again adds the rest.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::BloomOptions;
    ///
    /// let seen = store.bloom_filter("seen", BloomOptions::new(1_000, 0.01))?;
    /// seen.insert(b"a").await?;
    /// let copy = store.bloom_filter("copy", BloomOptions::new(1_000, 0.01))?;
    /// copy.import(&seen.export().await?).await?;
    /// assert!(copy.contains(b"a").await?);
    /// # Ok(())
    /// # }
    /// ```
    async fn import(&self, exported: &[u8]) -> Result<()>;
}
