//! Where wake-ups come from.

use std::fmt::Debug;

use async_trait::async_trait;

use super::Object;
use crate::{Result, Ticket};

/// A source of wake-ups: hints only, which may be lost, doubled, late, or about nobody (C14). A hint is the ticket of the
/// waiter, or the [`hint`](super::Look::hint) of a group. Whoever is woken asks the store; without any hint, each waiter
/// proceeds by the engine's polls.
#[async_trait]
pub trait WakeSource: Debug + Send + Sync {
    /// Somebody of this process waits for an object from now on, or nobody any more. Told once for each change; a wait
    /// group counts twice while some wait for its end and others to join it. Never blocks. Nothing to do for a source
    /// that hears of all objects anyway.
    fn watch(&self, object: &Object, waited_for: bool);

    /// Waits, for a bounded time, for hints to waiters of this process. Returns without any when the time is over. The
    /// engine asks one call at a time, on its own thread, and only while anybody waits: hints that came before SHOULD be
    /// told by the next call, and one that connects MUST do it here, and not block the thread.
    ///
    /// # Errors
    /// `Unavailable` if the source has to be reached anew; the engine asks again after a pause.
    async fn next(&self) -> Result<Vec<Ticket>>;
}
