//! Filters on a server that loses replies, memory or everything.

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::PATIENT;
use stanchion_core::{BloomFilter, BloomOptions, ErrorKind, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Action, Proxy, Then, When};
use stanchion_testbed::servers::{RedisOptions, RedisServer};

const ITEMS: usize = 400;
/// One of this many replies to scripts is lost. The number is even: where the proxy changes the
/// text of a script, its hash is never seen, and only each second request is executed.
const LOST: u64 = 4;

/// Connects to this URL and opens a filter with room for all items.
async fn filter(url: &str) -> (RedisStore, Arc<dyn BloomFilter>) {
    let builder = RedisStore::builder(url).unwrap().request_timeout(PATIENT);
    let store = builder.connect().await.unwrap();
    let filter = store.bloom_filter("items", BloomOptions::new(10_000, 1e-6)).unwrap();
    (store, filter)
}

/// Inserts all items, ten a call. Returns how often each was new.
async fn insert_all(url: String) -> Vec<u32> {
    let (_store, filter) = filter(&url).await;
    let items: Vec<String> = (0..ITEMS).map(|item| format!("item {item}")).collect();
    let mut times = Vec::new();
    for items in items.chunks(10) {
        let items: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
        times.extend(filter.insert_many(&items).await.unwrap().into_iter().map(u32::from));
    }
    times
}

/// Two clients insert the same items while replies are lost. Returns how many items were new twice,
/// and how many never. With a mistake, the proxies change the text of the scripts.
async fn campaign(mistake: Option<(&str, &str)>) -> (usize, usize) {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let proxies = [Proxy::to(&server.url()).unwrap(), Proxy::to(&server.url()).unwrap()];
    let mut rules = Vec::new();
    for proxy in &proxies {
        if let Some((right, wrong)) = mistake {
            proxy.rewrite(right, wrong);
        }
        let met = AtomicU64::new(0);
        let one_of = move |request: &stanchion_testbed::faults::Request| {
            request.name.starts_with("EVAL") && (met.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(LOST)
        };
        rules.push(proxy.on(When::each().matching(one_of), Action::DropReply(Then::Reset)));
    }
    let [one, other] = proxies.each_ref().map(|proxy| proxy.url(&server.url()));
    let (one, other) = tokio::join!(insert_all(one), insert_all(other));
    let lost: u64 = rules.iter().map(stanchion_testbed::faults::Rule::fired).sum();
    assert!(lost >= ITEMS as u64 / 20, "{lost} replies were lost");
    let times: Vec<_> = one.iter().zip(&other).map(|(one, other)| one + other).collect();
    (times.iter().filter(|times| **times > 1).count(), times.iter().filter(|times| **times == 0).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_lost_replies_make_no_item_new_twice_or_never() {
    assert_eq!(campaign(None).await, (0, 0));
    // If answers are not kept, the second attempt finds the items of the first.
    let (twice, never) = campaign(Some(("if before >= number then", "if before > number then"))).await;
    assert!(twice == 0 && never > 0, "new twice {twice}, never new {never}");
}

#[tokio::test]
async fn b6_what_a_server_forgot_is_told_once_to_each_handle() {
    for append_only in [true, false] {
        let server = RedisServer::start(RedisOptions::default().append_only(append_only)).unwrap();
        let (store, filter) = filter(&server.url()).await;
        let other = store.bloom_filter("items", BloomOptions::new(10_000, 1e-6)).unwrap();
        assert!(filter.insert(b"a").await.unwrap() && other.contains(b"a").await.unwrap());
        server.kill().unwrap();
        server.restart().unwrap();
        if append_only {
            assert!(!filter.insert(b"a").await.unwrap() && other.contains(b"a").await.unwrap());
            continue;
        }
        assert_eq!(filter.contains(b"a").await.unwrap_err().kind(), ErrorKind::StateLost);
        assert!(filter.insert(b"a").await.unwrap(), "the filter begins anew");
        assert_eq!(other.insert(b"a").await.unwrap_err().kind(), ErrorKind::StateLost);
        assert!(!other.insert(b"a").await.unwrap());
    }
}

#[tokio::test]
async fn c3_without_memory_inserts_are_refused_and_the_rest_goes_on() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let (_store, filter) = filter(&server.url()).await;
    assert!(filter.insert(b"a").await.unwrap());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert_eq!(filter.insert(b"b").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(filter.contains_many(&[b"a", b"b"]).await.unwrap(), [true, false]);
    assert_eq!(filter.len_estimate().await.unwrap(), 1);
    filter.clear().await.unwrap();
    assert!(!filter.contains(b"a").await.unwrap());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(filter.insert_many(&[b"a", b"b"]).await.unwrap(), [true, true]);
}
