//! Replies to callers' requests.

use stanchion_core::clock::{Instant, timeout_at};
use stanchion_core::spi::Acquired;
use stanchion_core::{Error, ErrorKind, FencingToken, Result};
use tokio::sync::oneshot;

use super::messages::ReplySender;

/// The reply to a request, or how to wait for it.
#[derive(Debug)]
pub(super) enum Reply<T> {
    Now(Result<T>),
    /// The reply comes later; the number is that of the request.
    Later(u64, oneshot::Receiver<Result<T>>),
    /// The reply depends on whether a session is alive. The receiver gets the time at which the
    /// probe that was answered was sent.
    AfterProbe(oneshot::Receiver<Result<Instant>>),
}

/// Waits for the reply to one request of a batch; without one the outcome is unknown.
pub(super) async fn wait_for_reply<T>(answer: oneshot::Receiver<Result<T>>, end: Instant) -> Result<T> {
    match timeout_at(end, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(unknown()),
    }
}

/// Replies to each caller with the same error.
pub(super) fn fail_all<T>(replies: impl IntoIterator<Item = ReplySender<T>>, error: &Error) {
    for reply in replies {
        // A caller that has gone has no use for its answer.
        drop(reply.send(Err(error.replicate())));
    }
}

pub(super) fn unknown() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

pub(super) fn waiting(epoch: u64) -> Acquired {
    Acquired::Waiting { limit: 1, epoch }
}

pub(super) fn granted(token: FencingToken) -> Acquired {
    Acquired::Granted { token, limit: 1, epoch: 0 }
}
