//! The example that serves metrics, scraped by a Prometheus, and the queries of its dashboard.

#![cfg(all(feature = "memory", feature = "metrics", feature = "redis"))]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::Value;
use stanchion::MutexOptions;
use stanchion_conformance::support::eventually;
use stanchion_testbed::servers::{Prometheus, RedisOptions, RedisServer};
use tokio::time::sleep;

#[path = "../../examples/metrics/main.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod example;

/// Timeout for a scrape to be seen, also on a busy machine.
const SCRAPED: Duration = Duration::from_secs(30);
/// What is zero on a day without faults, and there all the same: Prometheus sees the increase of a
/// counter only from one scrape to the next.
const RARE: [&str; 4] = [
    "stanchion_losses_total",
    "stanchion_late_renewals_total",
    "stanchion_store_away",
    "stanchion_outages_total",
];

fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Returns the series that a query finds, each with its labels and its value.
fn series(prometheus: &Prometheus, expression: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&prometheus.query(expression).expect(expression)).unwrap();
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

fn value(series: &Value) -> f64 {
    series["value"][1].as_str().unwrap().parse().unwrap()
}

/// Returns the expressions of the dashboard, with the variables that Grafana fills in.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(include_str!("../../examples/metrics/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = |target: &Value| {
        target["expr"].as_str().unwrap().replace("$__rate_interval", "10s").replace("$store", ".*")
    };
    targets.map(filled).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_prometheus_scrapes_what_the_dashboard_shows() {
    let address = free_address();
    example::serve(address).unwrap();
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let url = format!("{}?namespace=metrics", server.url());
    for url in ["memory:".to_owned(), url.clone()] {
        let store = stanchion::connect(&url).await.unwrap();
        tokio::spawn(example::work(store));
    }
    let prometheus = Prometheus::start(address).unwrap();
    // A rate needs two scrapes, and the networked store its first requests.
    for expression in expressions() {
        let is_seen =
            || async { series(&prometheus, &expression).iter().any(|series| value(series).is_finite()) };
        eventually(SCRAPED, &expression, is_seen).await;
        println!("{expression}");
        for series in series(&prometheus, &expression) {
            println!("    {} {:.6}", series["metric"], value(&series));
        }
    }
    for store in ["memory", "redis"] {
        let grants = format!(
            "stanchion_grants_total{{store='{store}',kind='mutex',operation='lock',group='invoices'}}"
        );
        assert!(value(&series(&prometheus, &grants)[0]) > 0.0, "{store}");
        let refused =
            format!("stanchion_refusals_total{{store='{store}',kind='semaphore',operation='try_acquire'}}");
        assert!(value(&series(&prometheus, &refused)[0]) > 0.0, "{store}");
        let denied =
            format!("sum(stanchion_decisions_total{{store='{store}',allowed='no',by=~'store|cache'}})");
        assert!(value(&series(&prometheus, &denied)[0]) > 0.0, "{store}");
    }
    for rare in RARE {
        let found = series(&prometheus, &format!("sum by (store) ({rare})"));
        assert!(!found.is_empty() && found.iter().all(|series| value(series) == 0.0), "{rare}: {found:?}");
    }
    // A name is no label.
    assert!(series(&prometheus, "{__name__=~'stanchion_.*',name!=''}").is_empty());

    // A loss, and an outage.
    let store = stanchion::connect(&url).await.unwrap();
    let options = MutexOptions::new().ttl(Duration::from_secs(1));
    let guard = store.mutex("invoices/9", options).unwrap().lock().await.unwrap();
    server.pause().unwrap();
    guard.lost().await;
    let away = || async {
        drop(store.ping().await);
        series(&prometheus, "stanchion_store_away{store='redis'}").iter().any(|series| value(series) >= 1.0)
    };
    eventually(SCRAPED, "the outage is seen", away).await;
    let lost = "stanchion_losses_total{store='redis',cause='deadline',group='invoices'}";
    let is_lost = || async { series(&prometheus, lost).iter().any(|series| value(series) >= 1.0) };
    eventually(SCRAPED, "the loss is seen", is_lost).await;
    for first in [lost, "stanchion_outages_total{store='redis'}"] {
        let increase = format!("increase({first}[1m])");
        let is_seen = || async { series(&prometheus, &increase).iter().any(|series| value(series) > 0.0) };
        eventually(SCRAPED, &increase, is_seen).await;
    }
    server.resume().unwrap();
    let back = || async {
        drop(store.ping().await);
        sleep(Duration::from_millis(50)).await;
        series(&prometheus, "stanchion_store_away{store='redis'}").iter().any(|series| value(series) == 0.0)
    };
    eventually(SCRAPED, "the store is back", back).await;
}
