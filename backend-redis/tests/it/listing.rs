//! Listings of names: the right that they need, the bounds of their requests, and servers that
//! change meanwhile.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::common::deployment::{least_rights, rights_of_listings};
use crate::common::*;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::support::definite;
use stanchion_core::spi::Acquire;
use stanchion_core::{Cursor, ErrorKind, Kind, ListOptions, Listed, SemaphoreOptions, Store, StoreExt, Ttl};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisCluster, RedisOptions};

/// A lease that no test outlives.
const LONG: Duration = Duration::from_secs(60 * 60);

async fn store(fixture: &Fixture) -> RedisStore {
    definite(|| fixture.builder().request_timeout(PATIENT).connect()).await.unwrap()
}

/// Takes mutexes with these names, 500 in a request.
async fn take(process: &Process, names: impl Iterator<Item = String>) {
    let requests: Vec<Acquire> =
        names.map(|name| Acquire { lease: Ttl::new(LONG).unwrap(), ..ask(&mutex(&name)) }).collect();
    for part in requests.chunks(500) {
        all(process.callers.acquire(part).await);
    }
}

/// Adds the names of a listing, from a cursor on, and returns the number of pages.
async fn list_from(store: &RedisStore, after: Option<Cursor>, names: &mut BTreeSet<String>) -> usize {
    let mut options = ListOptions::new().page(ListOptions::MAX_PAGE);
    options.after = after;
    let (mut pages, mut count) = (store.pages(options), 0);
    while let Some(page) = pages.next().await.unwrap() {
        assert!(page.entries.len() < 2_000, "a page is bounded: {}", page.entries.len());
        names.extend(page.entries.into_iter().map(|listed| listed.name.to_string()));
        count += 1;
    }
    count
}

/// Returns the figures of one name.
async fn figures(store: &RedisStore, kind: Kind, name: &str) -> Option<Listed> {
    let mut pages = store.pages(ListOptions::new().kind(kind).prefix(name));
    let mut found = None;
    while let Some(page) = pages.next().await.unwrap() {
        found = page.entries.into_iter().find(|listed| listed.name.as_str() == name).or(found);
    }
    found
}

#[tokio::test]
async fn c21_a_user_without_the_right_to_scan_is_refused() {
    let (server, fixture) = start(RedisOptions::default());
    for rule in [&[][..], &rights_of_listings()] {
        let rule = [least_rights("me", "pw", &fixture.namespace), rule.to_vec()].concat();
        let words: Vec<_> = ["ACL"].into_iter().chain(rule.iter().map(String::as_str)).collect();
        server.command(&words).unwrap();
        let url = format!("redis://me:pw@127.0.0.1:{}/?namespace={}", server.port(), fixture.namespace);
        let store = RedisStore::builder(&url).unwrap().request_timeout(PATIENT).connect().await.unwrap();
        let guard = store.mutex("m", Default::default()).unwrap().lock().await.unwrap();
        let listed = store.list(ListOptions::new()).await;
        if rule.iter().any(|word| word == "+scan") {
            assert_eq!(listed.unwrap().entries.len(), 1);
        } else {
            let error = listed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
            assert!(error.to_string().contains("'scan'"), "{error}");
        }
        guard.release().await.unwrap();
    }
}

/// Calls of each command.
async fn commands(raw: &mut MultiplexedConnection) -> HashMap<String, u64> {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(raw).await.unwrap();
    let read = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(read).collect()
}

/// Returns the processor time that the server has used, in µs. Time in which it waited for the
/// processor does not count.
pub(crate) async fn processor_time(raw: &mut MultiplexedConnection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(raw).await.unwrap();
    let read = |field: &str| {
        info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse::<f64>().ok()).unwrap()
    };
    (read("used_cpu_sys:") + read("used_cpu_user:")) * 1e6
}

/// The work of a request is bounded whatever there is: its commands are counted, and the time that
/// the processor worked on them.
#[tokio::test]
async fn c27_a_hundred_thousand_names_are_listed_in_bounded_requests() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    take(&process, (0..100_000).map(|number| format!("name/{number}"))).await;
    let (store, mut raw) = (store(&fixture).await, fixture.raw().await);
    // The script is known from then on.
    let first = store.list(ListOptions::new()).await.unwrap();
    assert!((100..400).contains(&first.entries.len()), "{}", first.entries.len());
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut raw).await.unwrap();
    let (mut names, before) = (BTreeSet::new(), processor_time(&mut raw).await);
    let pages = list_from(&store, None, &mut names).await;
    assert_eq!(names.len(), 100_000);
    let used = processor_time(&mut raw).await - before;
    let counted = commands(&mut raw).await;
    let requests = counted["evalsha"];
    let inner: u64 = ["scan", "type", "get", "hmget", "zrangebyscore"]
        .iter()
        .filter_map(|command| counted.get(*command))
        .sum();
    assert!(!counted.contains_key("keys") && counted["scan"] >= 400, "{counted:?}");
    assert!(inner / requests < 1_500, "{inner} commands in {requests} requests");
    let each = used / requests as f64;
    println!(
        "{pages} pages, {requests} requests of {each:.0} µs and {} commands on average",
        inner / requests
    );
    assert!(each < 10_000.0, "{each} µs of the processor for a request");
    // A prefix that few names have costs the same few requests, and no request looks at all names.
    let before = commands(&mut raw).await["evalsha"];
    assert!(figures(&store, Kind::Mutex, "name/99999").await.is_some());
    let asked = commands(&mut raw).await["evalsha"] - before;
    assert!((25..200).contains(&asked), "{asked} requests, each of which looks at about 2,000 keys");
}

/// The server has another seed for its hash tables after it: a position of the old one would leave
/// names out.
#[tokio::test]
async fn c18_a_listing_goes_on_after_a_restart_of_the_server() {
    let (server, fixture) = start(RedisOptions::default().append_only(true));
    let process = fixture.process().await;
    take(&process, (0..2_000).map(|number| format!("name/{number}"))).await;
    let store = store(&fixture).await;
    let page = store.list(ListOptions::new().page(500)).await.unwrap();
    let mut names: BTreeSet<_> = page.entries.iter().map(|listed| listed.name.to_string()).collect();
    assert!(names.len() < 1_000, "the listing goes on: {}", names.len());
    let set = server.command(&["CONFIG", "SET", "appendfsync", "always"]).unwrap();
    assert_eq!(set, "+OK\r\n");
    server.kill().unwrap();
    server.restart().unwrap();
    let next = page.next.unwrap();
    definite(|| store.ping()).await.unwrap();
    list_from(&store, Some(next), &mut names).await;
    assert_eq!(names.len(), 2_000);
}

#[tokio::test]
async fn c18_a_listing_of_a_cluster_tells_the_names_of_all_nodes_also_of_a_stripe_that_moves() {
    let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
    let fixture = Fixture::on(&cluster.url());
    let process = driven(definite(|| fixture.builder().request_timeout(PATIENT).steps()).await.unwrap());
    take(&process, (0..1_000).map(|number| format!("name/{number}"))).await;
    let store = store(&fixture).await;
    let mut names = BTreeSet::new();
    list_from(&store, None, &mut names).await;
    assert_eq!(names.len(), 1_000);
    // The stripe that is listed at the moment moves: positions of one node mean nothing to another.
    let page = store.list(ListOptions::new().page(70)).await.unwrap();
    let mut names: BTreeSet<_> = page.entries.iter().map(|listed| listed.name.to_string()).collect();
    let next = page.next.unwrap();
    let stripe = next.position("redis", &fixture.namespace).unwrap().split(':').next().unwrap();
    let key = format!("{{{}/{stripe}}}", fixture.namespace);
    let answer = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", &key]).unwrap();
    let slot: u16 = answer.trim().trim_start_matches(':').parse().unwrap();
    let from = cluster.owner(slot).unwrap();
    cluster.move_slot(slot, (from + 1) % 3).unwrap();
    list_from(&store, Some(next), &mut names).await;
    assert_eq!(names.len(), 1_000);
}

#[tokio::test]
async fn keys_of_others_are_not_listed() {
    let fixture = Fixture::shared();
    let (store, mut raw) = (store(&fixture).await, fixture.raw().await);
    let semaphore = store.semaphore("ours", SemaphoreOptions::new(2)).unwrap();
    let _permit = semaphore.acquire().await.unwrap();
    for (command, key, rest) in [
        ("SET", "{NS/0}:s:foreign", &["text"][..]),
        ("SET", "{NS/0}:m:foreign", &["text"]),
        ("RPUSH", "{NS/1}:m:list", &["text"]),
        ("HSET", "{NS/2}:l:foreign", &["s", "text"]),
        ("HSET", "{NS/2}:b:foreign", &["f", "text"]),
        ("HSET", "{NS/3}:w:foreign", &["used", "text"]),
        ("SET", "{NSx/0}:m:foreign", &["00 1 1 1"]),
        ("SET", "{NS/99}:m:foreign", &["00 1 1 1"]),
        ("SET", "{NS/0}:mm:foreign", &["00 1 1 1"]),
        ("SET", "{NS/0}", &["text"]),
    ] {
        let key = key.replace("NS", &fixture.namespace);
        let _: redis::Value = redis::cmd(command).arg(key).arg(rest).query_async(&mut raw).await.unwrap();
    }
    let _: redis::Value = redis::cmd("SET")
        .arg([format!("{{{}/0}}:m:", fixture.namespace).as_bytes(), &[0xff]].concat())
        .arg("00 1 1 1")
        .query_async(&mut raw)
        .await
        .unwrap();
    let mut names = BTreeSet::new();
    list_from(&store, None, &mut names).await;
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["ours"]);
}

/// What one request would have to count without a bound is not told.
#[tokio::test]
async fn c27_of_a_name_with_many_holds_the_weight_is_told_alone() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let requests: Vec<Acquire> = (0..1_000)
        .map(|_| Acquire { lease: Ttl::new(LONG).unwrap(), ..ask_many(&semaphore("many"), 3, 5_000) })
        .collect();
    for part in requests.chunks(500) {
        all(process.callers.acquire(part).await);
    }
    let listed = figures(&store(&fixture).await, Kind::Semaphore, "many").await.unwrap();
    assert_eq!((listed.holders, listed.weight, listed.waiters), (None, Some(3_000), Some(0)));
    assert_eq!(listed.limit, Some(5_000));
}
