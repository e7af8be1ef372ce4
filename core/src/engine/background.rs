//! What the engine's thread works with, and the hook that puts something between a store's steps
//! and its engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::contained::Containment;
use crate::observe::events::SLOW_WAIT;
use crate::runtime::thread::EngineThread;
use crate::spi::{Chore, Steps, WakeSource};

/// What the engine's thread works with.
#[derive(Clone, Debug)]
pub struct Background {
    /// The steps over the engine's connection.
    pub steps: Arc<dyn Steps>,
    /// Source of wake-ups; without one, waiters proceed by the poll floor.
    pub wake: Option<Arc<dyn WakeSource>>,
    /// Work of the backend's own.
    pub chores: Vec<Arc<dyn Chore>>,
    /// The namespace that the steps work in, for the text of detached holds; empty on a store
    /// without namespaces.
    pub namespace: Arc<str>,
    /// The engine's thread, if the store was connected on it, or if it is that of other engines of
    /// the store; otherwise the engine starts one.
    pub thread: Option<Arc<EngineThread>>,
    /// Whether a lane of these steps leads to the same server as that lane of the thread's other
    /// engines.
    pub shares_servers: bool,
    /// Maximum time for which the drop of the last thing of the store blocks its thread, until
    /// everything queued is sent ([C12](crate::contract#c12)); zero does not wait. The default of
    /// the networked stores is [`DRAIN`](Self::DRAIN).
    pub drain: Duration,
    /// A call that waited for a hold that long or longer is told at `info`. The default is
    /// [`SLOW_WAIT`].
    pub slow_wait: Duration,
}

impl Background {
    /// The default of `drain`: 250 ms.
    pub const DRAIN: Duration = Duration::from_millis(250);

    /// The engine's own steps, without anything else: no wake-ups, no chores, no namespaces, and
    /// the defaults of the times.
    #[must_use]
    pub fn new(steps: Arc<dyn Steps>) -> Self {
        let (wake, chores, namespace) = (None, Vec::new(), Arc::from(""));
        let (thread, shares_servers) = (None, false);
        let (drain, slow_wait) = (Self::DRAIN, SLOW_WAIT);
        Self { steps, wake, chores, namespace, thread, shares_servers, drain, slow_wait }
    }

    pub(super) fn contained(self, containment: &Arc<Containment>) -> Self {
        let wake = self.wake.map(|wake| containment.around_wake(wake));
        Self { steps: containment.around(self.steps), wake, ..self }
    }
}

/// The steps of one store object, before its engine uses them.
#[derive(Clone, Debug)]
pub struct EngineSteps {
    /// Over the callers' connection.
    pub callers: Arc<dyn Steps>,
    /// Over the engine's own connection.
    pub own: Arc<dyn Steps>,
    /// Source of wake-ups, if the store has one.
    pub wake: Option<Arc<dyn WakeSource>>,
}

/// Replaces the steps of a store by others around them, for example to count, delay, lose or double
/// requests. A store without a wrap calls its steps directly.
#[derive(Clone)]
pub struct StepsWrap(Arc<dyn Fn(EngineSteps) -> EngineSteps + Send + Sync>);

impl StepsWrap {
    /// Makes a wrap of a function, which is called once for each store object.
    pub fn new(wrap: impl Fn(EngineSteps) -> EngineSteps + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }

    pub(super) fn wrap(&self, callers: Arc<dyn Steps>, own: Background) -> (Arc<dyn Steps>, Background) {
        let given = EngineSteps { callers, own: Arc::clone(&own.steps), wake: own.wake.clone() };
        let EngineSteps { callers, own: steps, wake } = (self.0)(given);
        (callers, Background { steps, wake, ..own })
    }
}

impl fmt::Debug for StepsWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepsWrap").finish_non_exhaustive()
    }
}
