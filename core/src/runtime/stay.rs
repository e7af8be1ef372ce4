//! Work that one runtime drives.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, Id};

use crate::{Error, ErrorKind};

/// Awaits work on a connection of one runtime: `None` as soon as another one polls it. The first
/// may live on and drive nothing, so that the work would get no answer.
#[derive(Debug)]
pub struct Stay<'a, F> {
    work: Pin<&'a mut F>,
    /// The runtime that polled it first.
    on: Option<Option<Id>>,
}

impl<'a, F: Future> Stay<'a, F> {
    /// Makes the wait for that work, which stays with the runtime that polls it first.
    pub fn new(work: Pin<&'a mut F>) -> Self {
        Self { work, on: None }
    }
}

/// Returns the error of a request that another runtime went on with. The kind says whether it was
/// sent.
#[must_use]
pub fn moved(kind: ErrorKind) -> Error {
    Error::new(kind, "another runtime went on with the call")
}

impl<F: Future> Future for Stay<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let current = Handle::try_current().ok().map(|current| current.id());
        if *self.on.get_or_insert(current) != current {
            return Poll::Ready(None);
        }
        self.work.as_mut().poll(cx).map(Some)
    }
}
