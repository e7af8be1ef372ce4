//! One store object, the unit that `close` ends.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use stanchion_core::{Error, Result};

use crate::state::State;
use crate::sync::Notify;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Identifies a store object among all over one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

impl SessionId {
    /// No store object: the session of detached holds, which outlive every `close`.
    pub(crate) const NONE: Self = Self(0);
}

/// A store object.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) state: Arc<State>,
    closed: AtomicBool,
    /// Notified when the store object is closed.
    pub(crate) closing: Notify,
}

impl Session {
    pub(crate) fn new(state: Arc<State>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = SessionId(NEXT.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self { id, state, closed: AtomicBool::new(false), closing: Notify::new() })
    }

    /// Returns whether the store object was closed. Called under the lock of an entry: `close` sets the flag before it
    /// takes these locks, so that it finds every hold granted before.
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
