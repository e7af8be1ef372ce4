//! Limits of rate over two instances.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use stanchion_core::{ListOptions, Quota};
use stanchion_tower::{RateLimitLayer, key};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep};

use tower::ServiceBuilder;

use crate::common::{HttpClient, memory, redis, serve};

const BURST: u64 = 50;

fn app(limit: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).route("/free", get(async || "hello")).layer(limit)
}

/// The tokens that come in `time`.
fn law(time: Duration) -> f64 {
    100.0 * time.as_secs_f64()
}

/// Returns the tokens that came, without those that a full bucket may have lost, from the first to
/// the last of these times at which less than one token was left. Each was between the sending of a
/// refused request and its answer.
fn kept(mut empty: Vec<(Instant, Instant)>) -> f64 {
    empty.sort_unstable();
    let Some((last, _)) = empty.last().copied() else { return 0.0 };
    // In a longer time the bucket may have been full: with senders that do not get the processor.
    let lost: f64 =
        empty.windows(2).map(|pair| (law(pair[1].1 - pair[0].0) - (BURST as f64 - 1.0)).max(0.0)).sum();
    law(last - empty[0].1) - lost - 1.0
}

/// 10,000 requests in 20 s by two instances, half of them by HTTP/2: the burst and what has come
/// since are admitted, to one in a thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_two_instances_admit_what_the_law_admits() {
    let quota = Quota::per_second(100).burst(BURST);
    let mut clients = Vec::new();
    for http2 in [false, true] {
        let limit =
            RateLimitLayer::new(redis("tower-law").await, "http/", key::header("x-api-key"), quota).unwrap();
        let limit = limit.cost(|request| if request.uri.path() == "/free" { BURST } else { 1 });
        let address = serve(app(limit)).await;
        clients.extend((0..4).map(|_| HttpClient::new(address, http2)));
    }
    let (admitted, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    // A first request, so that connections are not a part of what is measured.
    for client in &clients {
        client.get("/", "another client").await;
    }
    // The first request takes the whole burst.
    let start = Instant::now();
    assert_eq!(clients[0].get("/free", "a").await.status, StatusCode::OK);
    let first_answer = Instant::now();
    let senders = clients.into_iter().map(|client| {
        let (admitted, refused) = (Arc::clone(&admitted), Arc::clone(&refused));
        tokio::spawn(async move {
            let mut ticks = interval(Duration::from_millis(16));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut empty = Vec::new();
            for _ in 0..1_250 {
                ticks.tick().await;
                let asked = Instant::now();
                match client.get("/", "a").await.status {
                    StatusCode::OK => admitted.fetch_add(1, Ordering::Relaxed),
                    StatusCode::TOO_MANY_REQUESTS => {
                        empty.push((asked, Instant::now()));
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                    other => panic!("{other}"),
                };
            }
            (empty, Instant::now())
        })
    });
    let mut ends = Vec::new();
    for sender in senders.collect::<Vec<_>>() {
        ends.push(sender.await.unwrap());
    }
    let admitted = u32::try_from(admitted.load(Ordering::Relaxed)).unwrap();
    assert_eq!(u64::from(admitted) + refused.load(Ordering::Relaxed), 10_000);
    let admitted = f64::from(admitted);
    // The store's clock was read between the sending of the first request and the last answer. The
    // first request emptied the bucket.
    let most = law(ends.iter().map(|(_, end)| *end).max().unwrap() - start);
    let mut empty = vec![(start, first_answer)];
    empty.extend(ends.into_iter().flat_map(|(empty, _)| empty));
    let least = kept(empty);
    println!("admitted {admitted} of 10,000 after the burst; the law admits {least:.1} to {most:.1}");
    assert!(admitted <= most * 1.001 && admitted >= least * 0.999, "{least} to {most}: {admitted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_a_client_reads_its_quota_and_when_to_come_again() {
    let quota = Quota::per_minute(60).burst(3);
    let limit =
        RateLimitLayer::new(memory(), "http/", key::header("x-api-key"), quota).unwrap().legacy_headers(true);
    let client = HttpClient::new(serve(app(limit)).await, false);
    for left in [2, 1, 0] {
        let answer = client.get("/", "a").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.parameter("ratelimit-policy", "q"), 60);
        assert_eq!(answer.parameter("ratelimit-policy", "w"), 60);
        assert_eq!(answer.parameter("ratelimit", "r"), left);
        assert_eq!(answer.parameter("ratelimit", "t"), 1, "the next one comes within a second");
        assert_eq!(answer.field("x-ratelimit-limit"), "3");
        assert_eq!(answer.field("x-ratelimit-remaining"), left.to_string());
    }
    let refused = client.get("/", "a").await;
    assert_eq!(
        (refused.status, refused.retry_after()),
        (StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1))
    );
    assert_eq!(refused.parameter("ratelimit", "r"), 0);
    assert_eq!(client.get("/", "b").await.status, StatusCode::OK, "another client");
}

/// Who waits for as long as it was told is admitted, each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_the_time_that_a_client_is_told_is_always_enough() {
    let quota = Quota::per(10, Duration::from_secs(11)).burst(1);
    let limit = RateLimitLayer::new(redis("tower-retry").await, "http/", key::all(), quota).unwrap();
    let client = HttpClient::new(serve(app(limit)).await, true);
    assert_eq!(client.get("/", "").await.status, StatusCode::OK);
    for round in 0_u32..5 {
        sleep(Duration::from_millis(137) * round).await;
        let refused = client.get("/", "").await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        sleep(refused.retry_after()).await;
        assert_eq!(client.get("/", "").await.status, StatusCode::OK, "round {round}: {refused:?}");
    }
}

/// A plan is by key, a cost by path, requests without a key share one limit, and a client may have
/// none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quota_and_cost_are_those_of_the_request() {
    let limit = RateLimitLayer::new(memory(), "http/", key::header("x-api-key"), Quota::per_hour(2))
        .unwrap()
        .quota_by(|_, key| (key != "ours").then(|| Quota::per_hour(if key == "paid" { 10 } else { 2 })))
        .cost(|request| if request.uri.path() == "/free" { 0 } else { 2 });
    let client = HttpClient::new(serve(app(limit)).await, false);
    let mut admitted = [0; 4];
    for (index, key) in ["paid", "other", "", "ours"].into_iter().enumerate() {
        for _ in 0..8 {
            admitted[index] += u32::from(client.get("/", key).await.status == StatusCode::OK);
            assert_eq!(client.get("/free", key).await.status, StatusCode::OK);
        }
    }
    assert_eq!(admitted, [5, 1, 1, 8]);
}

/// A service of hyper alone, by both versions of HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_hyper_is_limited() {
    let limit = RateLimitLayer::new(memory(), "http/", key::header("x-api-key"), Quota::per_hour(1)).unwrap();
    let service = ServiceBuilder::new().layer(limit).service_fn(async |_: Request<Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let io = TokioIo::new(listener.accept().await.unwrap().0);
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
            });
        }
    });
    for (key, http2) in [("a", false), ("b", true)] {
        let client = HttpClient::new(address, http2);
        assert_eq!(client.get("/", key).await.status, StatusCode::OK);
        assert_eq!(client.get("/", key).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
}

/// A plan that changes is in force from the next request on, also if it changes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_changes_there_and_back_is_in_force() {
    let burst = Arc::new(AtomicU64::new(4));
    let plan = Arc::clone(&burst);
    let limit = RateLimitLayer::new(
        redis("tower-plans").await,
        "http/",
        key::header("x-api-key"),
        Quota::per_hour(1),
    )
    .unwrap();
    let limit = limit
        .quota_by(move |_, _| Quota::per_hour(4).burst(plan.load(Ordering::Relaxed)))
        .legacy_headers(true);
    let client = HttpClient::new(serve(app(limit)).await, false);
    for now in [4, 8, 4, 8] {
        burst.store(now, Ordering::Relaxed);
        let answer = client.get("/", "a").await;
        assert_eq!(
            answer.field("ratelimit-policy"),
            if now == 4 { "\"http\";q=4;w=3600" } else { "\"http\";q=8;w=7200" }
        );
        assert_eq!(answer.field("x-ratelimit-limit"), now.to_string());
        // A larger burst does not fill itself.
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(client.get("/", "a").await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// No key reaches the limiter of another layer, and none is too long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_of_their_layer() {
    let store = memory();
    let by_key = |prefix: &'static str, quota| {
        let limit = RateLimitLayer::new(Arc::clone(&store), prefix, key::header("x-api-key"), quota).unwrap();
        serve(app(limit))
    };
    let all = HttpClient::new(by_key("http/", Quota::per_hour(1_000)).await, false);
    let login = HttpClient::new(by_key("http/login/", Quota::per_hour(1)).await, false);
    assert_eq!(login.get("/", "victim").await.status, StatusCode::OK);
    assert_eq!(all.get("/", "login/victim").await.status, StatusCode::OK);
    assert_eq!(login.get("/", "victim").await.status, StatusCode::TOO_MANY_REQUESTS);
    let long = ["x".repeat(600), format!("{}y", "x".repeat(599))];
    for key in &long {
        assert_eq!(login.get("/", key).await.status, StatusCode::OK);
        assert_eq!(login.get("/", key).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    // For groups of metrics, and for who lists them.
    let listed = store.list(ListOptions::new().prefix("http/login/")).await.unwrap();
    assert!(
        listed.entries.iter().any(|one| one.name.as_str().starts_with("http/login/victim")),
        "{listed:?}"
    );
    assert!(listed.entries.len() >= 3, "{listed:?}");
}

/// What clients send takes nothing from a layer for all of them, nor from those without a key, nor
/// from other clients: each honest one has its quota, whatever 10,000 hostile requests say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_client_reaches_another_limit() {
    const QUOTA: u32 = 1_000;
    const HOSTILE: [&str; 10] =
        ["all", "-5", "*4", "all/*4", "", "-", "*", "each/-5", "all/all", "each/user0:5"];
    let store = memory();
    let quota = Quota::per(1, Duration::from_secs(24 * 3_600)).burst(u64::from(QUOTA));
    let each = RateLimitLayer::new(Arc::clone(&store), "each/", key::header("x-api-key"), quota);
    let whole = RateLimitLayer::new(Arc::clone(&store), "all/", key::all(), Quota::per_hour(100_000));
    let client = HttpClient::new(serve(app(each.unwrap()).layer(whole.unwrap())).await, false);
    let hostile = async |client: HttpClient| {
        for number in 0..10_000 {
            client.get("/", HOSTILE[number % HOSTILE.len()]).await;
        }
    };
    let honest = async |client: HttpClient, user: &str| {
        let mut admitted = 0;
        for _ in 0..QUOTA + 100 {
            admitted += u32::from(client.get("/", user).await.status == StatusCode::OK);
        }
        admitted
    };
    let users = ["user0", "user1", "user2"].map(|user| honest(client.clone(), user));
    let ((), admitted) =
        futures_util::future::join(hostile(client.clone()), futures_util::future::join_all(users)).await;
    println!("admitted of a quota of {QUOTA}: {admitted:?}");
    assert_eq!(admitted, [QUOTA; 3]);
}
