//! The body of a response that keeps a permit.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Permit;

pin_project! {
    /// A body that keeps a permit of a semaphore until its end, or until it is dropped: when the
    /// client goes away, its server drops the body.
    #[derive(Debug)]
    pub struct PermitBody<B> {
        #[pin]
        body: B,
        permit: Option<Permit>,
    }
}

impl<B> PermitBody<B> {
    pub(crate) fn new(body: B, permit: Option<Permit>) -> Self {
        Self { body, permit }
    }
}

impl<B: Body> Body for PermitBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let body = self.project();
        let frame = ready!(body.body.poll_frame(cx));
        if frame.is_none() {
            // Dropped, it queues the release: the end of a body must not wait for the store.
            drop(body.permit.take());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Default> Default for PermitBody<B> {
    fn default() -> Self {
        Self::new(B::default(), None)
    }
}
