//! The steps. Each is one script, and one round trip for a whole batch.

mod acked_reply;
#[cfg(feature = "bloom")]
mod bloom;
mod call;
mod fast_path;
mod groups;
mod limits;
mod listing;
mod permits;
mod reply;
mod rights;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::spi::{Object, ProcessId};

pub(crate) use self::fast_path::Busy;
use crate::durability::Durability;
use crate::keys::Keyspace;
use crate::route::Route;
use crate::script::Scripts;

/// State that the steps of one process in one namespace share over all of its connections.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) process: ProcessId,
    /// How long the state of an idle name stays.
    pub(crate) retention: Duration,
    pub(crate) busy: Busy,
    pub(crate) durability: Durability,
}

/// The steps of all primitives over one connection.
///
/// An error of the whole step is `Unavailable` or `Unknown`, as for all steps. If a key of a name holds a value of another
/// type, a step for that name alone, or one that acquires, ends with `InvalidArgument` naming the key. In batches of other
/// steps the holds of such a name count as gone.
#[derive(Debug)]
pub struct RedisSteps {
    context: Arc<Context>,
    route: Route,
}

impl RedisSteps {
    pub(crate) fn new(context: Arc<Context>, route: Route) -> Self {
        Self { context, route }
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the lane of an object. One request can carry entries of one lane: of all stripes, or of one.
    pub(crate) fn lane_of(&self, object: &Object) -> usize {
        self.route.lane(object)
    }

    fn scripts(&self) -> &Scripts {
        &self.context.scripts
    }
}
