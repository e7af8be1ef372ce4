//! The steps: each one function of the schema, one round trip for a whole batch.

pub(crate) mod dispatch;
mod pending;
mod limits;

use std::sync::Arc;

use crate::context::Context;
use crate::link::Link;

/// The steps of all four primitives over one link.
#[derive(Clone, Debug)]
pub struct PostgresSteps {
    context: Arc<Context>,
    link: Arc<Link>,
}

impl PostgresSteps {
    pub(crate) fn new(context: Arc<Context>, link: Arc<Link>) -> Self {
        Self { context, link }
    }

    /// What they go through.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}
