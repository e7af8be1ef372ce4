//! Answers to requests that are refused.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// The gRPC status `RESOURCE_EXHAUSTED`.
const EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
/// The gRPC status `UNAVAILABLE`.
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
/// The gRPC status `INTERNAL`.
const INTERNAL: HeaderValue = HeaderValue::from_static("13");
const GRPC: &str = "application/grpc";

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The client has sent too many.
    TooMany,
    /// The service is full.
    Full,
    /// The store is away, and the policy is to refuse then.
    Undecided,
    /// The limit cannot be used, and waiting does not mend that.
    Broken,
}

/// How a request wants to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    /// The content type of a gRPC or gRPC-Web request.
    grpc: Option<HeaderValue>,
}

impl Protocol {
    pub(crate) fn of(request: &Parts) -> Self {
        let kind = request.headers.get(CONTENT_TYPE);
        Self { grpc: kind.filter(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with(GRPC))).cloned() }
    }

    /// Makes the answer to a refused request. With a gRPC request that is a status in the head of the answer.
    pub(crate) fn refusal<B: Default>(self, reason: Reason, retry_after: Option<Duration>) -> Response<B> {
        let mut response = Response::new(B::default());
        if self.grpc.is_none() {
            *response.status_mut() = match reason {
                Reason::TooMany => StatusCode::TOO_MANY_REQUESTS,
                Reason::Full | Reason::Undecided => StatusCode::SERVICE_UNAVAILABLE,
                Reason::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            };
        }
        let headers = response.headers_mut();
        if let Some(time) = retry_after {
            headers.insert(RETRY_AFTER, number(whole_seconds(time)));
        }
        if let Some(content_type) = self.grpc {
            let status = match reason {
                Reason::TooMany => EXHAUSTED,
                Reason::Full | Reason::Undecided => UNAVAILABLE,
                Reason::Broken => INTERNAL,
            };
            headers.insert(CONTENT_TYPE, content_type);
            headers.insert(HeaderName::from_static("grpc-status"), status);
            if let Some(time) = retry_after {
                let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
                headers.insert(HeaderName::from_static("grpc-retry-pushback-ms"), number(milliseconds));
            }
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
