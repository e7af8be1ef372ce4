//! Answers to requests that are refused.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// The gRPC status `RESOURCE_EXHAUSTED`.
const EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
/// The gRPC status `UNAVAILABLE`.
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
const GRPC: &[u8] = b"application/grpc";

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The client has sent too many.
    TooMany,
    /// The service is full.
    Full,
    /// The store is away, and the policy is to refuse then.
    Undecided,
}

/// How a request wants to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    is_grpc: bool,
}

impl Protocol {
    pub(crate) fn of(request: &Parts) -> Self {
        let kind = request.headers.get(CONTENT_TYPE);
        Self { is_grpc: kind.is_some_and(|kind| kind.as_bytes().starts_with(GRPC)) }
    }

    /// Makes the answer to a refused request. With a gRPC request that is a status in the head of the answer.
    pub(crate) fn refusal<B: Default>(self, reason: Reason, retry_after: Duration) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, number(whole_seconds(retry_after)));
        if self.is_grpc {
            let status = if reason == Reason::TooMany { EXHAUSTED } else { UNAVAILABLE };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(HeaderName::from_static("grpc-status"), status);
            let milliseconds = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
            headers.insert(HeaderName::from_static("grpc-retry-pushback-ms"), number(milliseconds));
        } else {
            *response.status_mut() = match reason {
                Reason::TooMany => StatusCode::TOO_MANY_REQUESTS,
                Reason::Full | Reason::Undecided => StatusCode::SERVICE_UNAVAILABLE,
            };
        }
        response
    }
}

/// Returns whole seconds, rounded up, at least 1: a client that waits for less would be refused again.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

pub(crate) fn number(number: u64) -> HeaderValue {
    HeaderValue::from(number)
}

/// Sets a header whose value is one that this crate has made.
pub(crate) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
