//! The requests about Bloom filters.

mod batch;
mod group;
mod piece;
mod record;

use std::slice;

use sqlx::postgres::PgRow;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{
    Answers, CLEARED_KEPT, ChunkRead, FilterRecord, FilterState, Merge, Merged, Object, Opening, Probe,
    Probed, Read, Survey, Surveyed, refused,
};

use self::batch::BloomBatch;
use super::PostgresSteps;
use super::call::{StatementArguments, column, uuid};
use crate::error::unexpected;

/// Number of bits in a page of 2 KiB. The SQL functions contain the same number.
const PAGE_BITS: u64 = 1 << 14;
/// Maximum number of positions in one request. In a large filter each bit is in a page of its own,
/// so these are 64 MiB to write within the request timeout.
pub(super) const MAX_POSITIONS: usize = 1 << 15;

impl PostgresSteps {
    pub(super) async fn probe(&self, calls: &[Probe], end: Instant) -> Answers<Probed> {
        self.around_locked(
            calls,
            |call| &call.of.object,
            end,
            move |steps, calls| {
                Box::pin(async move {
                    let probed = steps.probe_all(calls, end).await;
                    probed.unwrap_or_else(|error| refused(calls.len(), &error))
                })
            },
        )
        .await
    }

    pub(super) async fn merge(&self, merge: &Merge, end: Instant) -> Result<Merged> {
        let merges = slice::from_ref(merge);
        let answers = self.around_locked(
            merges,
            |merge| &merge.of.object,
            end,
            move |steps, merges| Box::pin(async move { vec![steps.merge_one(&merges[0], end).await] }),
        );
        answers.await.pop().unwrap_or_else(|| Err(unexpected()))
    }

    pub(super) async fn clear(&self, object: &Object, end: Instant) -> Result<Option<FilterRecord>> {
        let objects = slice::from_ref(object);
        let answers = self.around_locked(
            objects,
            |object| object,
            end,
            move |steps, objects| Box::pin(async move { vec![steps.clear_one(&objects[0], end).await] }),
        );
        answers.await.pop().unwrap_or_else(|| Err(unexpected()))
    }

    pub(super) async fn survey(&self, Survey { object, seen }: &Survey, end: Instant) -> Result<Surveyed> {
        let arguments = self.seen(object, *seen)?;
        let rows = self.on_filters(include_str!("../../sql/bloom_survey.sql"), arguments, end).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        let record = record::read(row, 1)?;
        match record::code(row)? {
            b't' => Ok(Surveyed::Live(FilterState {
                terms: record::terms(row, 3)?,
                record: record.ok_or_else(unexpected)?,
                bits_set: record::number(column(row, 4)?)?,
            })),
            b'e' => Ok(Surveyed::Empty(record)),
            b'l' => Ok(Surveyed::Lost),
            _ => Err(unexpected()),
        }
    }

    pub(super) async fn read(&self, Read { object, seen, chunk }: &Read, end: Instant) -> Result<ChunkRead> {
        let (first, last) = piece::range(*chunk)?;
        let arguments = self.seen(object, *seen)?.with(first).with(last);
        let rows = self.on_filters(include_str!("../../sql/bloom_read.sql"), arguments, end).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        match record::code(row)? {
            b't' => {
                let length = piece::length(&record::terms(row, 1)?, *chunk);
                let pages = column::<Option<Vec<i32>>>(row, 2)?.unwrap_or_default();
                let bytes = column::<Option<Vec<Vec<u8>>>>(row, 3)?.unwrap_or_default();
                piece::joined(first, length, &pages, &bytes).map(ChunkRead::Bytes)
            }
            b'e' => Ok(ChunkRead::Empty),
            b'l' => Ok(ChunkRead::Lost),
            _ => Err(unexpected()),
        }
    }

    async fn probe_all(&self, calls: &[Probe], end: Instant) -> Result<Answers<Probed>> {
        let batch = BloomBatch::of(calls);
        let arguments = batch.encode(self.filters(), calls[0].id)?;
        let rows = self.on_filters(include_str!("../../sql/bloom_probe.sql"), arguments, end).await?;
        batch.decode(&rows)
    }

    async fn merge_one(&self, merge: &Merge, end: Instant) -> Result<Merged> {
        let Opening { object, terms, seen, fresh } = &merge.of;
        let (pages, bytes) = piece::pages(merge.chunk, &merge.bytes)?;
        let arguments = self
            .filters()
            .with(object.name.as_str())
            .with(record::text(terms))
            .with(record::ttl(terms)?)
            .with(record::generation(*seen))
            .with(record::ends(*seen)?)
            .with(uuid(*fresh))
            .with(pages)
            .with(bytes);
        let rows = self.on_filters(include_str!("../../sql/bloom_merge.sql"), arguments, end).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        match record::code(row)? {
            b't' => Ok(Merged::Done(record::read(row, 1)?.ok_or_else(unexpected)?)),
            b'm' => Ok(Merged::Mismatch(record::terms(row, 3)?)),
            b'l' => Ok(Merged::Lost),
            _ => Err(unexpected()),
        }
    }

    async fn clear_one(&self, object: &Object, end: Instant) -> Result<Option<FilterRecord>> {
        let kept = i64::try_from(CLEARED_KEPT.as_millis()).unwrap_or(i64::MAX);
        let arguments = self.filters().with(object.name.as_str()).with(kept);
        let rows = self.on_filters(include_str!("../../sql/bloom_clear.sql"), arguments, end).await?;
        record::read(rows.first().ok_or_else(unexpected)?, 0)
    }

    /// Returns the first argument of each step of filters.
    fn filters(&self) -> StatementArguments {
        StatementArguments::default().with(&*self.context.namespace)
    }

    /// Returns the first arguments of a step on one filter: its name, and the record that the
    /// caller has seen.
    fn seen(&self, object: &Object, seen: Option<FilterRecord>) -> Result<StatementArguments> {
        let arguments = self.filters().with(object.name.as_str());
        Ok(arguments.with(record::generation(seen)).with(record::ends(seen)?))
    }

    async fn on_filters(
        &self,
        sql: &'static str,
        arguments: StatementArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        self.run(&self.context.schema.statement(sql).large(), arguments, end).await
    }
}
