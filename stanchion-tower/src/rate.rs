//! Limits of rate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use sha2::{Digest, Sha256};
use stanchion_core::clock;
use stanchion_core::{
    Decision, Error, ErrorKind, Limiter, LimiterOptions, OnMismatch, OutagePolicy, Quota, QuotaPolicy,
    Result, Store,
};
use tower_layer::Layer;
use tower_service::Service;

use crate::claims::{Claim, claim};
use crate::handles::Handles;
use crate::key::Key;
use crate::problem::Violated;
use crate::refusal::{Failures, Protocol, Refused, append, put_off, set, take_ready};

/// Maximum length of a key that is a part of a name as it is, in bytes.
const LONGEST_KEY: usize = 128;
/// Maximum length of a prefix, in bytes: a name has 512.
const LONGEST_PREFIX: usize = 380;

type KeyOf = Arc<dyn Fn(&Parts) -> Key + Send + Sync>;
type QuotaOf = Arc<dyn Fn(&Parts, &str) -> Option<Quota> + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// Lets each client send at a rate, over all instances that share the store.
///
/// A request costs one token of its key's limiter. It makes one request to the store, and none
/// while a refusal of that client is known in this process. A refused request gets 429 with
/// `Retry-After`, in whole seconds, rounded up; a gRPC request gets the status `RESOURCE_EXHAUSTED`
/// (put the layer around one that translates gRPC-Web: within, such a call is not told from
/// others). A request that costs more than the burst is refused without `Retry-After`. An answer
/// after a decision of the limiter has the fields `RateLimit-Policy` and `RateLimit` of
/// [draft-ietf-httpapi-ratelimit-headers-10](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/),
/// as [`QuotaPolicy::fields`] writes them, behind the items of those that decided inside of this
/// layer. [`ProblemLayer`](crate::ProblemLayer) gives refusals a body.
///
/// # Keys
/// Requests without a key share one limiter, and [`quota_by`](Self::quota_by) gets an empty key for
/// them, as for the one limit of [`key::all`](crate::key::all). Check the key before this layer, in
/// axum by adding the layer that checks it after this one: else each invented key has a burst of
/// its own, and a record at the store. A limiter's name is the prefix, the key, and `:N`, where `N`
/// is the length of the prefix in bytes, so that no key reaches the limiter of another layer:
/// `api/a-key:4`. Keys over 128 bytes are replaced by their SHA-256, with `#N` behind it; requests
/// without a key have `api/-4`, and all requests together `api/*4`.
///
/// # While the store is away
/// The [`outage`](Self::outage) policy decides, within the store's time limit of a request, 2 s
/// unless `request_timeout_ms` in its URL sets another; `FailOpen` and `LocalShare` at once where
/// the store is known to be away. With `FailClosed`, the default, a request gets 503 with
/// `Retry-After`. An error that waiting does not mend, such as a closed store or a role without
/// rights, is 500, and a `warn` every 10 s at most.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// use axum::Router;
/// use stanchion::{OutagePolicy, Quota};
/// use stanchion_tower::{RateLimitLayer, key};
///
/// # fn app(store: Arc<dyn stanchion::Store>, has_paid: fn(&str) -> bool) -> stanchion::Result<Router> {
/// let limit = RateLimitLayer::new(store, "api/", key::header("x-api-key"), Quota::per_second(10))?
///     .quota_by(move |_, key| if has_paid(key) { Quota::per_second(100) } else { Quota::per_second(10) })
///     .cost(|request| if request.uri.path().starts_with("/reports") { 5 } else { 1 })
///     .outage(OutagePolicy::FailOpen);
/// # Ok(
/// Router::new().layer(limit)
/// # )
/// # }
/// # let _ = app(Arc::new(stanchion_memory::MemoryStore::new()), |_| true);
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    /// Keeps other layers from the limiters. Dropped before the store.
    _claim: Arc<Claim>,
    store: Arc<dyn Store>,
    prefix: Arc<str>,
    key: KeyOf,
    quota: QuotaOf,
    cost: CostOf,
    outage: OutagePolicy,
    /// As the prefix names it, and as the user does.
    default_policy: QuotaPolicy,
    policy: Option<QuotaPolicy>,
    legacy_headers: bool,
    handles: Arc<Handles>,
    failures: Arc<Failures>,
}

impl RateLimitLayer {
    /// Makes a layer that gives each client, by its [key](crate::key), this quota. `prefix` begins
    /// the names of its limiters: the instances of a service that have the same one share their
    /// limits. Within a process each layer has a prefix of its own; where several routes share
    /// their limits, they have clones of one layer.
    ///
    /// # Errors
    /// - `InvalidArgument` for a quota that is not exact ([L11](stanchion_core::contract#l11)), or
    ///   a prefix with NUL or of more than 380 bytes.
    /// - `ConfigMismatch` while another layer over the same store object has the same prefix.
    pub fn new<K: Into<Key>>(
        store: Arc<dyn Store>,
        prefix: impl Into<Arc<str>>,
        key: impl Fn(&Parts) -> K + Send + Sync + 'static,
        quota: Quota,
    ) -> Result<Self> {
        quota.validate()?;
        let prefix: Arc<str> = prefix.into();
        if prefix.len() > LONGEST_PREFIX || prefix.contains('\0') {
            let detail = format!(
                "a prefix has at most {LONGEST_PREFIX} bytes, and no NUL, not {}",
                Error::shown(&prefix)
            );
            return Err(Error::invalid_argument(detail));
        }
        let name = prefix.trim_end_matches(|end: char| !end.is_alphanumeric());
        let default_policy = QuotaPolicy::new(name).or_else(|_| QuotaPolicy::new("default"))?;
        let claim = claim(&store, &prefix)?;
        let rules = Rules {
            _claim: claim,
            store,
            prefix,
            key: Arc::new(move |parts| key(parts).into()),
            quota: Arc::new(move |_, _| Some(quota)),
            cost: Arc::new(|_| 1),
            outage: OutagePolicy::default(),
            default_policy,
            policy: None,
            legacy_headers: false,
            handles: Arc::default(),
            failures: Arc::default(),
        };
        Ok(Self { rules: Arc::new(rules) })
    }

    /// Sets the quota by request and key, a `Quota` or an `Option` of one, so that clients with
    /// different plans have different ones. For `None` there is no limit, and no request to the
    /// store. A client whose quota changes has the new quota from its next request on. If instances
    /// differ, as while a new version is rolled out, the quota of the instance that compared last
    /// is in force; each instance compares again after 10 s at the earliest. There is one limiter
    /// for each key: requests of one key that shall have different quotas at the same time need
    /// layers with different prefixes.
    #[must_use]
    pub fn quota_by<Q>(self, quota: impl Fn(&Parts, &str) -> Q + Send + Sync + 'static) -> Self
    where
        Q: Into<Option<Quota>>,
    {
        self.with(|rules| rules.quota = Arc::new(move |parts, key| quota(parts, key).into()))
    }

    /// Sets the cost of a request, in tokens; 0 is free, and makes no request to the store
    /// (default: 1). Clients read the unit `tokens` then, unless a [`policy`](Self::policy) is set.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|rules| {
            rules.cost = Arc::new(cost);
            if let Ok(policy) = rules.default_policy.clone().unit("tokens") {
                rules.default_policy = policy;
            }
        })
    }

    /// Sets the name and the unit that clients read in the fields `RateLimit-Policy` and
    /// `RateLimit` (default: the prefix without the punctuation at its end, `api` for `api/`, or
    /// `default` where that is empty, longer than 128 bytes or no printable ASCII). Layers around
    /// one service that would have one name, as for `user/` and `user:`, need names of their own.
    ///
    /// # Examples
    /// ```
    /// # use std::sync::Arc;
    /// use stanchion::{Quota, QuotaPolicy};
    /// use stanchion_tower::{RateLimitLayer, key};
    ///
    /// # fn uploads(store: Arc<dyn stanchion::Store>, size: fn(&http::request::Parts) -> u64) -> stanchion::Result<()> {
    /// let quota = Quota::per_minute(10_000_000);
    /// let uploads = RateLimitLayer::new(store, "uploads/", key::header("x-user"), quota)?
    ///     .cost(size)
    ///     .policy(QuotaPolicy::new("uploads")?.unit("content-bytes")?);
    /// # let _ = uploads;
    /// # Ok(())
    /// # }
    /// # uploads(Arc::new(stanchion_memory::MemoryStore::new()), |_| 1).unwrap();
    /// ```
    #[must_use]
    pub fn policy(self, policy: QuotaPolicy) -> Self {
        self.with(|rules| rules.policy = Some(policy))
    }

    /// Sets the policy for the time while the store is away (default: `FailClosed`, which refuses
    /// with 503).
    #[must_use]
    pub fn outage(self, outage: OutagePolicy) -> Self {
        self.with(|rules| rules.outage = outage)
    }

    /// Sets whether answers have the older `X-RateLimit-Limit`, `X-RateLimit-Remaining` and
    /// `X-RateLimit-Reset`, too, unless a layer inside has set them: the burst, the rest of it, and
    /// the number of seconds until it is whole (default: no).
    #[must_use]
    pub fn legacy_headers(self, legacy_headers: bool) -> Self {
        self.with(|rules| rules.legacy_headers = legacy_headers)
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        let rules = Arc::make_mut(&mut self.rules);
        // The limiters of a clone may have another policy.
        rules.handles = Arc::default();
        change(rules);
        self
    }
}

impl Rules {
    /// Decides about a request; `None` if it is free.
    ///
    /// # Errors
    /// That of the store, where the policy returns it.
    async fn decide(&self, name: &str, quota: Quota, cost: u64) -> Result<Option<Decision>> {
        if cost == 0 {
            return Ok(None);
        }
        let open = || -> Result<Arc<dyn Limiter>> {
            let options = LimiterOptions::new(quota).outage(self.outage).on_mismatch(OnMismatch::Replace);
            self.store.limiter(name, options)
        };
        let decision = match self.handles.get(name, quota, open)?.allow_n(cost).await {
            // Another instance has put a quota in force whose burst is smaller than the cost.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                self.handles.forget(name);
                self.handles.get(name, quota, open)?.allow_n(cost).await?
            }
            decided => decided?,
        };
        if decision.allowed {
            self.handles.forget_old(name);
        }
        Ok(Some(decision))
    }

    /// Returns the name of the limiter of a key. It begins with the prefix, and its end shows the
    /// form and the length of the prefix: no two prefixes or forms have a name in common.
    fn name(&self, key: &Key) -> String {
        let (prefix, length) = (&self.prefix, self.prefix.len());
        match key {
            Key::Missing => format!("{prefix}-{length}"),
            Key::All => format!("{prefix}*{length}"),
            Key::Client(key) if key.len() <= LONGEST_KEY && !key.contains('\0') => {
                format!("{prefix}{key}:{length}")
            }
            Key::Client(key) => {
                let hash = Sha256::digest(key);
                let digits = hash.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
                format!("{prefix}{digits}#{length}")
            }
        }
    }

    fn policy(&self) -> &QuotaPolicy {
        self.policy.as_ref().unwrap_or(&self.default_policy)
    }

    fn describe(&self, headers: &mut HeaderMap, decision: &Decision, quota: &Quota) {
        for (name, value) in self.policy().fields(quota, decision) {
            // Only who refuses says when to come again.
            if name == RETRY_AFTER { set(headers, name, &value) } else { append(headers, name, &value) }
        }
        // A layer inside knows nothing of this one's bucket: who comes back by its time alone would
        // be refused here.
        if let (true, 0, Some(more)) =
            (decision.allowed, decision.remaining, self.policy().more_after_secs(quota, decision))
        {
            put_off(headers, more);
        }
        if self.legacy_headers && !headers.contains_key("x-ratelimit-limit") {
            set(headers, "x-ratelimit-limit", &decision.limit.to_string());
            set(headers, "x-ratelimit-remaining", &decision.remaining.to_string());
            set(headers, "x-ratelimit-reset", &decision.reset_after_secs().to_string());
        }
    }

    /// Makes the answer of a request that this layer refuses.
    fn refusal<R: Default>(&self, protocol: Protocol, retry_after: Option<Duration>) -> Response<R> {
        let mut response = protocol.refusal(Refused::Rate { retry_after });
        response.extensions_mut().insert(Violated(self.policy().clone()));
        response
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
        f.debug_struct("RateLimitLayer")
            .field("prefix", prefix)
            .field("outage", outage)
            .finish_non_exhaustive()
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
        let key = (rules.key)(&parts);
        let quota = (rules.quota)(&parts, key.text());
        let (cost, protocol) = ((rules.cost)(&parts), Protocol::of(&parts));
        let name = rules.name(&key);
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let Some(quota) = quota else { return inner.call(Request::from_parts(parts, body)).await };
            if cost > quota.burst_tokens() {
                return Ok(rules.refusal(protocol, None));
            }
            let decision = match rules.decide(&name, quota, cost).await {
                Ok(decision) => decision,
                Err(error) => return Ok(protocol.refusal(rules.failures.reason(&error))),
            };
            let decided = clock::now();
            let mut response = match &decision {
                Some(decision) if !decision.allowed => rules.refusal(protocol, decision.retry_after),
                _ => inner.call(Request::from_parts(parts, body)).await?,
            };
            if let Some(mut decision) = decision {
                let since = decided.elapsed();
                decision.reset_after = decision.reset_after.saturating_sub(since);
                rules.describe(response.headers_mut(), &decision, &quota);
            }
            Ok(response)
        })
    }
}
