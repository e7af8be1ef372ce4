//! Answers to requests that are refused.

use std::mem;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use stanchion_core::observe::events::Seldom;
use stanchion_core::{Error, ErrorKind};

/// Time after which a client may come again, if no better time is known.
const SOON: Duration = Duration::from_secs(1);
/// Minimum time between two warnings.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

/// The gRPC status `RESOURCE_EXHAUSTED`.
const EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
/// The gRPC status `UNAVAILABLE`.
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
/// The gRPC status `INTERNAL`.
const INTERNAL: HeaderValue = HeaderValue::from_static("13");
const GRPC: &str = "application/grpc";
/// When a gRPC client may repeat a call, in ms.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
/// A refusal is that of a moment, and of one client.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Why a layer refused a request. Each response that a layer makes by itself has it as an
/// extension, so that a service can give it a body of its own.
///
/// # Examples
/// With axum:
///
/// ```
/// use axum::middleware::map_response;
/// use axum::response::{IntoResponse, Response};
/// use stanchion_tower::Refused;
///
/// async fn explain(response: Response) -> Response {
///     let (status, headers) = (response.status(), response.headers().clone());
///     match response.extensions().get::<Refused>() {
///         Some(refused) => (status, headers, format!("try again in {:?}", refused.retry_after())).into_response(),
///         None => response,
///     }
/// }
///
/// // Around the limit.
/// let app: axum::Router = axum::Router::new().layer(map_response(explain));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The client has sent too much.
    Rate {
        /// Time after which it may come again; `None` if the request costs more than the burst.
        retry_after: Option<Duration>,
    },
    /// The service is full.
    Full,
    /// The store is away, and the policy is to refuse then.
    StoreAway,
    /// The limit cannot be used, and waiting does not mend that.
    Broken,
}

impl Refused {
    /// Returns the time after which the client may come again, if that helps.
    #[must_use]
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Rate { retry_after } => retry_after,
            // The time at which there is a permit or a store again is not known.
            Self::Full | Self::StoreAway => Some(SOON),
            Self::Broken => None,
        }
    }
}

/// Logs the errors of a layer's store: permanent ones at `warn`, once in 10 s at most.
#[derive(Debug)]
pub(crate) struct Failures(Seldom);

impl Default for Failures {
    fn default() -> Self {
        Self(Seldom::new(BETWEEN_WARNINGS))
    }
}

impl Failures {
    /// Returns why a request is refused after an error.
    pub(crate) fn reason(&self, error: &Error) -> Refused {
        match error.kind() {
            ErrorKind::Overloaded => Refused::Full,
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Timeout => {
                tracing::debug!(
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "a request is refused: the store gave no answer"
                );
                Refused::StoreAway
            }
            _ => {
                if self.0.is_due() {
                    tracing::warn!(
                        name: "stanchion.tower.broken",
                        {
                            error.type = error.kind().as_str(),
                            exception.message = ?error,
                        },
                        "requests fail: their limit cannot be used"
                    );
                }
                Refused::Broken
            }
        }
    }
}

/// Takes the service that is ready, and leaves another one.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let next = service.clone();
    mem::replace(service, next)
}

/// How a request wants to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    /// The content type of a gRPC or gRPC-Web request.
    grpc: Option<HeaderValue>,
}

impl Protocol {
    /// A call of gRPC is a `POST` by HTTP/2 or later; that of a browser, gRPC-Web, by any version.
    /// Whatever else has such a content type is refused as other requests are: an intermediary
    /// takes the head of a refused call for a success.
    pub(crate) fn of(request: &Parts) -> Self {
        let is_call = |kind: &str| {
            let rest = kind.strip_prefix(GRPC)?;
            let (is_web, rest) = rest.strip_prefix("-web").map_or((false, rest), |rest| (true, rest));
            let rest = rest.strip_prefix("-text").filter(|_| is_web).unwrap_or(rest);
            let is_whole = rest.is_empty() || rest.starts_with(['+', ';']);
            Some(is_whole && (is_web || request.version >= Version::HTTP_2))
        };
        let kind = request.headers.get(CONTENT_TYPE).filter(|_| request.method == Method::POST);
        let kind = kind.filter(|kind| kind.to_str().ok().and_then(is_call).unwrap_or_default());
        Self { grpc: kind.cloned() }
    }

    /// Makes the answer to a refused request. With a gRPC request that is a status in the head of
    /// the answer.
    pub(crate) fn refusal<B: Default>(self, reason: Refused) -> Response<B> {
        let mut response = Response::new(B::default());
        response.extensions_mut().insert(reason);
        if self.grpc.is_none() {
            *response.status_mut() = match reason {
                Refused::Rate { .. } => StatusCode::TOO_MANY_REQUESTS,
                Refused::Full | Refused::StoreAway => StatusCode::SERVICE_UNAVAILABLE,
                Refused::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            };
        }
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, NO_STORE);
        if matches!(reason, Refused::Full | Refused::StoreAway) {
            headers.insert(RETRY_AFTER, HeaderValue::from(SOON.as_secs()));
        }
        if let Some(content_type) = self.grpc {
            let status = match reason {
                Refused::Rate { .. } => EXHAUSTED,
                Refused::Full | Refused::StoreAway => UNAVAILABLE,
                Refused::Broken => INTERNAL,
            };
            headers.insert(CONTENT_TYPE, content_type);
            headers.insert(HeaderName::from_static("grpc-status"), status);
            if let Some(time) = reason.retry_after() {
                let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
                headers.insert(HeaderName::from_static(PUSHBACK), HeaderValue::from(milliseconds));
            } else if matches!(reason, Refused::Rate { .. }) {
                // It costs more than the burst: a repetition is refused, too.
                headers.insert(HeaderName::from_static(PUSHBACK), HeaderValue::from_static("-1"));
            }
        }
        response
    }
}

/// Sets a header to a value that this crate has made.
pub(crate) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Makes a `Retry-After` in seconds, and the pushback of a gRPC call, no earlier than that.
pub(crate) fn put_off(headers: &mut HeaderMap, seconds: u64) {
    let milliseconds = seconds.saturating_mul(1_000);
    for (name, least) in [(RETRY_AFTER.as_str(), seconds), (PUSHBACK, milliseconds)] {
        let there = headers.get(name).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if there.is_some_and(|there| there < least) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(least));
        }
    }
}

/// Adds items to a list of strings, in one field: some readers take the first one only. What is no
/// such list, as the fields of an older draft are, would make all of it unreadable, and goes.
pub(crate) fn append(headers: &mut HeaderMap, name: &'static str, items: &str) {
    let before = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
    let before = before.filter(|list| list.starts_with(b"\""));
    let list = before.chain([items.as_bytes()]).collect::<Vec<_>>().join(&b", "[..]);
    if let Ok(value) = HeaderValue::from_bytes(&list) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
