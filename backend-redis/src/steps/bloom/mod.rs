//! The steps of Bloom filters.

mod call;
mod flight;
mod record;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::steps::{
    Answers, BloomCall, BloomSteps, CHUNK_BYTES, CLEARED_KEPT, ChunkRead, RequestId, Known, Merge, Merged,
    Object, Opening, Probed, Survey, Surveyed,
};

use self::call::Entry;
use self::flight::NameBatch;
use super::RedisSteps;
use super::reply::Reply;
use crate::error::unexpected;
use crate::script::BloomScripts;

/// The bits of a page: one string of 1 MiB. The scripts know the same number.
const PAGE_BITS: u64 = 1 << 23;
/// Positions of one request: the server is kept by them for some 15 ms.
const MOST_POSITIONS: usize = 1 << 14;
/// Pages that are begun in one request: the server makes zeros of so many MiB in some 10 ms.
const AT_ONCE: usize = 64;

impl RedisSteps {
    fn of_filters(&self) -> &BloomScripts {
        &self.scripts().bloom
    }

    /// Inserts into more new pages than may be begun in one request: those that are there already are not begun again.
    async fn probe_large(&self, flight: RequestId, cargo: &NameBatch<'_>) -> Result<Reply> {
        for beginning in cargo.beginnings(flight, AT_ONCE) {
            self.ask_one(&self.of_filters().begin, beginning).await?;
        }
        self.ask_one(&self.of_filters().probe, cargo.entry(flight, u64::MAX)).await
    }
}

/// The page of a piece, and the piece's first byte in it.
fn place(chunk: u64) -> (u64, u64) {
    let (byte, page) = (chunk * CHUNK_BYTES, PAGE_BITS / 8);
    (byte / page, byte % page)
}

/// The record that a caller knows, at the head of a step's arguments.
fn known<'a>(object: &'a Object, known: &Known) -> Entry<'a> {
    let mut entry = Entry::new(object);
    record::push_known(&mut entry.arguments, known);
    entry
}

#[async_trait]
impl BloomSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        self.lane_of(object)
    }

    fn most_positions(&self) -> usize {
        MOST_POSITIONS
    }

    async fn probe(&self, flight: RequestId, calls: &[BloomCall]) -> Answers<Probed> {
        let cargo = flight::by_name(calls);
        let entries: Vec<_> = cargo.iter().map(|cargo| cargo.entry(flight, AT_ONCE as u64)).collect();
        let mut replies = self.ask_each(&self.of_filters().probe, &entries).await;
        for (cargo, reply) in cargo.iter().zip(&mut replies) {
            if reply.as_ref().is_ok_and(|reply| reply.number(0).is_ok_and(|number| number == 2)) {
                *reply = self.probe_large(flight, cargo).await;
            }
        }
        let mut answers: Vec<Option<Result<Probed>>> = calls.iter().map(|_| None).collect();
        for (cargo, reply) in cargo.iter().zip(replies) {
            match reply.and_then(Reply::ours).and_then(|reply| cargo.unload(&reply)) {
                Ok(probed) => {
                    for (index, probed) in cargo.calls.iter().zip(probed) {
                        answers[*index] = Some(Ok(probed));
                    }
                }
                Err(error) => cargo.calls.iter().for_each(|i| answers[*i] = Some(Err(error.replicate()))),
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
    }

    async fn merge(&self, merge: &Merge) -> Result<Merged> {
        let Opening { object, terms, known: seen, fresh } = &merge.of;
        let (page, first) = place(merge.chunk);
        let mut entry = known(object, seen);
        entry.further = vec![self.context.keyspace.piece(object)];
        // Zeros set no bit, and so need no page.
        if merge.bytes.iter().any(|byte| *byte != 0) {
            entry.pages = vec![page];
        }
        let numbers = [fresh.to_string(), record::terms(terms), first.to_string()];
        entry.arguments.extend(numbers.map(String::into_bytes));
        entry.arguments.push(merge.bytes.clone());
        let reply = self.ask_one(&self.of_filters().merge, entry).await?;
        Ok(match reply.number(0)? {
            0 => Merged::Done(record::life(&reply, 1)?),
            1 => Merged::Mismatch(record::stored(&reply.text(1)?)?),
            2 => Merged::Lost,
            _ => return Err(unexpected()),
        })
    }

    async fn clear(&self, object: &Object) -> Result<Known> {
        // In one step, or pages would stay for good where the caller goes between two. Most filters have one page.
        let mut pages = 1;
        loop {
            let mut entry = Entry::new(object);
            entry.pages = (0..pages).collect();
            entry.arguments.push(CLEARED_KEPT.as_millis().to_string().into_bytes());
            let reply = self.ask_one(&self.of_filters().clear, entry).await?;
            if reply.is_empty() {
                return Ok(None);
            }
            match (reply.number(0)?, reply.number(1)) {
                (1, _) => return record::life(&reply, 1).map(Some),
                (0, Ok(more)) if more > pages => pages = more,
                _ => return Err(unexpected()),
            }
        }
    }

    async fn survey(&self, object: &Object, seen: Known) -> Result<Surveyed> {
        let reply = self.ask_one(&self.of_filters().survey, known(object, &seen)).await?;
        Ok(match reply.number(0)? {
            0 => Surveyed::Live(Survey {
                life: record::life(&reply, 1)?,
                bits_set: reply.number(3)?,
                terms: record::stored(&reply.text(4)?)?,
            }),
            1 if reply.further(2)?.is_some() => Surveyed::Empty(Some(record::life(&reply, 1)?)),
            1 => Surveyed::Empty(None),
            2 => Surveyed::Lost,
            _ => return Err(unexpected()),
        })
    }

    async fn read(&self, object: &Object, seen: Known, chunk: u64) -> Result<ChunkRead> {
        let (page, first) = place(chunk);
        let mut entry = known(object, &seen);
        entry.pages = vec![page];
        entry.arguments.extend([first, CHUNK_BYTES].map(|number| number.to_string().into_bytes()));
        let reply = self.ask_one(&self.of_filters().read, entry).await?;
        Ok(match reply.number(0)? {
            0 => ChunkRead::Bytes(reply.into_bytes(1)?),
            1 => ChunkRead::Empty,
            2 => ChunkRead::Lost,
            _ => return Err(unexpected()),
        })
    }
}
