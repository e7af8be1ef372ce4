//! What the engine's thread works with, and what an author of stores puts between a store's steps and its engine.

use std::fmt;
use std::sync::Arc;

use crate::steps::{Steps, WakeSource};

/// What the engine's thread works with.
#[derive(Clone, Debug)]
pub struct Background {
    /// The steps over the engine's connection.
    pub steps: Steps,
    /// Without a source of wake-ups waiters proceed by the poll floor.
    pub wake: Option<Arc<dyn WakeSource>>,
    /// What the backend does by itself.
    pub chores: Vec<Arc<dyn Chore>>,
}

/// The steps of one store object, as its engine is going to use them.
#[derive(Clone, Debug)]
pub struct EngineSteps {
    /// Over the callers' connection.
    pub callers: Steps,
    /// Over the engine's own.
    pub own: Steps,
    /// Where the store has a source of wake-ups.
    pub wake: Option<Arc<dyn WakeSource>>,
}

/// Takes the steps of a store and gives those that its engine uses in their place: to count, delay, lose or double what
/// goes through. A store that is not wrapped does not go through anything.
#[derive(Clone)]
pub struct StepsWrap(Arc<dyn Fn(EngineSteps) -> EngineSteps + Send + Sync>);

impl StepsWrap {
    /// From a function, which is called once for each store object.
    pub fn new(wrap: impl Fn(EngineSteps) -> EngineSteps + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }

    pub(super) fn wrap(&self, callers: Steps, own: Background) -> (Steps, Background) {
        let Background { steps, wake, chores } = own;
        let EngineSteps { callers, own, wake } = (self.0)(EngineSteps { callers, own: steps, wake });
        (callers, Background { steps: own, wake, chores })
    }
}

impl fmt::Debug for StepsWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepsWrap").finish_non_exhaustive()
    }
}
