//! Filters of a namespace, whose steps one process drives.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, ToRedisArgs};
use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::spi::{
    CHUNK_BYTES, ChunkRead, FilterRecord, FilterState, Merge, Object, Opening, Probe, ProbeItems, Probed,
    RequestId, Steps, Surveyed,
};
use stanchion_core::{Error, Kind, Name, Ticket};

use crate::common::{Fixture, PATIENT};

/// A handle of a filter.
pub(crate) struct Filter {
    pub(crate) steps: Arc<dyn Steps>,
    pub(crate) raw: MultiplexedConnection,
    pub(crate) object: Object,
    pub(crate) terms: FilterTerms,
    pub(crate) seen: Option<FilterRecord>,
    /// The id of the last request.
    pub(crate) last_id: RequestId,
}

impl Filter {
    /// Makes a handle of a filter that does not end.
    pub(crate) async fn new(fixture: &Fixture, name: &str, capacity: u64, rate: f64) -> Self {
        let object = Object { kind: Kind::BloomFilter, name: Name::new(name).unwrap() };
        let terms = FilterTerms { shape: Shape::new(capacity, rate).unwrap(), ttl: None };
        let last_id = RequestId { sequence: Ticket::random(), number: 0 };
        let steps = fixture.builder().request_timeout(PATIENT).steps().await.unwrap().callers;
        Self { steps, raw: fixture.raw().await, object, terms, seen: None, last_id }
    }

    /// Makes another handle of the filter, which has seen nothing yet.
    pub(crate) fn other_handle(&self) -> Self {
        let last_id = RequestId { sequence: Ticket::random(), number: 0 };
        let (steps, object) = (Arc::clone(&self.steps), self.object.clone());
        Self { steps, raw: self.raw.clone(), object, terms: self.terms, seen: None, last_id }
    }

    pub(crate) fn living(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// Returns the id of a new request.
    pub(crate) fn next_id(&mut self) -> RequestId {
        self.last_id.number += 1;
        self.last_id
    }

    pub(crate) fn opening(&self) -> Opening {
        let (object, terms, seen) = (self.object.clone(), self.terms, self.seen);
        Opening { object, terms, seen, fresh: Ticket::random() }
    }

    fn positions(&self, items: &[String]) -> Vec<u64> {
        items.iter().flat_map(|item| self.terms.shape.positions(item.as_bytes())).collect()
    }

    pub(crate) fn insertion(&self, items: &[String]) -> Probe {
        Probe { id: RequestId::NONE, of: self.opening(), items: ProbeItems::Insert(self.positions(items)) }
    }

    pub(crate) fn question(&self, items: &[String]) -> Probe {
        Probe { id: RequestId::NONE, of: self.opening(), items: ProbeItems::Contains(self.positions(items)) }
    }

    pub(crate) async fn probe(&mut self, call: Probe) -> Probed {
        let id = self.next_id();
        self.send_as(id, call).await.unwrap()
    }

    /// Sends a call with this request id.
    pub(crate) async fn send_as(&self, id: RequestId, call: Probe) -> Result<Probed, Error> {
        self.steps.probe(id, &[call]).await.remove(0)
    }

    /// Inserts, and remembers the record that the answer names.
    pub(crate) async fn insert(&mut self, items: &[String]) -> Vec<bool> {
        let call = self.insertion(items);
        self.told(call).await
    }

    pub(crate) async fn contains(&mut self, items: &[String]) -> Vec<bool> {
        let call = self.question(items);
        self.told(call).await
    }

    async fn told(&mut self, call: Probe) -> Vec<bool> {
        match self.probe(call).await {
            Probed::Told { answers, record } => {
                self.seen = Some(record);
                answers
            }
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) fn record(&self) -> FilterRecord {
        self.seen.unwrap()
    }

    pub(crate) fn piece(&self, chunk: u64, bytes: Vec<u8>) -> Merge {
        Merge { of: self.opening(), chunk, bytes }
    }

    pub(crate) async fn survey_or_empty(&self) -> Surveyed {
        self.steps.survey(&self.object, self.seen).await.unwrap()
    }

    pub(crate) async fn survey(&self) -> FilterState {
        match self.survey_or_empty().await {
            Surveyed::Live(survey) => survey,
            other => panic!("surveyed {other:?}"),
        }
    }

    /// Reads all bytes of the filter.
    pub(crate) async fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let whole = self.terms.shape.bytes();
        for chunk in 0..whole.div_ceil(CHUNK_BYTES) {
            let ChunkRead::Bytes(mut piece) = self.steps.read(&self.object, self.seen, chunk).await.unwrap()
            else {
                panic!("no piece {chunk}")
            };
            let length = CHUNK_BYTES.min(whole - chunk * CHUNK_BYTES);
            assert!(piece.is_empty() || piece.len() as u64 == length, "{} of {length}", piece.len());
            piece.resize(usize::try_from(length).unwrap(), 0);
            bytes.append(&mut piece);
        }
        bytes
    }

    /// Returns the bytes of a filter with these items.
    pub(crate) fn image(&self, items: &[String]) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.terms.shape.bytes()).unwrap()];
        for position in self.positions(items) {
            bytes[usize::try_from(position / 8).unwrap()] |= 0x80 >> (position % 8);
        }
        bytes
    }

    /// Whether a filter with these bytes contains an item.
    pub(crate) fn is_in(&self, item: &str, image: &[u8]) -> bool {
        let mut positions = self.terms.shape.positions(item.as_bytes());
        positions
            .all(|position| image[usize::try_from(position / 8).unwrap()] & (0x80 >> (position % 8)) != 0)
    }

    /// Sends a plain command and returns its answer.
    pub(crate) async fn raw<T: FromRedisValue>(&self, command: &str, arguments: impl ToRedisArgs) -> T {
        redis::cmd(command).arg(arguments).query_async(&mut self.raw.clone()).await.unwrap()
    }
}

/// Makes `count` different items.
pub(crate) fn items(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// One item.
pub(crate) fn item(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

/// Returns the different times at which the keys of a namespace expire; the greatest number for
/// never.
pub(crate) async fn ends_of(fixture: &Fixture, filter: &Filter) -> Vec<u64> {
    let mut ends = Vec::new();
    for key in fixture.keys().await {
        let expires: i64 = filter.raw("PEXPIRETIME", key).await;
        ends.push(u64::try_from(expires).unwrap_or(u64::MAX));
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}
