//! The steps. Each is one function of the schema, and one round trip for a whole batch.

mod batch;
#[cfg(feature = "bloom")]
mod bloom;
mod call;
pub(crate) mod dispatch;
mod groups;
mod limits;
mod locked;
mod permits;
mod reply;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::call::Statements;
pub(crate) use self::call::{StatementArguments, column, uuid};
use crate::context::Context;
use crate::link::Link;

/// The steps of all primitives over one link.
#[derive(Clone, Debug)]
pub struct PostgresSteps {
    context: Arc<Context>,
    link: Arc<Link>,
    statements: Arc<Statements>,
}

impl PostgresSteps {
    pub(crate) fn new(context: Arc<Context>, link: Arc<Link>) -> Self {
        let statements = Arc::new(Statements::new(&context.schema));
        Self { context, link, statements }
    }

    /// Returns the link that the steps use.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}
