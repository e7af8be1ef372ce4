//! The end of one generation of a wait group, as its waiters learn of it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;
use crate::runtime::Broadcast;
use crate::spi::Looked;
use crate::{Error, ErrorKind, Outcome, Result};

/// Time without an answer after which the store counts as away: the maximum poll floor.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// How a generation ended, for its waiters.
#[derive(Debug)]
pub(crate) enum End {
    /// The count came to zero.
    Zero(Outcome),
    /// The record was lost. The answer says what exists instead; the request was sent at that
    /// moment.
    Gone(Looked, Instant),
    /// The store refuses the look with a final error.
    Refused(Error),
    /// The store object was closed.
    Closed,
}

/// One generation of one record, shared by its waiters.
#[derive(Debug, Default)]
pub(crate) struct GenerationEnd {
    end: OnceLock<End>,
    ended: Broadcast,
    last_answer: Mutex<LastAnswer>,
}

/// The last answer of the store.
#[derive(Debug)]
struct LastAnswer {
    at: Instant,
    error: Option<Error>,
}

impl Default for LastAnswer {
    /// The store has just answered the caller that the generation is open.
    fn default() -> Self {
        Self { at: now(), error: None }
    }
}

impl GenerationEnd {
    fn last_answer(&self) -> MutexGuard<'_, LastAnswer> {
        self.last_answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the end, and wakes all waiters. Call it with no lock held.
    pub(crate) fn set(&self, end: End) {
        // The first end counts.
        drop(self.end.set(end));
        self.ended.notify_waiters();
    }

    /// Notes an answer that the generation is open, or the error in place of one.
    pub(crate) fn note_open(&self, error: Option<Error>) {
        let mut last = self.last_answer();
        last.at = if error.is_some() { last.at } else { now() };
        last.error = error;
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

    /// Succeeds if the store has said lately that the generation is open.
    ///
    /// # Errors
    /// The store's last error; `Unknown` if it has not answered lately.
    pub(crate) fn still_open(&self) -> Result<()> {
        let last = self.last_answer();
        match &last.error {
            Some(error) => Err(error.replicate()),
            None if last.at.elapsed() > ANSWER_TIMEOUT => {
                Err(Error::new(ErrorKind::Unknown, "the store has not answered lately"))
            }
            None => Ok(()),
        }
    }
}
