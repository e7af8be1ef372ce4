//! Limits of rate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use stanchion_core::{
    Decision, Limiter, LimiterOptions, OnMismatch, OutagePolicy, Quota, Result, Store,
};
use tower_layer::Layer;
use tower_service::Service;
use tracing::debug;

use crate::handles::Handles;
use crate::refusal::{Protocol, Reason, number, set};

/// Time after which a client may try again where the store could not decide.
const UNDECIDED: Duration = Duration::from_secs(1);
/// Key of the requests that have none.
const WITHOUT_KEY: &str = "";

type KeyOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;
type QuotaOf = Arc<dyn Fn(&Parts, &str) -> Quota + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// Lets each client send at a rate, over all instances that share the store.
///
/// A request costs one token of the limiter `PREFIX/KEY`. It makes one request to the store, and none while a refusal of that
/// client is known in this process. A refused request gets 429 with `Retry-After`, in whole seconds, rounded up; a gRPC one the status
/// `RESOURCE_EXHAUSTED`. Every answer has the fields `RateLimit-Policy` and `RateLimit` of
/// [draft-ietf-httpapi-ratelimit-headers-10](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/): the quota and the
/// window, what is left of the burst, and in how many seconds the burst is whole.
///
/// # While the store is away
/// The [`outage`](Self::outage) policy decides, within the store's time limit of a request: with `FailClosed`, the default, a request
/// gets 503 with `Retry-After`.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// use axum::Router;
/// use stanchion_core::{OutagePolicy, Quota};
/// use stanchion_tower::{RateLimitLayer, key};
///
/// # fn app(store: Arc<dyn stanchion_core::Store>, has_paid: fn(&str) -> bool) -> Router {
/// let limit = RateLimitLayer::new(store, key::header("x-api-key"), Quota::per_second(10))
///     .quota_by(move |_, key| if has_paid(key) { Quota::per_second(100) } else { Quota::per_second(10) })
///     .cost(|request| if request.uri.path().starts_with("/reports") { 5 } else { 1 })
///     .outage(OutagePolicy::FailOpen);
/// Router::new().layer(limit)
/// # }
/// # let _ = app(Arc::new(stanchion_memory::MemoryStore::new()), |_| true);
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    store: Arc<dyn Store>,
    prefix: Arc<str>,
    key: KeyOf,
    quota: QuotaOf,
    cost: CostOf,
    outage: OutagePolicy,
    legacy_headers: bool,
    handles: Arc<Handles>,
}

impl RateLimitLayer {
    /// Makes a layer that gives each client, by its [key](crate::key), this quota. The limiters' names begin with `http/`.
    pub fn new(
        store: Arc<dyn Store>,
        key: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
        quota: Quota,
    ) -> Self {
        let rules = Rules {
            store,
            prefix: Arc::from("http/"),
            key: Arc::new(key),
            quota: Arc::new(move |_, _| quota),
            cost: Arc::new(|_| 1),
            outage: OutagePolicy::default(),
            legacy_headers: false,
            handles: Arc::default(),
        };
        Self { rules: Arc::new(rules) }
    }

    /// Sets what the limiters' names begin with: layers with the same prefix and key share their limits.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<Arc<str>>) -> Self {
        self.with(|rules| rules.prefix = prefix.into())
    }

    /// Sets the quota by request and key, so that clients with different plans have different ones. A client whose quota changes has
    /// the new one from its next request on, on every instance.
    #[must_use]
    pub fn quota_by(self, quota: impl Fn(&Parts, &str) -> Quota + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.quota = Arc::new(quota))
    }

    /// Sets what a request costs, in tokens; 0 is free, and makes no request to the store (default: 1).
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.cost = Arc::new(cost))
    }

    /// Sets what decides while the store is away (default: `FailClosed`, which refuses with 503).
    #[must_use]
    pub fn outage(self, outage: OutagePolicy) -> Self {
        self.with(|rules| rules.outage = outage)
    }

    /// Sets whether answers have the older `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, too (default: no).
    #[must_use]
    pub fn legacy_headers(self, legacy_headers: bool) -> Self {
        self.with(|rules| rules.legacy_headers = legacy_headers)
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl Rules {
    /// Decides about a request; `None` if it is free.
    ///
    /// # Errors
    /// That of the store, where the policy returns it.
    async fn decide(&self, name: String, quota: Quota, cost: u64) -> Result<Option<Decision>> {
        if cost == 0 {
            return Ok(None);
        }
        let open = |name: &str| -> Result<Arc<dyn Limiter>> {
            let options = LimiterOptions::new(quota).outage(self.outage).on_mismatch(OnMismatch::Replace);
            self.store.limiter(name, options)
        };
        self.handles.get(name, quota, open)?.allow_n(cost).await.map(Some)
    }

    fn describe(&self, headers: &mut HeaderMap, decision: &Decision, quota: &Quota) {
        for (name, value) in decision.headers(quota) {
            set(headers, name, &value);
        }
        if self.legacy_headers {
            set(headers, "x-ratelimit-limit", &decision.limit.to_string());
            set(headers, "x-ratelimit-remaining", &decision.remaining.to_string());
            let reset = decision.reset_after.as_secs() + u64::from(decision.reset_after.subsec_nanos() > 0);
            headers.insert("x-ratelimit-reset", number(reset));
        }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner, rules: Arc::clone(&self.rules) }
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { prefix, outage, .. } = &*self.rules;
        f.debug_struct("RateLimitLayer").field("prefix", prefix).field("outage", outage).finish_non_exhaustive()
    }
}

/// A service whose clients send at a limited rate: see [`RateLimitLayer`].
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let rules = Arc::clone(&self.rules);
        let key = (rules.key)(&parts).unwrap_or_else(|| WITHOUT_KEY.to_owned());
        let (quota, cost) = ((rules.quota)(&parts, &key), (rules.cost)(&parts));
        let (name, protocol) = (format!("{}{key}", rules.prefix), Protocol::of(&parts));
        let next = self.inner.clone();
        // The one that is ready.
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let decision = match rules.decide(name, quota, cost).await {
                Ok(decision) => decision,
                Err(error) => {
                    debug!(%error, "a request is refused: its limiter gave no decision");
                    return Ok(protocol.refusal(Reason::Undecided, UNDECIDED));
                }
            };
            let mut response = match &decision {
                Some(decision) if !decision.allowed => {
                    protocol.refusal(Reason::TooMany, decision.retry_after.unwrap_or_default())
                }
                _ => inner.call(Request::from_parts(parts, body)).await?,
            };
            if let Some(decision) = decision {
                rules.describe(response.headers_mut(), &decision, &quota);
            }
            Ok(response)
        })
    }
}
