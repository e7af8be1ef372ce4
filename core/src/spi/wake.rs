//! Sources of wake-ups.

use std::fmt::Debug;

use async_trait::async_trait;

use super::Object;
use crate::{Result, Ticket};

/// A source of wake-ups. They are hints: they may be lost, doubled, late, or for a waiter that has
/// gone ([C14]). A hint is the ticket of the waiter, or the [`hint`](super::Look::hint) of a group.
/// A woken waiter sends its request to the store; without hints, waiters proceed by the engine's
/// polls.
///
/// [C14]: crate::contract#c14
#[async_trait]
pub trait WakeSource: Debug + Send + Sync {
    /// Tells the source that an object has waiters of this process from now on, or has none any
    /// more. Called once for each change; a wait group counts twice while some callers wait for its
    /// end and others to join it. Never blocks. A source that receives the hints of all objects has
    /// nothing to do.
    fn watch(&self, object: &Object, waited_for: bool);

    /// Waits, for a bounded time, for hints to waiters of this process. Returns none when the time
    /// is over. The engine makes one call at a time, on its own thread, only while there are
    /// waiters: hints that arrived before SHOULD be returned by the next call. A source that
    /// connects MUST do so here, without blocking the thread.
    ///
    /// # Errors
    /// `Unavailable` if the source has to be connected again; the engine calls again after a pause.
    async fn next(&self) -> Result<Vec<Ticket>>;
}
