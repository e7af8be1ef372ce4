//! The steps of Bloom filters, contained.

use async_trait::async_trait;

use super::Contained;
use crate::Result;
use crate::spi::{
    Answers, BloomCall, BloomSteps, ChunkRead, Known, Merge, Merged, Object, Probed, RequestId, Surveyed,
};

#[async_trait]
impl BloomSteps for Contained<dyn BloomSteps> {
    fn lane(&self, object: &Object) -> usize {
        self.steps.lane(object)
    }

    fn most_positions(&self) -> usize {
        self.steps.most_positions()
    }

    async fn probe(&self, id: RequestId, calls: &[BloomCall]) -> Answers<Probed> {
        let lane = calls.first().map_or(0, |call| self.steps.lane(&call.of.object));
        self.each("probe", (lane, calls.len()), None, self.steps.probe(id, calls)).await
    }

    async fn merge(&self, merge: &Merge) -> Result<Merged> {
        self.one("merge", self.steps.lane(&merge.of.object), None, self.steps.merge(merge)).await
    }

    async fn clear(&self, object: &Object) -> Result<Known> {
        self.one("clear", self.steps.lane(object), None, self.steps.clear(object)).await
    }

    async fn survey(&self, object: &Object, known: Known) -> Result<Surveyed> {
        self.one("survey", self.steps.lane(object), None, self.steps.survey(object, known)).await
    }

    async fn read(&self, object: &Object, known: Known, chunk: u64) -> Result<ChunkRead> {
        self.one("read", self.steps.lane(object), None, self.steps.read(object, known, chunk)).await
    }
}
