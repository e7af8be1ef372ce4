//! The steps of Bloom filters.

mod batch;
mod group;
mod piece;
mod record;

use std::slice;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use stanchion_core::Result;
use stanchion_core::spi::{
    Answers, BloomCall, BloomSteps, CLEARED_KEPT, ChunkRead, Known, Merge, Merged, Object, Opening, Probed,
    RequestId, Survey, Surveyed, refused,
};

use self::batch::BloomBatch;
use super::PostgresSteps;
use super::call::{StatementArguments, column, uuid};
use crate::error::unexpected;

/// Number of bits in a page of 2 KiB. The SQL functions contain the same number.
const PAGE_BITS: u64 = 1 << 14;
/// Maximum number of positions in one request. In a large filter each bit is in a page of its own, so these are 64 MiB
/// to write within the request timeout.
const MAX_POSITIONS: usize = 1 << 15;

#[async_trait]
impl BloomSteps for PostgresSteps {
    fn lane(&self, _: &Object) -> usize {
        0
    }

    fn most_positions(&self) -> usize {
        MAX_POSITIONS
    }

    async fn probe(&self, id: RequestId, calls: &[BloomCall]) -> Answers<Probed> {
        self.around_locked(
            calls,
            |call| &call.of.object,
            self.time_limit(None),
            move |steps, calls| {
                Box::pin(async move {
                    let probed = steps.probe_all(id, calls).await;
                    probed.unwrap_or_else(|error| refused(calls.len(), &error))
                })
            },
        )
        .await
    }

    async fn merge(&self, merge: &Merge) -> Result<Merged> {
        let merges = slice::from_ref(merge);
        let answers = self.around_locked(
            merges,
            |merge| &merge.of.object,
            self.time_limit(None),
            |steps, merges| Box::pin(async move { vec![steps.merge_one(&merges[0]).await] }),
        );
        answers.await.pop().unwrap_or_else(|| Err(unexpected()))
    }

    async fn clear(&self, object: &Object) -> Result<Known> {
        let objects = slice::from_ref(object);
        let answers = self.around_locked(
            objects,
            |object| object,
            self.time_limit(None),
            |steps, objects| Box::pin(async move { vec![steps.clear_one(&objects[0]).await] }),
        );
        answers.await.pop().unwrap_or_else(|| Err(unexpected()))
    }

    async fn survey(&self, object: &Object, known: Known) -> Result<Surveyed> {
        let arguments = self.seen(object, &known)?;
        let rows = self.on_filters(include_str!("../../sql/bloom_survey.sql"), arguments).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        let life = record::life(row, 1)?;
        match record::code(row)? {
            b't' => Ok(Surveyed::Live(Survey {
                terms: record::terms(row, 3)?,
                life: life.ok_or_else(unexpected)?,
                bits_set: record::number(column(row, 4)?)?,
            })),
            b'e' => Ok(Surveyed::Empty(life)),
            b'l' => Ok(Surveyed::Lost),
            _ => Err(unexpected()),
        }
    }

    async fn read(&self, object: &Object, known: Known, chunk: u64) -> Result<ChunkRead> {
        let (first, last) = piece::range(chunk)?;
        let arguments = self.seen(object, &known)?.with(first).with(last);
        let rows = self.on_filters(include_str!("../../sql/bloom_read.sql"), arguments).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        match record::code(row)? {
            b't' => {
                let length = piece::length(&record::terms(row, 1)?, chunk);
                let pages = column::<Option<Vec<i32>>>(row, 2)?.unwrap_or_default();
                let bytes = column::<Option<Vec<Vec<u8>>>>(row, 3)?.unwrap_or_default();
                piece::joined(first, length, &pages, &bytes).map(ChunkRead::Bytes)
            }
            b'e' => Ok(ChunkRead::Empty),
            b'l' => Ok(ChunkRead::Lost),
            _ => Err(unexpected()),
        }
    }
}

impl PostgresSteps {
    async fn probe_all(&self, id: RequestId, calls: &[BloomCall]) -> Result<Answers<Probed>> {
        let batch = BloomBatch::of(calls);
        let arguments = batch.encode(self.filters(), id)?;
        let rows = self.on_filters(include_str!("../../sql/bloom_probe.sql"), arguments).await?;
        batch.decode(&rows)
    }

    async fn merge_one(&self, merge: &Merge) -> Result<Merged> {
        let Opening { object, terms, known, fresh } = &merge.of;
        let (pages, bytes) = piece::pages(merge.chunk, &merge.bytes)?;
        let arguments = self
            .filters()
            .with(object.name.as_str())
            .with(record::text(terms))
            .with(record::ttl(terms)?)
            .with(record::generation(known))
            .with(record::ends(known)?)
            .with(uuid(*fresh))
            .with(pages)
            .with(bytes);
        let rows = self.on_filters(include_str!("../../sql/bloom_merge.sql"), arguments).await?;
        let row = rows.first().ok_or_else(unexpected)?;
        match record::code(row)? {
            b't' => Ok(Merged::Done(record::life(row, 1)?.ok_or_else(unexpected)?)),
            b'm' => Ok(Merged::Mismatch(record::terms(row, 3)?)),
            b'l' => Ok(Merged::Lost),
            _ => Err(unexpected()),
        }
    }

    async fn clear_one(&self, object: &Object) -> Result<Known> {
        let kept = i64::try_from(CLEARED_KEPT.as_millis()).unwrap_or(i64::MAX);
        let arguments = self.filters().with(object.name.as_str()).with(kept);
        let rows = self.on_filters(include_str!("../../sql/bloom_clear.sql"), arguments).await?;
        record::life(rows.first().ok_or_else(unexpected)?, 0)
    }

    /// Returns the first argument of each step of filters.
    fn filters(&self) -> StatementArguments {
        StatementArguments::default().with(&*self.context.namespace)
    }

    /// Returns the first arguments of a step on one filter: its name, and the record that the caller has seen.
    fn seen(&self, object: &Object, known: &Known) -> Result<StatementArguments> {
        let arguments = self.filters().with(object.name.as_str());
        Ok(arguments.with(record::generation(known)).with(record::ends(known)?))
    }

    async fn on_filters(&self, sql: &'static str, arguments: StatementArguments) -> Result<Vec<PgRow>> {
        self.run(&self.context.schema.statement(sql), arguments, None).await
    }
}
