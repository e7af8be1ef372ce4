//! Limits of what runs at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use stanchion_conformance::stopwatch::{EPSILON, Stopwatch};
use stanchion_core::{SemaphoreOptions, Store};
use stanchion_memory::MemoryStore;
use stanchion_tower::{ConcurrencyLimitLayer, HeldPermit};
use tokio::time::sleep;

use crate::common::{HttpClient, redis, serve};

/// Time after which the permit of a client that went away is free.
const GIVEN_BACK: Duration = Duration::from_millis(100);

/// A body that sends a frame every 10 ms for ever.
fn endless() -> Body {
    let frames = futures_util::stream::unfold((), async |()| {
        sleep(Duration::from_millis(10)).await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x"))), ()))
    });
    Body::new(StreamBody::new(frames))
}

async fn all_are_free(store: &Arc<dyn Store>, permits: u32) -> Duration {
    let (watch, semaphore) =
        (Stopwatch::start(), store.semaphore("exports", SemaphoreOptions::new(permits)).unwrap());
    while semaphore.available().await.unwrap() < permits {
        assert!(watch.elapsed() < Duration::from_secs(10), "a permit is kept");
        sleep(Duration::from_millis(1)).await;
    }
    watch.elapsed()
}

/// S1 over two instances: never more than the limit, and nobody is refused who can wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_two_instances_run_no_more_than_the_limit() {
    let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for http2 in [false, true] {
        let store = redis("tower-concurrency").await;
        let limit = ConcurrencyLimitLayer::new(store, "exports", SemaphoreOptions::new(3)).unwrap();
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let export = async move || {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(20)).await;
            running.fetch_sub(1, Ordering::SeqCst);
        };
        let app = Router::new().route("/", get(export)).layer(limit.max_wait(Duration::from_secs(30)));
        let address = serve(app).await;
        clients.extend((0..8).map(|_| HttpClient::new(address, http2)));
    }
    let senders = clients.into_iter().map(|client| {
        tokio::spawn(async move {
            for _ in 0..5 {
                assert_eq!(client.get("/", "").await.status, StatusCode::OK);
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    all_are_free(&redis("tower-concurrency").await, 3).await;
}

/// As the handler of an upgraded connection does, whose answer has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_a_handler_keeps_outlives_the_answer() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limit = ConcurrencyLimitLayer::new(Arc::clone(&store), "exports", SemaphoreOptions::new(1)).unwrap();
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let upgrade = async move |Extension(permit): Extension<HeldPermit>| keep.send(permit).unwrap();
    let outer = ConcurrencyLimitLayer::new(Arc::clone(&store), "all", SemaphoreOptions::new(2)).unwrap();
    let app = Router::new().route("/", get(upgrade)).layer(limit.max_wait(Duration::ZERO)).layer(outer);
    let client = HttpClient::new(serve(app).await, false);
    assert_eq!(client.get("/", "").await.status, StatusCode::OK);
    let permit = kept.recv().await.unwrap();
    assert!(permit.is_held());
    let all = store.semaphore("all", SemaphoreOptions::new(2)).unwrap();
    assert_eq!(all.available().await.unwrap(), 1, "the permit of the outer layer is kept, too");
    assert_eq!(client.get("/", "").await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(permit);
    all_are_free(&store, 1).await;
}

/// A permit is held for the body's length; a client that goes away gives it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_gives_its_permit_back() {
    for store in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, redis("tower-gone").await] {
        for http2 in [false, true] {
            let limit =
                ConcurrencyLimitLayer::new(Arc::clone(&store), "exports", SemaphoreOptions::new(1)).unwrap();
            let app = Router::new().route("/", get(async || endless())).layer(limit.max_wait(Duration::ZERO));
            let address = serve(app).await;
            let client = HttpClient::new(address, http2);
            let mut answer = client.send("/", "").await;
            answer.body_mut().frame().await.unwrap().unwrap();
            let refused = HttpClient::new(address, http2).get("/", "").await;
            assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "the body is not at its end");
            assert_eq!(refused.retry_after(), Duration::from_secs(1));
            drop((answer, client));
            let took = all_are_free(&store, 1).await;
            println!("http2 {http2}: free after {took:?}");
            assert!(took < GIVEN_BACK + EPSILON, "long before its lease ends: {took:?}");
        }
    }
}

/// C26: a full queue refuses at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_full_queue_sheds_at_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = SemaphoreOptions::new(1).max_waiters(1);
    let limit = ConcurrencyLimitLayer::new(Arc::clone(&store), "exports", options)
        .unwrap()
        .max_wait(Duration::from_secs(60));
    let client =
        HttpClient::new(serve(Router::new().route("/", get(async || endless())).layer(limit)).await, true);
    let first = client.send("/", "").await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.send("/", "").await.status() }
    });
    let semaphore = store.semaphore("exports", SemaphoreOptions::new(1)).unwrap();
    while semaphore.inspect().await.unwrap().waiters == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.get("/", "").await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(first);
    assert_eq!(waiting.await.unwrap(), StatusCode::OK);
}
