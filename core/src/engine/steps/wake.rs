//! Where wake-ups come from.

use std::fmt::Debug;

use async_trait::async_trait;

use super::Object;
use crate::{Result, Ticket};

/// A source of wake-ups: hints only, which may be lost or doubled (C14).
#[async_trait]
pub trait WakeSource: Debug + Send + Sync {
    /// Somebody of this process waits for an object from now on, or nobody any more. Told once for each change; a wait
    /// group counts twice while some wait for its end and others to join it. Never blocks. Nothing to do for a source
    /// that hears of all objects anyway.
    fn watch(&self, object: &Object, waited_for: bool);

    /// Waits, for a bounded time, for hints to waiters of this process. Returns without any when the time is over.
    ///
    /// # Errors
    /// `Unavailable` if the source has to be reached anew; the engine asks again after a pause.
    async fn next(&self) -> Result<Vec<Ticket>>;
}
