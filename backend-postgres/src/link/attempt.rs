//! Attempts to connect. They outlive who began them: where a login takes longer than a request may, the next request
//! finds its connection.

use sqlx::PgConnection;
use stanchion_core::clock::{Instant, now};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::AbortHandle;

use crate::access::Sessions;

/// A connection, and when it was made; none if the server said nothing.
type Made = Option<(PgConnection, Instant)>;

/// An attempt of the runtime that drives its connection. It ends by itself; dropped, at once.
pub(super) struct Attempt {
    made: oneshot::Receiver<Result<Made>>,
    task: AbortHandle,
}

/// How an attempt stands.
pub(super) enum Standing {
    UnderWay(Attempt),
    Made(PgConnection, Instant),
    /// Why says nothing any more.
    Failed,
}

impl Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection goes with the caller's runtime, and so may this"
    )]
    pub(super) fn begin(sessions: &Sessions) -> Self {
        let sessions = sessions.clone();
        let (tell, made) = oneshot::channel();
        let task = tokio::spawn(async move {
            let attempted = sessions.attempt().await;
            drop(tell.send(attempted.map(|made| made.map(|connection| (connection, now())))));
        });
        Self { made, task: task.abort_handle() }
    }

    pub(super) fn standing(mut self) -> Standing {
        match self.made.try_recv() {
            Ok(Ok(Some((connection, since)))) => Standing::Made(connection, since),
            Err(TryRecvError::Empty) => Standing::UnderWay(self),
            Ok(_) | Err(TryRecvError::Closed) => Standing::Failed,
        }
    }

    /// Waits for its end. A wait that is dropped can be taken up again.
    ///
    /// # Errors
    /// Why there is no connection. Nothing was sent.
    pub(super) async fn end(&mut self) -> Result<Option<PgConnection>> {
        let ended = |error| Error::new(ErrorKind::Unavailable, "its runtime has ended").with_source(error);
        Ok((&mut self.made).await.map_err(ended)??.map(|(connection, _)| connection))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}
