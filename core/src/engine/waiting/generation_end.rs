//! A watch point: where the waiters of one generation are told how it ended.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::now;
use crate::steps::Looked;
use crate::{Error, ErrorKind, Outcome, Result};

/// Unheard for so long, the store is away: the most the poll floor can be.
const UNHEARD: Duration = Duration::from_secs(1);

/// What those are told who waited for the end of a generation.
#[derive(Debug)]
pub(crate) enum End {
    /// The count came to zero.
    Zero(Outcome),
    /// The record was lost. What is there instead, by a request sent at that moment.
    Gone(Looked, Instant),
    /// The store refuses to be asked.
    Refused(Error),
    /// The store object was closed.
    Closed,
}

/// One generation of one record, as those see it who wait for its end.
#[derive(Debug, Default)]
pub(crate) struct GenerationEnd {
    end: OnceLock<End>,
    ended: Notify,
    heard: Mutex<Heard>,
}

/// The last that was heard of the store.
#[derive(Debug)]
struct Heard {
    at: Instant,
    trouble: Option<Error>,
}

impl Default for Heard {
    /// Whoever makes a watch point has just been told that the generation is open.
    fn default() -> Self {
        Self { at: now(), trouble: None }
    }
}

impl GenerationEnd {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the end to all who wait.
    pub(crate) fn tell(&self, end: End) {
        // The first end stands.
        drop(self.end.set(end));
        self.ended.notify_waiters();
    }

    /// The store has answered that the generation is open, or has not answered.
    pub(crate) fn hear(&self, trouble: Option<Error>) {
        let mut heard = self.heard();
        heard.at = if trouble.is_some() { heard.at } else { now() };
        heard.trouble = trouble;
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> &End {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(end) = self.end.get() {
                return end;
            }
            ended.await;
        }
    }

    /// Whether it is known that the generation is open still.
    ///
    /// # Errors
    /// Why the store could not be asked lately.
    pub(crate) fn still_open(&self) -> Result<()> {
        let heard = self.heard();
        match &heard.trouble {
            Some(error) => Err(error.replicate()),
            None if heard.at.elapsed() > UNHEARD => {
                Err(Error::new(ErrorKind::Unknown, "the store has not answered lately"))
            }
            None => Ok(()),
        }
    }
}
