//! The rights to see and to free.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_lock::Mutex;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderName};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use sha2::{Digest as _, Sha256};
use stanchion_core::clock::sleep;
use stanchion_core::observe::events::Seldom;
use stanchion_core::{Error, Result};

use crate::App;
use crate::api::Refusal;
use crate::page;

#[derive(Debug, Default)]
pub(crate) struct Access {
    token: Option<Token>,
    /// The token has characters that no request can show.
    is_bad: bool,
    pub(crate) protects_reads: bool,
    /// The label of a user that frees a lock.
    pub(crate) unlock: Option<String>,
    hosts: Option<Vec<String>>,
    guesses: Guesses,
}

/// Time between two answers to wrong tokens, and between two warnings.
const BETWEEN_GUESSES: Duration = Duration::from_millis(250);
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);
/// Number of requests with a wrong token that wait at most.
const MOST_WAITING: usize = 32;

/// Requests that show a wrong token.
#[derive(Debug)]
struct Guesses {
    turn: Mutex<()>,
    waiting: AtomicUsize,
    warning: Seldom,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { turn: Mutex::new(()), waiting: AtomicUsize::new(0), warning: Seldom::new(BETWEEN_WARNINGS) }
    }
}

/// One request among those that wait, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(all)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hash of a token: the time that a comparison of hashes takes says nothing about the token.
struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Access {
    pub(crate) fn set_token(&mut self, token: &str) {
        // A header can carry no others, and a browser sends no others in one.
        self.is_bad = !token.bytes().all(|byte| byte.is_ascii_graphic());
        self.token = (!token.is_empty()).then(|| Token(hash(token.as_bytes())));
    }

    pub(crate) fn set_hosts(&mut self, hosts: impl Iterator<Item = String>) {
        self.hosts = Some(hosts.map(|host| without_port(&host).to_owned()).collect());
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.token {
            None if self.unlock.is_some() => {
                Err(Error::invalid_argument("a dashboard that frees locks needs a token"))
            }
            None if self.protects_reads => {
                Err(Error::invalid_argument("reads need a token, and there is none"))
            }
            _ if self.is_bad => {
                Err(Error::invalid_argument("a token has letters, digits and punctuation of ASCII only"))
            }
            _ => Ok(()),
        }
    }

    /// Lets a request through that shows the token. A browser sends this header for no other site.
    ///
    /// # Errors
    /// A refusal: at once without a token; after a pause with a wrong one, of which all clients
    /// together have four in a second, and a `warn` every 10 s at most; at once, and as too many,
    /// where a number of them waits.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> std::result::Result<(), Refusal> {
        let shown = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let Some(shown) = shown else { return Err(Refusal::unauthorized()) };
        let token = shown.split_at_checked(BEARER.len());
        let token =
            token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER)).map(|(_, token)| hash(token));
        if self.token.as_ref().is_some_and(|expected| token == Some(expected.0)) {
            return Ok(());
        }
        if self.guesses.warning.is_due() {
            tracing::warn!(name: "stanchion.web.wrong_token", "a request showed a wrong token");
        }
        if self.guesses.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens are shown"));
        }
        let _waiting = Waiting::begin(&self.guesses.waiting);
        let _turn = self.guesses.turn.lock().await;
        sleep(BETWEEN_GUESSES).await;
        Err(Refusal::unauthorized())
    }

    fn answers(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let host = host(uri, headers).map(without_port);
        host.is_some_and(|host| hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    }
}

const BEARER: &[u8] = b"Bearer ";

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns the host that a request is for, with its port: HTTP/2 has no header for it.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.authority().map(Authority::as_str).or_else(|| text(headers, header::HOST))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether a page of another site made the request. Programs do not send these headers. A
/// browser sends `Sec-Fetch-Site`, if the page came by TLS or from its own machine; a proxy in
/// between may have changed the host.
fn is_cross_site(uri: &Uri, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.is_none_or(|(_, origin)| Some(origin) != host(uri, headers))
}

/// Returns whether a browser goes to the answer as to a page of its own, by a link for instance.
/// The page before learns nothing of it.
fn is_visit(request: &Request) -> bool {
    let says = |name: &str, value: &str| request.headers().get(name).is_some_and(|said| said == value);
    request.method().is_safe() && says("sec-fetch-mode", "navigate") && says("sec-fetch-dest", "document")
}

/// Refuses requests that are not allowed, and lets the answers use files of this router alone, in a
/// browser.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let access = &app.access;
    let is_page = page::is_file(request.uri().path());
    let mut response = if !access.answers(request.uri(), request.headers()) {
        Refusal::new(StatusCode::MISDIRECTED_REQUEST, "this dashboard does not answer for this host")
            .into_response()
    } else if !is_page && is_cross_site(request.uri(), request.headers()) && !is_visit(&request) {
        Refusal::new(StatusCode::FORBIDDEN, "pages of other sites are not answered").into_response()
    } else if access.protects_reads && !is_page {
        match access.admit(request.headers()).await {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        }
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_its_port() {
        for (host, name) in [("a.b:80", "a.b"), ("a.b", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let mut access = Access::default();
        access.set_token("secret");
        assert!(!format!("{access:?}").contains("secret"));
        access.set_token("");
        assert!(access.token.is_none(), "an empty token protects nothing");
    }
}
