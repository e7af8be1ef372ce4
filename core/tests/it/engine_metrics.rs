//! What the metrics say of outages, losses, waits and decisions (C29).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::{Capabilities, LimiterOptions, MutexMode, MutexOptions, OutagePolicy, Quota};
use tokio::time::sleep;

use crate::model::Model;

/// The metrics of this program, by name and labels.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Metrics {
    fn value(&self, key: &str) -> Arc<AtomicU64> {
        Arc::clone(self.0.lock().unwrap().entry(key.to_owned()).or_default())
    }

    fn of(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        self.value(&format!("{} {}", key.name(), labels.join(" ")))
    }

    fn read(&self, key: &str) -> u64 {
        self.value(key).load(SeqCst)
    }
}

/// Counts the values, whatever they are.
struct Count(Arc<AtomicU64>);

impl HistogramFn for Count {
    fn record(&self, value: f64) {
        assert!(value.is_finite() && value >= 0.0, "seconds: {value}");
        self.0.fetch_add(1, SeqCst);
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Count(self.of(key))))
    }
}

fn recorded() -> Metrics {
    static METRICS: OnceLock<Metrics> = OnceLock::new();
    let make = || {
        let metrics = Metrics::default();
        metrics::set_global_recorder(metrics.clone()).expect("the only recorder");
        metrics
    };
    METRICS.get_or_init(make).clone()
}

#[tokio::test]
async fn c29_outages_losses_waits_and_decisions_are_counted() {
    let metrics = recorded();
    let model = Model::new();
    let steps = model.steps(Duration::from_secs(2));
    let own = Background { wake: Some(model.wakes()), ..Background::new(Arc::clone(&steps)) };
    let engine = Engine::start(Capabilities::full("counted", MutexMode::Lease), steps, own).unwrap();
    let ttl = Duration::from_secs(1);
    let lasting = engine.mutex("a", MutexOptions::default()).unwrap();
    lasting.lock().await.unwrap().release().await.unwrap();
    let guard = engine.mutex("a", MutexOptions::default().ttl(ttl)).unwrap().lock().await.unwrap();
    let options = LimiterOptions::new(Quota::per_hour(1).burst(1)).outage(OutagePolicy::FailOpen);
    let limiter = engine.limiter("l", options.refusal_cache(false)).unwrap();
    assert!(limiter.allow().await.unwrap().allowed);
    assert!(!limiter.allow().await.unwrap().allowed);
    assert_eq!(metrics.read("stanchion_wait_seconds store=counted kind=mutex operation=lock"), 2);
    assert_eq!(metrics.read("stanchion_hold_seconds store=counted kind=mutex"), 1);
    assert_eq!(metrics.read("stanchion_decisions_total store=counted allowed=yes by=store"), 1);
    assert_eq!(metrics.read("stanchion_decisions_total store=counted allowed=no by=store"), 1);

    model.faults.away.store(true, SeqCst);
    timeout(ttl + EPSILON, guard.lost()).await.expect("it is not renewed");
    assert!(limiter.allow().await.unwrap().allowed, "by the policy");
    assert_eq!(metrics.read("stanchion_decisions_total store=counted allowed=yes by=policy"), 1);
    let (away, losses) = (
        "stanchion_store_away store=counted",
        "stanchion_losses_total store=counted kind=mutex cause=deadline",
    );
    // A thread counts a loss a moment after it has told it. An outage is noticed by the requests
    // that fail.
    let counted = async {
        while metrics.read(away) != 1.0_f64.to_bits() || metrics.read(losses) == 0 {
            drop(engine.ping().await);
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(2), counted).await.expect("the outage and the loss are counted");
    assert_eq!(metrics.read(losses), 1);
    assert_eq!(metrics.read("stanchion_outages_total store=counted"), 1);
    model.faults.away.store(false, SeqCst);
    drop(guard);
    let back = async {
        while metrics.read(away) != 0.0_f64.to_bits() {
            drop(limiter.peek().await);
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), back).await.expect("the store is back");
}

/// Opens a store of its own, and takes it away.
fn goes_away(name: &'static str) -> (Arc<Model>, Engine) {
    let model = Model::new();
    let steps = model.steps(Duration::from_secs(2));
    let capabilities = Capabilities::full(name, MutexMode::Lease);
    let engine = Engine::start(capabilities, Arc::clone(&steps), Background::new(steps)).unwrap();
    model.faults.away.store(true, SeqCst);
    (model, engine)
}

/// Waits until so many stores of that name are away, as requests of `engine` find out.
async fn are_away(name: &str, count: f64, engine: Option<&Engine>) {
    let (metrics, key) = (recorded(), format!("stanchion_store_away store={name}"));
    let counted = async {
        while metrics.read(&key) != count.to_bits() {
            if let Some(engine) = engine {
                drop(engine.ping().await);
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(Duration::from_secs(5), counted).await.is_err() {
        panic!("{key} is {}, not {count}", f64::from_bits(metrics.read(&key)));
    }
}

#[tokio::test]
async fn c29_a_store_that_is_dropped_while_it_is_away_is_away_no_more() {
    recorded();
    let (_model, engine) = goes_away("dropped");
    are_away("dropped", 1.0, Some(&engine)).await;
    drop(engine);
    are_away("dropped", 0.0, None).await;
}

#[tokio::test]
async fn c29_a_store_is_away_also_when_another_of_its_kind_is_back() {
    recorded();
    let ((_model, engine), (other_model, other)) = (goes_away("two"), goes_away("two"));
    are_away("two", 1.0, Some(&engine)).await;
    are_away("two", 2.0, Some(&other)).await;
    other_model.faults.away.store(false, SeqCst);
    are_away("two", 1.0, Some(&other)).await;
}
