//! Bodies of refusals.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use stanchion_core::QuotaPolicy;
use tower_layer::Layer;
use tower_service::Service;

use crate::Refused;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The type of problem that draft-ietf-httpapi-ratelimit-headers-10 registers.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The policy that a refused request has violated: an extension of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Violated(pub(crate) QuotaPolicy);

/// Gives the refusals of the layers inside a body of `application/problem+json` ([RFC 9457]), for
/// clients that read one: its `type`, `title`, `status` and `detail`, and after a refusal of a
/// limit of rate the draft's type `quota-exceeded` with the names of the policy in
/// `violated-policies`. The refusal of a gRPC call has no body; other answers stay as they are. The
/// body of the service must be one that a `String` becomes.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// use axum::Router;
/// use stanchion::Quota;
/// use stanchion_tower::{LayerExt, ProblemLayer, key};
///
/// # fn app(store: Arc<dyn stanchion::Store>) -> stanchion::Result<Router> {
/// let rate = store.rate_limit("api/", key::header("x-api-key"), Quota::per_second(10))?;
/// # Ok(
/// Router::new().layer(rate).layer(ProblemLayer::new())
/// # )
/// # }
/// # let _ = app(Arc::new(stanchion_memory::MemoryStore::new()));
/// ```
///
/// [RFC 9457]: https://www.rfc-editor.org/rfc/rfc9457
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProblemLayer;

impl ProblemLayer {
    /// Makes the layer.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for ProblemLayer {
    type Service = Problem<S>;

    fn layer(&self, inner: S) -> Problem<S> {
        Problem(inner)
    }
}

/// A service whose refusals have a body: see [`ProblemLayer`].
#[derive(Clone, Debug)]
pub struct Problem<S>(S);

impl<S, B, R> Service<Request<B>> for Problem<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let has_body = request.method() != Method::HEAD;
        let answer = self.0.call(request);
        Box::pin(async move { Ok(explained(answer.await?, has_body)) })
    }
}

fn explained<R: From<String>>(mut response: Response<R>, has_body: bool) -> Response<R> {
    let Some(refused) = response.extensions().get::<Refused>().copied() else { return response };
    // Whoever has described it already knows better; the type is that of the call with gRPC.
    if response.headers().contains_key(CONTENT_TYPE) {
        return response;
    }
    let violated = response.extensions().get::<Violated>().map(|violated| &violated.0);
    let body = problem(refused, response.status(), violated);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    response.map(|_| R::from(if has_body { body } else { String::new() }))
}

fn problem(refused: Refused, status: StatusCode, violated: Option<&QuotaPolicy>) -> String {
    let detail = match refused {
        Refused::Rate { retry_after: None } => "the request costs more than the quota",
        Refused::Rate { .. } => "the quota is used up",
        Refused::Full => "too many requests are under way",
        Refused::StoreAway => "the limit cannot be checked now",
        Refused::Broken => "the limit cannot be checked",
    };
    // A problem without a type of its own is told by its status.
    let (kind, title) = match refused {
        Refused::Rate { .. } => (QUOTA_EXCEEDED, "Quota exceeded"),
        _ => ("about:blank", status.canonical_reason().unwrap_or_default()),
    };
    let violated = violated.map(|policy| format!(r#","violated-policies":[{}]"#, policy.quoted_name()));
    let (status, violated) = (status.as_u16(), violated.unwrap_or_default());
    format!(r#"{{"type":"{kind}","title":"{title}","status":{status},"detail":"{detail}"{violated}}}"#)
}
