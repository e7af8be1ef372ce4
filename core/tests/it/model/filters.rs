//! The Bloom filters of the model: bits in a set, and what a store remembers beside them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stanchion_core::bloom::FilterTerms;
use stanchion_core::spi::{
    Answers, CHUNK_BYTES, ChunkRead, FilterRecord, FilterState, Merge, Merged, Object, Opening, Probe,
    ProbeItems, Probed, RequestId, Surveyed, refused,
};
use stanchion_core::{Result, Ticket};

use super::Model;

/// The state of one name.
#[derive(Debug, Default)]
pub struct Filter {
    pub record: Option<FilterRecord>,
    pub terms: Option<FilterTerms>,
    pub bits: BTreeSet<u64>,
    /// A page is missing.
    pub torn: bool,
}

#[derive(Debug, Default)]
pub struct Filters {
    pub names: Mutex<HashMap<Object, Filter>>,
    /// Every flight as it was sent.
    pub flights: Mutex<Vec<(RequestId, Vec<Probe>)>>,
    /// The last answers to each sequence.
    pub memory: Mutex<HashMap<Ticket, (u64, Vec<Probed>)>>,
    /// The clock, in ms.
    pub now: AtomicU64,
}

impl Filters {
    /// Loses everything, also what was answered.
    pub fn lose(&self) {
        self.names.lock().unwrap().clear();
        self.memory.lock().unwrap().clear();
    }

    /// The only name's.
    pub fn only<T>(&self, look: impl FnOnce(&mut Filter) -> T) -> T {
        let mut names = self.names.lock().unwrap();
        assert_eq!(names.len(), 1);
        look(names.values_mut().next().unwrap())
    }
}

impl Filter {
    /// Whether it is not what the caller knows (B6). Drops what is over.
    fn is_lost(&mut self, seen: Option<FilterRecord>, now: u64) -> bool {
        let over = |record: FilterRecord| record.ends.is_some_and(|ends| ends <= now);
        if self.record.is_some_and(over) {
            *self = Self::default();
        }
        let seen = seen.filter(|record| !over(*record));
        let other =
            seen.is_some_and(|seen| self.record.map(|record| record.generation) != Some(seen.generation));
        other || self.torn
    }

    /// Makes what is not there; the stored terms if they are others.
    fn open(&mut self, of: &Opening, now: u64) -> Option<FilterTerms> {
        if self.terms.is_none() {
            let ends = of.terms.ttl_millis().map(|ttl| now + ttl);
            let generation = self.record.map_or(of.fresh, |record| record.generation);
            (self.record, self.terms) = (Some(FilterRecord { generation, ends }), Some(of.terms));
        }
        self.terms.filter(|stored| *stored != of.terms)
    }

    fn probe(&mut self, call: &Probe, now: u64) -> Probed {
        if self.is_lost(call.of.seen, now) {
            return Probed::Lost;
        }
        let (positions, inserts) = match &call.items {
            ProbeItems::Insert(positions) => (positions, true),
            ProbeItems::Contains(positions) => (positions, false),
        };
        if !inserts && self.terms.is_none() {
            return Probed::Empty { record: self.record };
        }
        if let Some(stored) = self.open(&call.of, now) {
            return Probed::Mismatch { stored };
        }
        let items = positions.chunks(call.of.terms.shape.hashes() as usize);
        let answers = items.map(|item| {
            if inserts {
                item.iter().fold(false, |new, bit| self.bits.insert(*bit) | new)
            } else {
                item.iter().all(|bit| self.bits.contains(bit))
            }
        });
        Probed::Told { answers: answers.collect(), record: self.record.unwrap() }
    }
}

impl Model {
    fn filters<T>(&self, object: &Object, run: impl FnOnce(&mut Filter, u64) -> T) -> T {
        let now = self.filters.now.load(SeqCst);
        run(self.filters.names.lock().unwrap().entry(object.clone()).or_default(), now)
    }
}

impl Model {
    pub(super) async fn probe(&self, calls: &[Probe]) -> Answers<Probed> {
        let flight = calls[0].id;
        self.filters.flights.lock().unwrap().push((flight, calls.to_vec()));
        let probed = self.step(|_| {
            let mut memory = self.filters.memory.lock().unwrap();
            match memory.get(&flight.sequence) {
                Some((number, answers)) if *number == flight.number => answers.clone(),
                last => {
                    assert!(last.is_none_or(|(number, _)| *number < flight.number), "flights in turn");
                    let probe =
                        |call: &Probe| self.filters(&call.of.object, |filter, now| filter.probe(call, now));
                    let answers: Vec<_> = calls.iter().map(probe).collect();
                    memory.insert(flight.sequence, (flight.number, answers.clone()));
                    answers
                }
            }
        });
        match probed.await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => refused(calls.len(), &error),
        }
    }

    pub(super) async fn merge(&self, merge: &Merge) -> Result<Merged> {
        let Merge { of, chunk, bytes } = merge;
        self.step(|_| {
            self.filters(&of.object, |filter, now| {
                if filter.is_lost(of.seen, now) {
                    return Merged::Lost;
                }
                if let Some(stored) = filter.open(of, now) {
                    return Merged::Mismatch(stored);
                }
                let first = chunk * CHUNK_BYTES * 8;
                let is_set = |bit: &u64| bytes[usize::try_from(bit / 8).unwrap()] & (0x80 >> (bit % 8)) != 0;
                filter.bits.extend((0..bytes.len() as u64 * 8).filter(is_set).map(|bit| first + bit));
                Merged::Done(filter.record.unwrap())
            })
        })
        .await
    }

    pub(super) async fn clear(&self, object: &Object) -> Result<Option<FilterRecord>> {
        let clear = |filter: &mut Filter, _| {
            *filter = Filter { record: filter.record, ..Filter::default() };
            filter.record
        };
        self.step(|_| self.filters(object, clear)).await
    }

    pub(super) async fn survey(&self, object: &Object, seen: Option<FilterRecord>) -> Result<Surveyed> {
        let survey = |filter: &mut Filter, now| {
            if filter.is_lost(seen, now) {
                return Surveyed::Lost;
            }
            let Some(terms) = filter.terms else { return Surveyed::Empty(filter.record) };
            let bits_set = filter.bits.len() as u64;
            Surveyed::Live(FilterState { terms, record: filter.record.unwrap(), bits_set })
        };
        self.step(|_| self.filters(object, survey)).await
    }

    pub(super) async fn read(
        &self,
        object: &Object,
        seen: Option<FilterRecord>,
        chunk: u64,
    ) -> Result<ChunkRead> {
        let read = |filter: &mut Filter, now| {
            if filter.is_lost(seen, now) {
                return ChunkRead::Lost;
            }
            let Some(terms) = filter.terms else { return ChunkRead::Empty };
            let first = chunk * CHUNK_BYTES;
            let length = (terms.shape.bytes() - first).min(CHUNK_BYTES);
            let mut bytes = vec![0; usize::try_from(length).unwrap()];
            for bit in filter.bits.range(first * 8..(first + length) * 8) {
                bytes[usize::try_from(bit / 8 - first).unwrap()] |= 0x80 >> (bit % 8);
            }
            if bytes.iter().all(|byte| *byte == 0) {
                bytes.clear();
            }
            ChunkRead::Bytes(bytes)
        };
        self.step(|_| self.filters(object, read)).await
    }
}
