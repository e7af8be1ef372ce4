//! The store is away.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::{OutagePolicy, Quota, SemaphoreOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use stanchion_tower::{ConcurrencyLimitLayer, RateLimitLayer, key};

use crate::common::{HttpClient, serve};

const LIMIT: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l10_the_policy_decides_within_the_time_limit_of_a_request() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let store = RedisStore::builder(&server.url()).unwrap().request_timeout(LIMIT).connect().await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let quota = Quota::per_hour(100);
    let half = OutagePolicy::LocalShare(NonZeroU32::new(2).unwrap());
    let mut clients = Vec::new();
    for (policy, expected) in [
        (OutagePolicy::FailClosed, StatusCode::SERVICE_UNAVAILABLE),
        (OutagePolicy::FailOpen, StatusCode::OK),
        // The local bucket begins empty.
        (half, StatusCode::TOO_MANY_REQUESTS),
    ] {
        let limit = RateLimitLayer::new(Arc::clone(&store), format!("{policy:?}/"), key::all(), quota)
            .unwrap()
            .outage(policy);
        let app = Router::new().route("/", get(async || "hello")).layer(limit);
        let client = HttpClient::new(serve(app).await, false);
        assert_eq!(client.get("/", "").await.status, StatusCode::OK);
        clients.push((client, expected));
    }
    let limit = ConcurrencyLimitLayer::new(Arc::clone(&store), "exports", SemaphoreOptions::new(1)).unwrap();
    let app = Router::new().route("/", get(async || "hello")).layer(limit.max_wait(LIMIT));
    let client = HttpClient::new(serve(app).await, false);
    assert_eq!(client.get("/", "").await.status, StatusCode::OK);
    clients.push((client, StatusCode::SERVICE_UNAVAILABLE));

    server.kill().unwrap();
    for (client, expected) in clients {
        for _ in 0..3 {
            let watch = Stopwatch::start();
            let answer = client.get("/", "").await;
            assert_eq!(answer.status, expected);
            assert!(watch.elapsed() < LIMIT + EPSILON, "{:?}", watch.elapsed());
            if expected != StatusCode::OK {
                assert!(answer.retry_after() >= Duration::from_secs(1));
            }
        }
    }
}
