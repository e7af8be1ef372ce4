//! What the answers of several layers say.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::{Method, Request, Response, StatusCode};
use stanchion_core::{Quota, QuotaPolicy, SemaphoreOptions};
use stanchion_tower::{ConcurrencyLimitLayer, ProblemLayer, RateLimitLayer, key};
use tower::{Service as _, ServiceBuilder, ServiceExt as _};

use crate::common::{HttpClient, memory, serve};

fn limit(prefix: &'static str, quota: Quota) -> RateLimitLayer {
    RateLimitLayer::new(memory(), prefix, key::all(), quota).unwrap().legacy_headers(true)
}

/// A service whose path `/dear` costs 101 tokens of the outer limit.
async fn client(layers: impl FnOnce(Router) -> Router) -> HttpClient {
    let app = Router::new().route("/", get(async || "hello")).route("/dear", get(async || "hello"));
    HttpClient::new(serve(layers(app)).await, false)
}

/// Each layer has an item in both fields, who refuses says when to come again, and what costs more
/// than the burst is told no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_has_the_items_of_all_layers() {
    let inner = limit("user/", Quota::per_hour(1));
    let outer = limit("all/", Quota::per_minute(100));
    let outer = outer.cost(|request| if request.uri.path() == "/dear" { 101 } else { 1 });
    let client = client(|app| app.layer(inner).layer(outer)).await;
    let admitted = client.get("/", "").await;
    let policies = r#""user";q=1;w=3600, "all";q=100;w=60;qu="tokens""#;
    assert_eq!(admitted.field("ratelimit-policy"), policies);
    assert_eq!(admitted.field("ratelimit"), r#""user";r=0;t=3600, "all";r=99;t=1"#);
    assert!(!admitted.headers.contains_key("retry-after"));
    let refused = client.get("/", "").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.field("ratelimit-policy"), policies);
    assert_eq!(refused.parameter("ratelimit", "r"), 0);
    assert!(refused.parameter("ratelimit", "t") <= refused.retry_after().as_secs(), "{refused:?}");
    assert!(refused.retry_after().as_secs() > 3_500, "{refused:?}");
    assert_eq!(refused.headers["x-ratelimit-limit"], "1");
    let never = client.get("/dear", "").await;
    assert_eq!(never.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(never.headers.get("retry-after").is_none(), "{never:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_has_the_name_and_the_unit_that_it_was_given() {
    let plain = limit("a b?/", Quota::per_minute(1));
    let named = QuotaPolicy::new(r#"by "size""#).unwrap().unit("content-bytes").unwrap();
    let named = limit("ä", Quota::per_minute(2)).policy(named).cost(|_| 1);
    let nameless = limit("ö", Quota::per_minute(3));
    let client = client(|app| app.layer(plain).layer(named).layer(nameless)).await;
    let policies = r#""a b";q=1;w=60, "by \"size\"";q=2;w=60;qu="content-bytes", "default";q=3;w=60"#;
    assert_eq!(client.get("/", "").await.field("ratelimit-policy"), policies);
}

/// Refusals get a body that says why, other answers keep theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_a_problem() {
    let rate = limit("user/", Quota::per_hour(1));
    let costly = limit("all/", Quota::per_hour(100));
    let costly = costly.cost(|request| if request.uri.path() == "/dear" { 101 } else { 1 });
    let client = client(|app| app.layer(rate).layer(costly).layer(ProblemLayer::new())).await;
    assert_eq!(client.get("/", "").await.body, "hello");
    let kind = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    for (path, detail, policy) in
        [("/", "the quota is used up", "user"), ("/dear", "the request costs more than the quota", "all")]
    {
        let refused = client.get(path, "").await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.field("content-type"), "application/problem+json");
        let expected = format!(
            r#"{{"type":"{kind}","title":"Quota exceeded","status":429,"detail":"{detail}","violated-policies":["{policy}"]}}"#
        );
        assert_eq!(refused.body, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_without_a_policy_is_a_problem_by_its_status() {
    let store = memory();
    let semaphore = store.semaphore("exports", SemaphoreOptions::new(1)).unwrap();
    let held = semaphore.acquire().await.unwrap();
    let full = ConcurrencyLimitLayer::new(store, "exports", SemaphoreOptions::new(1)).unwrap();
    let full = full.max_wait(Duration::ZERO);
    let client = client(|app| app.layer(full).layer(ProblemLayer::new())).await;
    let refused = client.get("/", "").await;
    let expected = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"too many requests are under way"}"#;
    assert_eq!((refused.status, &refused.body[..]), (StatusCode::SERVICE_UNAVAILABLE, expected.as_bytes()));
    drop(held);
}

/// Who is refused inside does not come back before the outer limit has something again; and what is
/// no list of this draft does not spoil it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_inside_is_put_off_by_a_limit_outside() {
    let busy = async || {
        let fields = [("retry-after", "1"), ("ratelimit", "limit=1, remaining=0"), ("ratelimit-policy", "")];
        (StatusCode::SERVICE_UNAVAILABLE, fields)
    };
    let outer = limit("all/", Quota::per_hour(2));
    let app = Router::new().route("/", get(busy)).layer(outer);
    let client = HttpClient::new(serve(app).await, false);
    assert_eq!(client.get("/", "").await.field("retry-after"), "1");
    let last = client.get("/", "").await;
    assert!(last.retry_after().as_secs() > 1_700, "{last:?}");
    assert!(last.field("ratelimit").starts_with(r#""all";r=0;t="#), "{last:?}");
    assert_eq!(last.field("ratelimit-policy"), r#""all";q=2;w=3600"#);
}

/// The head of a refusal is that of the answer to a `GET`, also where nothing else takes the body
/// of the answer to a `HEAD` away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_head_has_no_body() {
    let limit = limit("all/", Quota::per_hour(1));
    let inner = tower::service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::new())));
    let mut service = ServiceBuilder::new().layer(ProblemLayer::new()).layer(limit).service(inner);
    let request = |method| Request::builder().method(method).body(()).unwrap();
    service.ready().await.unwrap().call(request(Method::GET)).await.unwrap();
    let get = service.ready().await.unwrap().call(request(Method::GET)).await.unwrap();
    let head = service.ready().await.unwrap().call(request(Method::HEAD)).await.unwrap();
    assert_eq!(get.headers()["content-length"], get.body().len().to_string());
    assert_eq!(head.headers()["content-length"], get.headers()["content-length"]);
    assert!(head.body().is_empty() && !get.body().is_empty());
}
