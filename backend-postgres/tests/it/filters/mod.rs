//! Filters of a namespace, whose steps one process drives.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;

use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::spi::{
    CHUNK_BYTES, ChunkRead, FilterRecord, Merge, Merged, Object, Opening, Probe, ProbeItems, Probed,
    RequestId, Steps, Surveyed,
};
use stanchion_core::{Kind, Name, Ticket};
use stanchion_testbed::servers::PostgresServer;

use crate::common::lease;

/// Returns the terms of a filter of 1,171 pages.
pub(crate) fn large() -> FilterTerms {
    FilterTerms { shape: Shape::new(2_000_000, 0.01).unwrap(), ttl: None }
}

pub(crate) fn small() -> FilterTerms {
    FilterTerms { shape: Shape::new(1_000, 1e-6).unwrap(), ttl: None }
}

/// A handle of a filter.
pub(crate) struct Filter {
    pub(crate) steps: Arc<dyn Steps>,
    pub(crate) object: Object,
    pub(crate) terms: FilterTerms,
    pub(crate) seen: Option<FilterRecord>,
    pub(crate) lane: Ticket,
    pub(crate) number: u64,
}

impl Filter {
    pub(crate) async fn new(server: &PostgresServer, terms: FilterTerms) -> Self {
        Self::named(server, "f", terms).await
    }

    pub(crate) async fn named(server: &PostgresServer, name: &str, terms: FilterTerms) -> Self {
        let steps = lease(&server.url()).steps().await.unwrap().callers;
        let object = Object { kind: Kind::BloomFilter, name: Name::new(name).unwrap() };
        Self { steps, object, terms, seen: None, lane: Ticket::random(), number: 0 }
    }

    pub(crate) fn opening(&self) -> Opening {
        let (object, fresh) = (self.object.clone(), Ticket::random());
        Opening { object, terms: self.terms, seen: self.seen, fresh }
    }

    pub(crate) fn positions(&self, items: &[u32]) -> Vec<u64> {
        items.iter().flat_map(|item| self.terms.shape.positions(&item.to_le_bytes())).collect()
    }

    pub(crate) fn inserting(&self, items: &[u32]) -> Probe {
        Probe { id: RequestId::NONE, of: self.opening(), items: ProbeItems::Insert(self.positions(items)) }
    }

    pub(crate) fn asking(&self, items: &[u32]) -> Probe {
        Probe { id: RequestId::NONE, of: self.opening(), items: ProbeItems::Contains(self.positions(items)) }
    }

    /// Returns the id of a new request.
    pub(crate) fn next_id(&mut self) -> RequestId {
        self.number += 1;
        RequestId { sequence: self.lane, number: self.number }
    }

    /// Sends a request, and returns the answers to its calls.
    pub(crate) async fn send(&mut self, calls: &[Probe]) -> Vec<Probed> {
        let id = self.next_id();
        all(self.steps.probe(id, calls).await)
    }

    pub(crate) async fn insert(&mut self, items: &[u32]) -> Probed {
        let calls = [self.inserting(items)];
        self.send(&calls).await.remove(0)
    }

    pub(crate) async fn contains(&mut self, items: &[u32]) -> Probed {
        let calls = [self.asking(items)];
        self.send(&calls).await.remove(0)
    }

    /// Remembers the record of the filter from now on, and returns it.
    pub(crate) async fn see(&mut self) -> FilterRecord {
        let Surveyed::Live(survey) = self.survey().await else { panic!("a filter") };
        self.seen = Some(survey.record);
        survey.record
    }

    pub(crate) async fn survey(&self) -> Surveyed {
        self.steps.survey(&self.object, self.seen).await.unwrap()
    }

    pub(crate) async fn clear(&self) -> Option<FilterRecord> {
        self.steps.clear(&self.object).await.unwrap()
    }

    pub(crate) async fn read(&self, chunk: u64) -> ChunkRead {
        self.steps.read(&self.object, self.seen, chunk).await.unwrap()
    }

    pub(crate) async fn merge(&self, chunk: u64, bytes: Vec<u8>) -> Merged {
        self.steps.merge(&Merge { of: self.opening(), chunk, bytes }).await.unwrap()
    }

    /// Returns all bits of the filter, read piece by piece.
    pub(crate) async fn bits(&self) -> Vec<u8> {
        let mut bits = Vec::new();
        while u64::try_from(bits.len()).unwrap() < self.terms.shape.bytes() {
            let length = CHUNK_BYTES.min(self.terms.shape.bytes() - u64::try_from(bits.len()).unwrap());
            let ChunkRead::Bytes(mut piece) =
                self.read(u64::try_from(bits.len()).unwrap() / CHUNK_BYTES).await
            else {
                panic!("a filter")
            };
            assert!(piece.is_empty() || u64::try_from(piece.len()).unwrap() == length);
            piece.resize(usize::try_from(length).unwrap(), 0);
            bits.extend(piece);
        }
        bits
    }
}

/// Returns the answers, none of which may be an error.
pub(crate) fn all<T: std::fmt::Debug>(answers: Vec<stanchion_core::Result<T>>) -> Vec<T> {
    answers.into_iter().map(Result::unwrap).collect()
}

/// Returns the answers to the items of a call.
pub(crate) fn says(probed: &Probed) -> Vec<bool> {
    let Probed::Told { answers, .. } = probed else { panic!("{probed:?}") };
    answers.clone()
}
