//! Limits of the requests that run at a time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use stanchion_core::{Permit, Result, Semaphore, SemaphoreOptions, Store};
use tower_layer::Layer;
use tower_service::Service;

use crate::permit_body::{HeldPermit, PermitBody};
use crate::refusal::{Failures, Protocol, Refused, take_ready};

/// Default of the time that a request waits for a permit.
const MAXIMUM_WAIT: Duration = Duration::from_secs(5);

/// Limits the number of requests that run at a time, over all instances that share the store.
///
/// A request takes one permit of a named semaphore, and keeps it until the body of its answer is
/// sent, or the client has gone away. Requests queue first come, first served, over all instances,
/// for [`max_wait`](Self::max_wait) at most; then, and at once where the queue has
/// [`max_waiters`](SemaphoreOptions::max_waiters), the client gets 503 with `Retry-After`, with
/// gRPC the status `UNAVAILABLE`. While the store is away, requests are refused in the same way. An
/// error that waiting does not mend, such as another limit at the store, is 500.
///
/// An upgraded connection, such as a WebSocket, has its permit until the handler has answered,
/// unless the handler keeps [`HeldPermit`], an extension of the request.
///
/// `Retry-After` is always 1 s: the time at which a permit will be free is not known. Where a
/// [`RateLimitLayer`](crate::RateLimitLayer) is around this layer, a request that is refused here
/// has paid its tokens there.
///
/// An instance that is killed keeps the permits of its requests until their lease ends: 30 s,
/// unless [`SemaphoreOptions::ttl`] sets another.
///
/// Limitation: a request is not stopped if its permit is lost, because its lease ended or an
/// operator released it. It runs to its end beside the others.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// use std::time::Duration;
///
/// use axum::Router;
/// use stanchion::SemaphoreOptions;
/// use stanchion_tower::ConcurrencyLimitLayer;
///
/// # fn app(store: Arc<dyn stanchion::Store>) -> stanchion::Result<Router> {
/// let limit = ConcurrencyLimitLayer::new(store, "exports", SemaphoreOptions::new(20).max_waiters(100))?
///     .max_wait(Duration::from_secs(2));
/// Ok(Router::new().layer(limit))
/// # }
/// # app(Arc::new(stanchion_memory::MemoryStore::new())).unwrap();
/// ```
#[derive(Clone)]
pub struct ConcurrencyLimitLayer {
    semaphore: Arc<dyn Semaphore>,
    max_wait: Duration,
    failures: Arc<Failures>,
}

impl ConcurrencyLimitLayer {
    /// Makes a layer over the semaphore with that name, whose requests wait for 5 s at most.
    ///
    /// # Errors
    /// As [`Store::semaphore`].
    pub fn new(store: Arc<dyn Store>, name: &str, options: SemaphoreOptions) -> Result<Self> {
        Ok(Self {
            semaphore: store.semaphore(name, options)?,
            max_wait: MAXIMUM_WAIT,
            failures: Arc::default(),
        })
    }

    /// Sets how long a request waits for a permit; zero does not wait (default: 5 s).
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }
}

impl<S> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> ConcurrencyLimit<S> {
        ConcurrencyLimit { inner, limit: self.clone() }
    }
}

impl fmt::Debug for ConcurrencyLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, max_wait) = (self.semaphore.name(), &self.max_wait);
        f.debug_struct("ConcurrencyLimitLayer").field("name", &name).field("max_wait", max_wait).finish()
    }
}

/// A service with a limit of requests that run at a time: see [`ConcurrencyLimitLayer`].
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit<S> {
    inner: S,
    limit: ConcurrencyLimitLayer,
}

impl ConcurrencyLimitLayer {
    /// Takes a permit.
    ///
    /// # Errors
    /// The reason for the refusal.
    async fn permit(&self) -> std::result::Result<Permit, Refused> {
        match self.semaphore.acquire_for(self.max_wait).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) => Err(Refused::Full),
            Err(error) => Err(self.failures.reason(&error)),
        }
    }
}

impl<S, B, R> Service<Request<B>> for ConcurrencyLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<PermitBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let protocol = Protocol::of(&parts);
        let limit = self.limit.clone();
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let permit = match limit.permit().await {
                Ok(permit) => HeldPermit::new(permit, parts.extensions.remove()),
                Err(reason) => return Ok(protocol.refusal(reason)),
            };
            parts.extensions.insert(permit.clone());
            let response = inner.call(Request::from_parts(parts, body)).await?;
            Ok(response.map(|body| PermitBody::new(body, Some(permit))))
        })
    }
}
