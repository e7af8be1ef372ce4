//! A Bloom filter of a networked store, as one caller uses it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::api::options::check_items;
use crate::bloom::{FilterTerms, Shape};
use crate::engine::agreed::Agreed;
use crate::engine::shared::EngineHandle;
use crate::spi::{FilterRecord, MAXIMUM_BATCH, Object, Opening, Probe, ProbeItems, Probed, RequestId};
use crate::{BloomFilter, BloomOptions, Error, ErrorKind, Result, Ticket};

/// A Bloom filter.
#[derive(Debug)]
pub(in crate::engine) struct Filter {
    pub(super) engine: Arc<EngineHandle>,
    pub(super) object: Object,
    pub(super) terms: Agreed<FilterTerms>,
    /// The record in the last answer, if it showed one (B6).
    record: Mutex<Option<FilterRecord>>,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Insert,
    Contains,
}

impl Filter {
    pub(in crate::engine) fn new(
        engine: &Arc<EngineHandle>,
        object: Object,
        options: &BloomOptions,
    ) -> Result<Self> {
        let terms = Agreed::compared_always(options.terms()?, options.on_mismatch);
        let engine = Arc::clone(engine);
        Ok(Self { engine, object, terms, record: Mutex::new(None) })
    }

    fn locked(&self) -> MutexGuard<'_, Option<FilterRecord>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self) -> Option<FilterRecord> {
        *self.locked()
    }

    pub(super) fn saw(&self, record: FilterRecord) {
        *self.locked() = Some(record);
    }

    /// Notes that the filter is empty, so that the next record is not taken for a lost one, unless
    /// another call has seen a record meanwhile.
    pub(super) fn saw_nothing(&self, asked: Option<FilterRecord>) {
        self.locked().take_if(|record| asked == Some(*record));
    }

    pub(super) fn opening(&self, terms: FilterTerms, record: Option<FilterRecord>) -> Opening {
        Opening { object: self.object.clone(), terms, seen: record, fresh: Ticket::random() }
    }

    /// Adopts or refuses terms of the store that differ from the handle's (C20).
    pub(super) fn accept(&self, given: FilterTerms, stored: FilterTerms) -> Result<()> {
        if stored == given {
            return Err(Error::new(ErrorKind::Unknown, "the store finds a difference where there is none"));
        }
        let settled = self.terms.settle(Some(stored));
        self.terms.learn(settled.map_err(|stored| Error::mismatch("filter", given, stored))?);
        Ok(())
    }

    /// Returns the error of a record that was seen and is gone (B6), once: the handle accepts
    /// another record from now on.
    pub(super) fn lost(&self, asked: Option<FilterRecord>) -> Error {
        self.saw_nothing(asked);
        Error::new(
            ErrorKind::StateLost,
            "the filter, or a part of it, is gone: what it held is not known any more",
        )
    }

    pub(super) fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.engine.shared.store(), self.object.name.as_str())
    }

    /// Does a call, and adds to its error what was called.
    async fn on<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.engine.shared.on(call).await.map_err(|error| self.context(operation, error))
    }

    async fn probe(&self, verb: Verb, items: &[&[u8]]) -> Result<Vec<bool>> {
        check_items(items.len())?;
        self.engine.shared.check_open()?;
        let mut answers = Vec::with_capacity(items.len());
        while answers.len() < items.len() {
            answers.append(&mut self.ask(verb, &items[answers.len()..]).await?);
        }
        Ok(answers)
    }

    /// Sends as many of the items as fit into one call, at least one.
    async fn ask(&self, verb: Verb, of: &[&[u8]]) -> Result<Vec<bool>> {
        loop {
            let (terms, record) = (self.terms.value(), self.record());
            let shape = terms.shape;
            let most = self.engine.shared.steps.maximum_positions() / shape.hashes() as usize;
            let most = most.clamp(1, MAXIMUM_BATCH).min(of.len());
            let positions = of[..most].iter().flat_map(|item| shape.positions(item)).collect();
            let items = match verb {
                Verb::Insert => ProbeItems::Insert(positions),
                Verb::Contains => ProbeItems::Contains(positions),
            };
            let call = Probe { id: RequestId::NONE, of: self.opening(terms, record), items };
            let end = self.engine.shared.request_end(None);
            match (verb, self.engine.shared.batcher.ask(call, end).await?) {
                (_, Probed::Told { answers, record }) if answers.len() == most => {
                    self.saw(record);
                    return Ok(answers);
                }
                (Verb::Contains, Probed::Empty { .. }) => {
                    self.saw_nothing(record);
                    return Ok(vec![false; most]);
                }
                (_, Probed::Mismatch { stored }) => self.accept(terms, stored)?,
                (_, Probed::Lost) => return Err(self.lost(record)),
                _ => return Err(Error::new(ErrorKind::Unknown, "the store's answer was to another call")),
            }
        }
    }
}

#[async_trait]
impl BloomFilter for Filter {
    fn name(&self) -> &str {
        self.object.name.as_str()
    }

    fn shape(&self) -> Shape {
        self.terms.value().shape
    }

    async fn insert(&self, item: &[u8]) -> Result<bool> {
        Ok(self.on("insert", self.probe(Verb::Insert, &[item])).await? == [true])
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.on("insert_many", self.probe(Verb::Insert, items)).await
    }

    async fn contains(&self, item: &[u8]) -> Result<bool> {
        Ok(self.on("contains", self.probe(Verb::Contains, &[item])).await? == [true])
    }

    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        self.on("contains_many", self.probe(Verb::Contains, items)).await
    }

    async fn len_estimate(&self) -> Result<u64> {
        let (shape, set) = self.on("len_estimate", self.count()).await?;
        Ok(shape.len_estimate(set))
    }

    async fn fill_ratio(&self) -> Result<f64> {
        let (shape, set) = self.on("fill_ratio", self.count()).await?;
        Ok(shape.fill_ratio(set))
    }

    async fn union_with(&self, other: &str) -> Result<()> {
        self.on("union_with", self.unite(other)).await
    }

    async fn clear(&self) -> Result<()> {
        self.on("clear", self.empty()).await
    }

    async fn export(&self) -> Result<Vec<u8>> {
        self.on("export", self.image()).await
    }

    async fn import(&self, exported: &[u8]) -> Result<()> {
        self.on("import", self.load(exported)).await
    }
}
