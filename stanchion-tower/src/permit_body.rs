//! The body of a response that keeps a permit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{FencingToken, Permit};

/// The permit of a request: an extension of it. Where a connection is upgraded, to a WebSocket for
/// instance, the answer ends with its head, and the permit with it, unless the handler keeps this
/// for as long as it serves the connection. The permit is given back with the last clone. Within
/// several layers it is the permits of all of them.
///
/// # Examples
/// ```
/// use axum::Extension;
/// use stanchion_tower::HeldPermit;
///
/// async fn export(Extension(permit): Extension<HeldPermit>) -> &'static str {
///     tokio::spawn(async move {
///         // … serves the upgraded connection, or goes on after the answer.
///         drop(permit);
///     });
///     "begun"
/// }
/// # let _: axum::Router = axum::Router::new().route("/", axum::routing::get(export));
/// ```
#[derive(Clone, Debug)]
pub struct HeldPermit(Arc<(Permit, Option<HeldPermit>)>);

impl HeldPermit {
    /// `outer` is that of the layers around.
    pub(crate) fn new(permit: Permit, outer: Option<Self>) -> Self {
        Self(Arc::new((permit, outer)))
    }

    /// Whether the permit, and those of the layers around, are held: not, once a lease has ended or
    /// an operator has released one. It answers without I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let (permit, outer) = &*self.0;
        permit.is_held() && outer.as_ref().is_none_or(Self::is_held)
    }

    /// Returns the token by which a resource can refuse older holders: that of the innermost layer.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.0.0.fencing_token()
    }
}

pin_project! {
    /// A body that keeps a permit of a semaphore until its end, or until it is dropped: when the
    /// client goes away, its server drops the body.
    #[derive(Debug)]
    pub struct PermitBody<B> {
        #[pin]
        body: B,
        permit: Option<HeldPermit>,
    }
}

impl<B> PermitBody<B> {
    pub(crate) fn new(body: B, permit: Option<HeldPermit>) -> Self {
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

impl<B: From<String>> From<String> for PermitBody<B> {
    fn from(body: String) -> Self {
        Self::new(B::from(body), None)
    }
}
