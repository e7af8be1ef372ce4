//! The step that lists names, contained.

use async_trait::async_trait;

use super::Contained;
use crate::Result;
use crate::spi::{List, ListPart, ListSteps};

#[async_trait]
impl ListSteps for Contained<dyn ListSteps> {
    fn lane(&self, list: &List) -> usize {
        self.steps.lane(list)
    }

    async fn list(&self, list: &List) -> Result<ListPart> {
        self.one("list", self.steps.lane(list), None, self.steps.list(list)).await
    }
}
