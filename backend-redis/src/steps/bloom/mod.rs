//! The requests about Bloom filters.

mod batch;
mod call;
mod record;

use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    Answers, CHUNK_BYTES, CLEARED_KEPT, ChunkRead, FilterRecord, FilterState, Merge, Merged, Object, Opening,
    Probe, Probed, Read, Survey, Surveyed, gather, refused,
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
pub(super) const MAX_POSITIONS: usize = 1 << 14;
/// Maximum number of pages that are begun in one request: the server takes some 10 ms to fill 64
/// MiB with zeros.
const MAX_BEGUN: usize = 64;

impl RedisSteps {
    fn of_filters(&self) -> &BloomScripts {
        &self.scripts().bloom
    }

    /// Inserts into more new pages than may be begun in one request. Pages that are there already
    /// are not begun again.
    async fn probe_large(&self, batch: &NameBatch<'_>, end: Instant) -> Result<Reply> {
        for beginning in batch.beginnings(MAX_BEGUN) {
            self.ask_one(&self.of_filters().begin, beginning, end).await?;
        }
        self.ask_one(&self.of_filters().probe, batch.entry(u64::MAX), end).await
    }
}

/// Returns the page of a piece, and the first byte of the piece in it.
fn place(chunk: u64) -> (u64, u64) {
    let (byte, page) = (chunk * CHUNK_BYTES, PAGE_BITS / 8);
    (byte / page, byte % page)
}

/// Returns an entry whose first arguments are the record that a caller has seen.
fn seen_entry(object: &Object, seen: Option<FilterRecord>) -> Entry<'_> {
    let mut entry = Entry::new(object);
    record::push_seen(&mut entry.arguments, seen.as_ref());
    entry
}

impl RedisSteps {
    pub(super) async fn probe(&self, calls: &[&Probe], end: Instant) -> Answers<Probed> {
        let batches = batch::by_name(calls);
        let entries: Vec<_> = batches.iter().map(|batch| batch.entry(MAX_BEGUN as u64)).collect();
        let mut replies = self.ask_each(&self.of_filters().probe, &entries, end).await;
        for (batch, reply) in batches.iter().zip(&mut replies) {
            if reply.as_ref().is_ok_and(|reply| reply.number(0).is_ok_and(|number| number == 2)) {
                *reply = self.probe_large(batch, end).await;
            }
        }
        let parts = batches.iter().zip(replies).map(|(batch, reply)| {
            let answers = match reply.and_then(Reply::ours).and_then(|reply| batch.decode(&reply)) {
                Ok(probed) => probed.into_iter().map(Ok).collect(),
                Err(error) => refused(batch.calls.len(), &error),
            };
            (batch.calls.clone(), answers)
        });
        gather(calls.len(), parts)
    }

    pub(super) async fn merge(&self, merge: &Merge, end: Instant) -> Result<Merged> {
        let Opening { object, terms, seen, fresh } = &merge.of;
        let (page, first) = place(merge.chunk);
        let mut entry = seen_entry(object, *seen);
        entry.further = vec![self.context.keyspace.piece(object)];
        // Zeros set no bit, and so need no page.
        if merge.bytes.iter().any(|byte| *byte != 0) {
            entry.pages = vec![page];
        }
        let numbers = [fresh.to_string(), record::terms(terms), first.to_string()];
        entry.arguments.extend(numbers.map(String::into_bytes));
        entry.arguments.push(merge.bytes.clone());
        let reply = self.ask_one(&self.of_filters().merge, entry, end).await?;
        Ok(match reply.number(0)? {
            0 => Merged::Done(record::read(&reply, 1)?),
            1 => Merged::Mismatch(record::stored(&reply.text(1)?)?),
            2 => Merged::Lost,
            _ => return Err(unexpected()),
        })
    }

    pub(super) async fn clear(&self, object: &Object, end: Instant) -> Result<Option<FilterRecord>> {
        // One step clears all pages: with several, a caller that ends between two would leave pages
        // for good. The first try takes one page, which is all that most filters have.
        let mut pages = 1;
        loop {
            let mut entry = Entry::new(object);
            entry.pages = (0..pages).collect();
            entry.arguments.push(CLEARED_KEPT.as_millis().to_string().into_bytes());
            let reply = self.ask_one(&self.of_filters().clear, entry, end).await?;
            if reply.is_empty() {
                return Ok(None);
            }
            match (reply.number(0)?, reply.number(1)) {
                (1, _) => return record::read(&reply, 1).map(Some),
                (0, Ok(more)) if more > pages => pages = more,
                _ => return Err(unexpected()),
            }
        }
    }

    pub(super) async fn survey(&self, Survey { object, seen }: &Survey, end: Instant) -> Result<Surveyed> {
        let reply = self.ask_one(&self.of_filters().survey, seen_entry(object, *seen), end).await?;
        Ok(match reply.number(0)? {
            0 => Surveyed::Live(FilterState {
                record: record::read(&reply, 1)?,
                bits_set: reply.number(3)?,
                terms: record::stored(&reply.text(4)?)?,
            }),
            1 if reply.further(2)?.is_some() => Surveyed::Empty(Some(record::read(&reply, 1)?)),
            1 => Surveyed::Empty(None),
            2 => Surveyed::Lost,
            _ => return Err(unexpected()),
        })
    }

    pub(super) async fn read(&self, Read { object, seen, chunk }: &Read, end: Instant) -> Result<ChunkRead> {
        let (page, first) = place(*chunk);
        let mut entry = seen_entry(object, *seen);
        entry.pages = vec![page];
        entry.arguments.extend([first, CHUNK_BYTES].map(|number| number.to_string().into_bytes()));
        let reply = self.ask_one(&self.of_filters().read, entry, end).await?;
        Ok(match reply.number(0)? {
            0 => ChunkRead::Bytes(reply.into_bytes(1)?),
            1 => ChunkRead::Empty,
            2 => ChunkRead::Lost,
            _ => return Err(unexpected()),
        })
    }
}
