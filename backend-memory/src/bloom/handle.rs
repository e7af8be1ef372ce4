//! One caller's handle of a Bloom filter.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::engine::Agreed;
use stanchion_core::{BloomFilter, BloomOptions, Error, ErrorKind, Name, Result, check_items};

use super::record::{Contents, FilterEntry, Lifetime, Record};
use crate::session::Session;

/// A Bloom filter in this process.
pub(crate) struct MemoryFilter {
    pub(super) name: Name,
    pub(super) session: Arc<Session>,
    pub(super) entry: Arc<FilterEntry>,
    terms: Agreed<FilterTerms>,
    /// Number of the contents whose terms were compared last; 0 before the first comparison.
    compared: AtomicU64,
    /// The record that this handle has seen, if any (B6).
    record_seen: Mutex<Option<Lifetime>>,
}

impl MemoryFilter {
    /// Opens a filter with checked options.
    pub(crate) fn open(session: &Arc<Session>, name: Name, options: &BloomOptions) -> Result<Self> {
        let terms = Agreed::compared_always(options.terms()?, options.on_mismatch);
        let state = &session.state;
        let entry = state.filters.open(&name, state.clock.read(), |_| FilterEntry::new());
        let (session, compared, record_seen) = (Arc::clone(session), AtomicU64::new(0), Mutex::new(None));
        Ok(Self { name, session, entry, terms, compared, record_seen })
    }

    fn record_seen(&self) -> MutexGuard<'_, Option<Lifetime>> {
        self.record_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn terms(&self) -> FilterTerms {
        self.terms.value()
    }

    fn context(&self, operation: &'static str) -> impl FnOnce(Error) -> Error {
        move |error| error.context(operation, crate::STORE, self.name.as_str())
    }

    /// Runs `look` on the contents, after comparing their terms. Returns `None` if there are no
    /// contents and `make` does not ask for new ones.
    pub(super) fn with<R>(&self, make: bool, look: impl FnOnce(&Contents) -> R) -> Result<Option<R>> {
        loop {
            self.session.check_open()?;
            if let Some(record) = &*self.entry.read()
                && let Some(contents) = &record.contents
                && contents.number == self.compared.load(Ordering::Relaxed)
                && record.lifetime.ends.is_none_or(|ends| ends > self.session.state.clock.read().micros)
            {
                return Ok(Some(look(contents)));
            }
            if !self.settle(make)? {
                return Ok(None);
            }
        }
    }

    /// Brings the handle up to date with the record, and returns whether the filter has contents;
    /// makes them if `make`.
    ///
    /// # Errors
    /// `StateLost` if the filter that the handle has seen is gone (B6); `ConfigMismatch` if its
    /// terms differ and the options do not adopt them (B5).
    #[cold]
    fn settle(&self, make: bool) -> Result<bool> {
        let mut record = self.entry.write();
        let mut seen = self.record_seen();
        let at = self.session.state.clock.read();
        if record.as_ref().is_some_and(|record| record.lifetime.is_over(at)) {
            *record = None;
        }
        let generation = record.as_ref().map(|record| record.lifetime.generation);
        if let Some(lifetime) = seen.take_if(|lifetime| !lifetime.is_over(at))
            && generation != Some(lifetime.generation)
        {
            let detail = "the filter is gone: what it held is not known any more";
            return Err(Error::new(ErrorKind::StateLost, detail));
        }
        if make {
            record.get_or_insert_with(Record::new).contents_or(self.terms.value(), at);
        }
        // After a clear, this handle has not seen the new contents yet.
        *seen = None;
        let Some(record) = &*record else { return Ok(false) };
        let Some(contents) = &record.contents else { return Ok(false) };
        *seen = Some(record.lifetime);
        let mismatch = |stored| Error::mismatch("filter", self.terms.value(), stored);
        self.terms.learn(self.terms.settle(Some(contents.terms)).map_err(mismatch)?);
        self.compared.store(contents.number, Ordering::Relaxed);
        Ok(true)
    }

    fn insert_all(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        check_items(items.len())?;
        let inserted =
            self.with(true, |contents| items.iter().map(|item| self.insert_one(contents, item)).collect())?;
        Ok(inserted.unwrap_or_default())
    }

    fn insert_one(&self, contents: &Contents, item: &[u8]) -> bool {
        let Contents { terms, bits, .. } = contents;
        let mut positions = terms.shape.positions(item);
        let Some(unset) = positions.clone().find(|bit| !bits.is_set(*bit)) else { return false };
        // Two callers that insert the same item at once must not both find an unset bit.
        let _stripe = self.entry.stripe(positions.clone().next().unwrap_or(unset));
        positions.by_ref().fold(false, |new, bit| bits.set(bit) | new)
    }

    fn contains_all(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        check_items(items.len())?;
        let found = self.with(false, |Contents { terms, bits, .. }| {
            let contains = |item: &&[u8]| terms.shape.positions(item).all(|bit| bits.is_set(bit));
            items.iter().map(contains).collect()
        })?;
        Ok(found.unwrap_or_else(|| vec![false; items.len()]))
    }
}

#[async_trait]
impl BloomFilter for MemoryFilter {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn shape(&self) -> Shape {
        self.terms().shape
    }

    async fn insert(&self, item: &[u8]) -> Result<bool> {
        let inserted = self.with(true, |contents| self.insert_one(contents, item));
        inserted.map(Option::unwrap_or_default).map_err(self.context("insert"))
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.insert_all(items).map_err(self.context("insert_many"))
    }

    async fn contains(&self, item: &[u8]) -> Result<bool> {
        let contained = self.with(false, |Contents { terms, bits, .. }| {
            terms.shape.positions(item).all(|bit| bits.is_set(bit))
        });
        contained.map(Option::unwrap_or_default).map_err(self.context("contains"))
    }

    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.contains_all(items).map_err(self.context("contains_many"))
    }

    async fn len_estimate(&self) -> Result<u64> {
        let set = self.count().map_err(self.context("len_estimate"))?;
        Ok(self.shape().len_estimate(set))
    }

    async fn fill_ratio(&self) -> Result<f64> {
        let set = self.count().map_err(self.context("fill_ratio"))?;
        Ok(self.shape().fill_ratio(set))
    }

    async fn union_with(&self, other: &str) -> Result<()> {
        self.unite(other).map_err(self.context("union_with"))
    }

    async fn clear(&self) -> Result<()> {
        let cleared = self.session.check_open().map(|()| {
            let mut record = self.entry.write();
            let at = self.session.state.clock.read();
            record.take_if(|record| record.lifetime.is_over(at));
            if let Some(record) = &mut *record {
                record.clear(at);
            }
            *self.record_seen() = None;
        });
        cleared.map_err(self.context("clear"))
    }

    async fn export(&self) -> Result<Vec<u8>> {
        self.image().map_err(self.context("export"))
    }

    async fn import(&self, exported: &[u8]) -> Result<()> {
        self.load(exported).map_err(self.context("import"))
    }
}

impl fmt::Debug for MemoryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, session, .. } = self;
        f.debug_struct("MemoryFilter").field("name", name).field("session", session).finish_non_exhaustive()
    }
}

impl Drop for MemoryFilter {
    fn drop(&mut self) {
        let state = &self.session.state;
        state.filters.leave(&self.name, state.clock.read());
    }
}
