//! Quotas that differ between instances, prefixes, and what a service makes of refusals.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::map_response;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{Request, Response};
use stanchion_core::{ErrorKind, Quota, Store};
use stanchion_memory::MemoryStore;
use stanchion_tower::{RateLimit, RateLimitLayer, Refused, key};
use tower::layer::Layer;
use tower::util::{ServiceFn, service_fn};
use tower::{Service, ServiceExt};

use crate::common::{HttpClient, serve};

type Answer = Ready<Result<Response<()>, Infallible>>;
type Inner = ServiceFn<fn(Request<()>) -> Answer>;

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn answer(_: Request<()>) -> Answer {
    ready(Ok(Response::new(())))
}

/// Sends a request that costs as many tokens as its path has characters. Returns the status and the
/// limit that the answer tells.
async fn ask(service: &mut RateLimit<Inner>, path: &str) -> (u16, Option<String>) {
    let request = Request::get(path).header("x-api-key", "a").body(()).unwrap();
    let response = service.ready().await.unwrap().call(request).await.unwrap();
    let limit = response.headers().get("x-ratelimit-limit").map(|limit| limit.to_str().unwrap().to_owned());
    (response.status().as_u16(), limit)
}

/// As while a new version with larger quotas is rolled out: an old instance puts its own in force
/// once more.
#[tokio::test(start_paused = true)]
async fn what_another_version_put_in_force_is_replaced_again() {
    let store = MemoryStore::new();
    let instance = |burst| {
        let quota = Quota::per_hour(4).burst(burst);
        // Each has connected by itself.
        let limit =
            RateLimitLayer::new(Arc::new(store.client()), "http/", key::header("x-api-key"), quota).unwrap();
        let limit = limit.legacy_headers(true).cost(|request| request.uri.path().len() as u64 - 1);
        limit.layer(service_fn(answer as fn(_) -> _))
    };
    let limit = |burst: u32| Some(burst.to_string());
    let (mut new, mut old) = (instance(40), instance(20));
    assert_eq!(ask(&mut new, "/1").await, (200, limit(40)));
    assert_eq!(ask(&mut old, "/1").await, (200, limit(20)));
    assert_eq!(ask(&mut new, "/1").await, (200, limit(20)), "it follows the store");
    // A request that the old quota cannot admit is one for the new quota.
    assert_eq!(ask(&mut new, "/123456789012345678901").await, (429, limit(40)));
    assert_eq!(ask(&mut old, "/1").await, (200, limit(40)));
    // The old version is gone, and had the last word.
    let mut old = instance(20);
    assert_eq!(ask(&mut old, "/1").await, (200, limit(20)));
    assert_eq!(ask(&mut new, "/1").await, (200, limit(20)));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(ask(&mut new, "/1").await, (200, limit(20)), "this one finds that it is time");
    assert_eq!(ask(&mut new, "/1").await, (200, limit(40)));
}

#[tokio::test]
async fn a_refusal_can_be_given_a_body() {
    let limit = RateLimitLayer::new(memory(), "http/", key::all(), Quota::per_hour(1)).unwrap();
    let explain = map_response(async |response: axum::response::Response| {
        let refused = response.extensions().get::<Refused>().copied();
        refused.map_or(response, |refused| format!("{:?}", refused.retry_after()).into_response())
    });
    let client = HttpClient::new(
        serve(Router::new().route("/", get(async || "hello")).layer(limit).layer(explain)).await,
        false,
    );
    assert_eq!(client.get("/", "").await.body, "hello");
    assert!(client.get("/", "").await.body.starts_with(b"Some(3599"));
}

#[tokio::test]
async fn c19_a_prefix_has_bounds() {
    for prefix in ["x".repeat(381), "nul\0".to_owned()] {
        let limit = RateLimitLayer::new(memory(), prefix, key::all(), Quota::per_hour(1));
        assert_eq!(limit.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn layers_that_would_replace_each_other_s_quota_are_told() {
    let store = memory();
    let layer = |prefix: &'static str, burst| {
        RateLimitLayer::new(Arc::clone(&store), prefix, key::all(), Quota::per_hour(4).burst(burst))
    };
    let first = layer("a/", 4).unwrap();
    let (clone, _other) = (first.clone().cost(|_| 2), layer("b/", 5).unwrap());
    for burst in [4, 5] {
        let told = layer("a/", burst).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::ConfigMismatch, "{told}");
        assert!(told.to_string().contains("a prefix of its own"), "{told}");
    }
    drop(first);
    assert!(layer("a/", 5).is_err(), "its clone is left");
    drop(clone);
    layer("a/", 5).unwrap();
}
