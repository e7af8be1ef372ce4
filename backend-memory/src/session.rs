//! One namespace of a store object, the unit that `close` ends.

use std::fmt;
use std::sync::Arc;

use stanchion_core::{Error, Result};

use crate::namespaces::States;
use crate::session_id::SessionId;
use crate::state::State;
use crate::sync::Broadcast;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A namespace of a store object.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) namespace: Box<str>,
    pub(crate) state: Arc<State>,
    /// The states of the other namespaces, which last as long.
    pub(crate) states: Arc<States>,
    closed: AtomicBool,
    /// Notified when the store object is closed.
    pub(crate) closing: Broadcast,
}

impl Session {
    pub(crate) fn new(namespace: &str, state: Arc<State>, states: Arc<States>) -> Arc<Self> {
        Arc::new(Self {
            id: SessionId::next(),
            namespace: namespace.into(),
            state,
            states,
            closed: AtomicBool::new(false),
            closing: Broadcast::new(),
        })
    }

    /// Returns whether the store object was closed. Called under the lock of an entry: `close` sets
    /// the flag before it takes these locks, so that it finds every hold granted before.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::closed()) } else { Ok(()) }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Shows nothing behind a lock, so that printing neither grows with the number of names nor delays
/// their callers.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
