//! The steps. Each is one function of the schema, and one round trip for a whole batch.

mod batch;
#[cfg(feature = "bloom")]
mod bloom;
mod call;
pub(crate) mod dispatch;
mod groups;
mod kept;
mod limits;
mod listing;
mod locked;
mod permits;
mod places;
mod reply;
mod tables;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use stanchion_core::spi::ProcessId;

use self::call::Statements;
pub(crate) use self::call::{StatementArguments, column, ticket, uuid};
use self::kept::KeptNames;
pub(crate) use self::places::{GrantRecord, PlaceToLeave, leave_arguments};
use self::tables::LockedTables;
use crate::context::Context;
use crate::pool::Pool;

/// The steps of all primitives over one link.
#[derive(Clone, Debug)]
pub struct PostgresSteps {
    context: Arc<Context>,
    link: Arc<Pool>,
    statements: Arc<Statements>,
    tables: Arc<LockedTables>,
    kept: Arc<KeptNames>,
    /// Acquires join the queue and are not granted here: sessions keep the mutexes.
    are_places: bool,
    /// Others wait for the answers to their batches.
    are_hurried: bool,
}

impl PostgresSteps {
    pub(crate) fn new(context: Arc<Context>, link: Arc<Pool>) -> Self {
        let statements = Arc::new(Statements::new(&context.schema));
        let (tables, kept) = (Arc::default(), Arc::default());
        Self { context, link, statements, tables, kept, are_places: false, are_hurried: false }
    }

    /// Returns these steps for the places of waiters whose mutexes sessions keep. They wait as a process of their own: where a
    /// lock session cannot be opened, they fall silent, whatever else the process waits for.
    pub(crate) fn for_places(&self, process: ProcessId) -> Self {
        let context = Arc::new(Context { process, ..(*self.context).clone() });
        Self { context, are_places: true, ..self.clone() }
    }

    /// Returns these steps for batches whose answers others wait for: a name whose row somebody keeps locked is given up soon.
    pub(crate) fn hurried(&self) -> Self {
        Self { are_hurried: true, ..self.clone() }
    }

    /// Returns the link that the steps use.
    pub(crate) fn link(&self) -> &Arc<Pool> {
        &self.link
    }
}
