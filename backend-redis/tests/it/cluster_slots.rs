//! A cluster of which some slots have no node.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::cluster::{failing_fast, start};
use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{definite, eventually};
use stanchion_core::{ErrorKind, MutexOptions, Store};
use stanchion_testbed::servers::RedisOptions;
use tokio::time::sleep;

#[tokio::test]
async fn c3_a_cluster_without_all_slots_refuses_with_certainty() {
    let cluster = start(failing_fast());
    let fixture = Fixture::on(&cluster.url());
    // The last attempt of a request begins when a quarter of its time is left: an answer that takes
    // longer is uncertain.
    let limit = EPSILON * 4;
    let process = driven(definite(|| fixture.builder().request_timeout(limit).steps()).await.unwrap());
    let requests: Vec<_> = (0..30).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    acquire_all(&process, &requests).await;
    // The replica first, so that no node can take over.
    cluster.nodes()[3].kill().unwrap();
    cluster.nodes()[0].kill().unwrap();
    let down = |node: usize| {
        cluster.nodes()[node].command(&["CLUSTER", "INFO"]).unwrap().contains("cluster_state:fail")
    };
    while !(down(1) && down(2)) {
        sleep(Duration::from_millis(50)).await;
    }
    for answer in in_time(limit, || process.callers.acquire(&requests)).await.0 {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    cluster.nodes()[0].restart().unwrap();
    let watch = Stopwatch::start();
    while process.callers.acquire(&requests[..]).await.iter().any(Result::is_err) {
        assert!(watch.elapsed() < Duration::from_secs(10), "the cluster has all slots again");
    }
}

/// An answer says that nothing was executed; which one depends on who knows of the slots.
#[tokio::test]
async fn c3_slots_that_were_given_to_no_node_are_told() {
    let cluster = start(RedisOptions::default().config("cluster-require-full-coverage no"));
    let fixture = Fixture::on(&cluster.url());
    let store = definite(|| fixture.builder().request_timeout(EPSILON * 8).connect()).await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let slots: Vec<_> = (0..16)
        .map(|stripe| {
            let key = format!("{{{}/{stripe}}}", fixture.namespace);
            let answer = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", &key]).unwrap();
            let slot: u16 = answer.trim().trim_start_matches(':').parse().unwrap();
            (slot, cluster.owner(slot).unwrap())
        })
        .collect();
    for (slot, _) in &slots {
        for node in cluster.nodes() {
            node.command(&["CLUSTER", "DELSLOTS", &slot.to_string()]).unwrap();
        }
    }
    let other = store.mutex("n", MutexOptions::default()).unwrap();
    for error in [mutex.inspect().await.unwrap_err(), other.try_lock().await.unwrap_err()] {
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        let text = error.to_string();
        assert!(text.contains("CLUSTERDOWN") || text.contains("no node of the cluster has"), "{text}");
    }
    for (slot, owner) in &slots {
        cluster.nodes()[*owner].command(&["CLUSTER", "ADDSLOTS", &slot.to_string()]).unwrap();
    }
    let is_served = || async { matches!(other.try_lock().await, Ok(Some(_))) };
    eventually(Duration::from_secs(20), "its slot has a node again", is_served).await;
    drop(guard);
}
