//! The steps of Bloom filters.

mod batch;
mod call;
mod record;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::spi::{
    Answers, BloomCall, BloomSteps, CHUNK_BYTES, CLEARED_KEPT, ChunkRead, Known, Merge, Merged, Object,
    Opening, Probed, RequestId, Survey, Surveyed,
};

use self::batch::NameBatch;
use self::call::Entry;
use super::RedisSteps;
use super::reply::Reply;
use crate::error::unexpected;
use crate::script::BloomScripts;

/// Number of bits of a page, a string of 1 MiB. The scripts have the same number.
const PAGE_BITS: u64 = 1 << 23;
/// Maximum number of positions in one request: they hold the server for some 15 ms.
const MAX_POSITIONS: usize = 1 << 14;
/// Maximum number of pages that are begun in one request: the server takes some 10 ms to fill 64 MiB with zeros.
const MAX_BEGUN: usize = 64;

impl RedisSteps {
    fn of_filters(&self) -> &BloomScripts {
        &self.scripts().bloom
    }

    /// Inserts into more new pages than may be begun in one request. Pages that are there already are not begun again.
    async fn probe_large(&self, id: RequestId, batch: &NameBatch<'_>) -> Result<Reply> {
        for beginning in batch.beginnings(id, MAX_BEGUN) {
            self.ask_one(&self.of_filters().begin, beginning).await?;
        }
        self.ask_one(&self.of_filters().probe, batch.entry(id, u64::MAX)).await
    }
}

/// Returns the page of a piece, and the first byte of the piece in it.
fn place(chunk: u64) -> (u64, u64) {
    let (byte, page) = (chunk * CHUNK_BYTES, PAGE_BITS / 8);
    (byte / page, byte % page)
}

/// Returns an entry whose first arguments are the record that a caller knows.
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
        MAX_POSITIONS
    }

    async fn probe(&self, id: RequestId, calls: &[BloomCall]) -> Answers<Probed> {
        let batches = batch::by_name(calls);
        let entries: Vec<_> = batches.iter().map(|batch| batch.entry(id, MAX_BEGUN as u64)).collect();
        let mut replies = self.ask_each(&self.of_filters().probe, &entries).await;
        for (batch, reply) in batches.iter().zip(&mut replies) {
            if reply.as_ref().is_ok_and(|reply| reply.number(0).is_ok_and(|number| number == 2)) {
                *reply = self.probe_large(id, batch).await;
            }
        }
        let mut answers: Vec<Option<Result<Probed>>> = calls.iter().map(|_| None).collect();
        for (batch, reply) in batches.iter().zip(replies) {
            match reply.and_then(Reply::ours).and_then(|reply| batch.decode(&reply)) {
                Ok(probed) => {
                    for (index, probed) in batch.calls.iter().zip(probed) {
                        answers[*index] = Some(Ok(probed));
                    }
                }
                Err(error) => batch.calls.iter().for_each(|i| answers[*i] = Some(Err(error.replicate()))),
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
        // One step clears all pages: with several, a caller that ends between two would leave pages for good. The first try
        // takes one page, which is all that most filters have.
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
