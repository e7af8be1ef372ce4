//! Attempts to connect. An attempt outlives the request that began it: if a login takes longer than
//! a request may, the next request finds the connection.

use sqlx::PgConnection;
use stanchion_core::clock::{Instant, now};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::AbortHandle;

use super::runtime_connections::RuntimeConnections;
use crate::connector::Connector;

/// A connection, and the moment at which it was made; `None` if the server did not answer.
type Made = Option<(PgConnection, Instant)>;

/// An attempt to connect, on the runtime that drives the connection. It ends by itself, or at once
/// if it is dropped.
pub(super) struct Attempt {
    made: oneshot::Receiver<Result<Made>>,
    task: AbortHandle,
}

/// The state of an attempt.
pub(super) enum AttemptState {
    UnderWay(Attempt),
    Made(PgConnection, Instant),
    /// The error is left out: it may not apply any more.
    Failed,
}

impl Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection ends with the caller's runtime, and so may this task"
    )]
    /// Begins an attempt on the current runtime.
    pub(super) fn begin(connector: &Connector) -> Self {
        let connector = connector.clone();
        let (tell, made) = oneshot::channel();
        let task = tokio::spawn(async move {
            let attempted = connector.attempt().await;
            drop(tell.send(attempted.map(|made| made.map(|connection| (connection, now())))));
        });
        Self { made, task: task.abort_handle() }
    }

    /// Returns the state, without waiting.
    pub(super) fn state(mut self) -> AttemptState {
        match self.made.try_recv() {
            Ok(Ok(Some((connection, since)))) => AttemptState::Made(connection, since),
            Err(TryRecvError::Empty) => AttemptState::UnderWay(self),
            Ok(_) | Err(TryRecvError::Closed) => AttemptState::Failed,
        }
    }

    /// Waits for the end of the attempt. A caller may wait again after an earlier wait was dropped.
    ///
    /// # Errors
    /// The reason why there is no connection. Nothing was sent.
    pub(super) async fn end(&mut self) -> Result<Option<PgConnection>> {
        let ended = |error| {
            Error::new(ErrorKind::Unavailable, "the runtime of the new connection has ended")
                .with_source(error)
        };
        Ok((&mut self.made).await.map_err(ended)??.map(|(connection, _)| connection))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An attempt to connect that a caller waits for. If the caller goes away before its end, the next
/// caller takes it over.
pub(super) struct Awaited<'a> {
    pub(super) attempt: Option<Attempt>,
    pub(super) local: &'a RuntimeConnections,
}

impl Awaited<'_> {
    /// Waits for the end of the attempt.
    ///
    /// # Errors
    /// As [`Attempt::end`].
    pub(super) async fn end(mut self) -> Result<Option<PgConnection>> {
        let Some(attempt) = &mut self.attempt else { return Ok(None) };
        let made = attempt.end().await;
        self.attempt = None;
        made
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.local.attempts().extend(self.attempt.take());
    }
}
