//! What the stores tell by `tracing`: each event has a message, and only names and fields that the
//! guide lists.

#![cfg(all(feature = "memory", feature = "postgres", feature = "redis"))]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use stanchion::memory::MemoryStore;
use stanchion::{LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store, WaitGroupOptions};
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::eventually;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The default of `slow_wait`.
const SLOW: Duration = Duration::from_secs(1);
/// Time for an event to come, also on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// An event, or a span.
#[derive(Clone, Debug)]
struct Told {
    level: Level,
    name: &'static str,
    is_event: bool,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl Told {
    fn new(metadata: &'static Metadata<'static>) -> Self {
        let (level, name, is_event) = (*metadata.level(), metadata.name(), metadata.is_event());
        Self { level, name, is_event, fields: BTreeMap::new() }
    }

    fn is(&self, field: &str, value: &str) -> bool {
        self.fields.get(field).is_some_and(|found| found.trim_matches('"') == value)
    }
}

/// All that the library told in this process.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Told>>>);

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let of_stores = ["core", "memory", "redis", "postgres"].map(|part| format!("stanchion_{part}"));
        of_stores.iter().any(|target| metadata.target().starts_with(target))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut told = Told::new(span.metadata());
        span.record(&mut told);
        self.0.lock().unwrap().push(told);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::new(event.metadata());
        event.record(&mut told);
        self.0.lock().unwrap().push(told);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Recorder {
    fn of_this_process() -> Self {
        static RECORDER: OnceLock<Recorder> = OnceLock::new();
        let make = || {
            let recorder = Self::default();
            tracing::subscriber::set_global_default(recorder.clone()).expect("the only subscriber");
            recorder
        };
        RECORDER.get_or_init(make).clone()
    }

    fn all(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }

    /// The events of that name with that value of a field.
    fn events(&self, event: &str, field: &str, value: &str) -> Vec<Told> {
        self.all().into_iter().filter(|told| told.name == event && told.is(field, value)).collect()
    }

    /// The first such event, once there is one.
    async fn told(&self, event: &str, field: &str, value: &str) -> Told {
        let is_there = || async { !self.events(event, field, value).is_empty() };
        eventually(SOON, &format!("{event} {field}={value}"), is_there).await;
        self.events(event, field, value).swap_remove(0)
    }
}

/// The first cells of the tables under a heading of the guide's page.
fn documented(heading: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../src/guide/tracing.md");
    let section = page.split("\n# ").find(|section| section.lines().next() == Some(heading));
    let rows = section.expect(heading).lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

/// Waits of each outcome for names that begin with `prefix`, and the other calls of a store.
async fn work(store: &dyn Store, prefix: &str) {
    let name = |outcome: &str| format!("{prefix} {outcome}");
    let mutex = |outcome| store.mutex(&name(outcome), MutexOptions::new().label("the label")).unwrap();
    let (granted, late, dropped, forced) =
        (mutex("granted"), mutex("late"), mutex("dropped"), mutex("forced"));
    let guards = [
        granted.lock().await.unwrap(),
        late.lock().await.unwrap(),
        dropped.lock().await.unwrap(),
        forced.lock().await.unwrap(),
    ];
    let (timed_out, cancelled) =
        tokio::join!(late.lock_for(SLOW + SLOW / 10), timeout(SLOW + SLOW / 10, dropped.lock()));
    assert!(timed_out.unwrap().is_none() && cancelled.is_err());
    assert!(forced.force_unlock().await.unwrap());
    assert!(granted.try_lock().await.unwrap().is_none());
    let (locked, ()) = tokio::join!(granted.lock(), async {
        sleep(SLOW + SLOW / 10).await;
        drop(guards);
    });
    drop(locked.unwrap());
    let permits = store.semaphore(&name("permits"), SemaphoreOptions::new(2)).unwrap();
    permits.acquire_many(2).await.unwrap().release().await.unwrap();
    let group = store.wait_group(&name("group"), WaitGroupOptions::new()).unwrap();
    group.add().await.unwrap().done().await.unwrap();
    let limiter = store.limiter(&name("limiter"), LimiterOptions::new(Quota::per_second(1))).unwrap();
    limiter.allow().await.unwrap();
}

/// Checks what was told of [`work`].
async fn check(recorder: &Recorder, store: &str, prefix: &str) {
    for (outcome, told) in [("granted", "granted"), ("late", "timed_out"), ("dropped", "cancelled")] {
        let slow =
            recorder.told("stanchion.wait.slow", "stanchion.name", &format!("{prefix} {outcome}")).await;
        assert!(slow.level == Level::INFO && slow.is("stanchion.outcome", told), "{slow:?}");
        assert!(slow.is("stanchion.store", store) && slow.is("stanchion.kind", "mutex"), "{slow:?}");
        let waited: f64 = slow.fields["stanchion.wait.duration"].parse().unwrap();
        assert!((1.0..60.0).contains(&waited), "{slow:?}");
    }
    let forced = recorder.told("stanchion.force.freed", "stanchion.name", &format!("{prefix} forced")).await;
    assert!(forced.level == Level::WARN && forced.is("stanchion.caller.label", "the label"), "{forced:?}");
    let lost = recorder.told("stanchion.hold.lost", "stanchion.name", &format!("{prefix} forced")).await;
    assert!(lost.is("stanchion.loss.cause", "forced") && lost.is("stanchion.label", "the label"), "{lost:?}");
    assert!(lost.is("stanchion.store", store) && lost.is("stanchion.kind", "mutex"), "{lost:?}");
    // No other wait was long, unless the machine stood still: the time that is told says so.
    for slow in recorder.all().iter().filter(|told| told.name == "stanchion.wait.slow") {
        let waited: f64 = slow.fields["stanchion.wait.duration"].parse().unwrap();
        assert!(waited >= SLOW.as_secs_f64(), "{slow:?}");
    }
}

#[tokio::test]
async fn c29_the_memory_store_tells_of_losses() {
    let recorder = Recorder::of_this_process();
    let store = MemoryStore::new().namespace("losses").unwrap();
    let told = async |name: &str, cause: &str| {
        let lost = recorder.told("stanchion.hold.lost", "stanchion.name", name).await;
        assert!(lost.level == Level::WARN && lost.is("stanchion.namespace", "losses"), "{lost:?}");
        assert!(lost.is("stanchion.loss.cause", cause) && lost.is("stanchion.label", "a holder"), "{lost:?}");
        let held: f64 = lost.fields["stanchion.hold.duration"].parse().unwrap();
        let expected = if cause == "deadline" { 0.1..60.0 } else { 0.0..60.0 };
        assert!(expected.contains(&held), "{lost:?}");
    };
    let options = MutexOptions::new().label("a holder");
    let short = options.clone().ttl(Duration::from_millis(100)).renew(false);

    // A lease that is over, with a waiter, and without one until its guard is dropped.
    let mutex = store.mutex("waited for", short.clone()).unwrap();
    let guard = mutex.lock().await.unwrap();
    drop(mutex.lock().await.unwrap());
    told("waited for", "deadline").await;
    drop(guard);
    let mutex = store.mutex("dropped", short.clone()).unwrap();
    let guard = mutex.lock().await.unwrap();
    guard.lost().await;
    sleep(Duration::from_millis(100)).await;
    drop(guard);
    told("dropped", "deadline").await;

    // Nobody loses a detached hold.
    let detached = store.mutex("detached", options.clone()).unwrap().lock().await.unwrap();
    let detached = detached.detach(Duration::from_millis(100)).await.unwrap();
    drop(store.mutex(detached.name(), options.clone()).unwrap().lock().await.unwrap());
    assert!(recorder.events("stanchion.hold.lost", "stanchion.name", "detached").is_empty());

    let _guard = store.mutex("gone", options.clone()).unwrap().lock().await.unwrap();
    store.simulate_data_loss();
    told("gone", "gone").await;

    // The end of the program's own making is no warning.
    let _guard = store.mutex("closed", options).unwrap().lock().await.unwrap();
    store.close().await.unwrap();
    assert!(recorder.events("stanchion.hold.lost", "stanchion.name", "closed").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_each_event_has_a_message_and_documented_fields() {
    let recorder = Recorder::of_this_process();
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let postgres = PostgresServer::start(PostgresOptions::default()).unwrap();
    let redis_url = format!("{}?namespace=events", server.url());
    let sessions = format!("{}?namespace=events&mutex=session", postgres.url());
    for (kind, url) in [("memory", "memory:"), ("redis", &redis_url), ("postgres", &sessions)] {
        let store = stanchion::connect(url).await.unwrap();
        let prefix = format!("on {kind}");
        work(&*store, &prefix).await;
        check(&recorder, kind, &prefix).await;
        store.close().await.unwrap();
    }

    // A loss, and an outage.
    let store = stanchion::connect(&redis_url).await.unwrap();
    let options = MutexOptions::new().ttl(SLOW).label("the holder");
    let guard = store.mutex("lost in an outage", options).unwrap().lock().await.unwrap();
    server.pause().unwrap();
    guard.lost().await;
    let lost = recorder.told("stanchion.hold.lost", "stanchion.name", "lost in an outage").await;
    assert!(lost.level == Level::WARN && lost.is("stanchion.label", "the holder"), "{lost:?}");
    assert!(
        lost.is("stanchion.loss.cause", "deadline") && lost.is("stanchion.namespace", "events"),
        "{lost:?}"
    );
    let away = recorder.told("stanchion.store.away", "server.address", "127.0.0.1").await;
    assert!(away.level == Level::WARN && away.fields.contains_key("server.port"), "{away:?}");
    assert!(
        away.fields.contains_key("error.type") && away.fields.contains_key("exception.message"),
        "{away:?}"
    );
    server.resume().unwrap();
    let is_back = || async {
        drop(store.ping().await);
        !recorder.events("stanchion.store.back", "stanchion.store", "redis").is_empty()
    };
    eventually(SOON, "the store is back", is_back).await;
    let back = recorder.told("stanchion.store.back", "stanchion.store", "redis").await;
    assert!(back.level == Level::INFO && back.fields.contains_key("stanchion.outage.duration"), "{back:?}");

    let (fields, events, spans) = (documented("Fields"), documented("Events"), documented("Spans"));
    let all = recorder.all();
    assert!(all.iter().any(|told| !told.is_event), "there are spans");
    for told in all {
        let names = told.fields.keys().filter(|name| **name != "message");
        let unknown: Vec<_> = names.filter(|name| !fields.contains(*name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} of {told:?}");
        let is_named = if told.is_event { &events } else { &spans }.contains(told.name);
        assert!(is_named || told.is_event && told.level > Level::INFO, "not documented: {told:?}");
        let has_message = told.fields.get("message").is_some_and(|message| !message.is_empty());
        assert!(has_message || !told.is_event, "no message: {told:?}");
    }
}
