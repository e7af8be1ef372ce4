//! How long decisions of outage policies take while a store is away ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{Instant, real};
use stanchion_core::{DecidedBy, Limiter, LimiterOptions, OutagePolicy, Quota, Store};

use crate::support::{pause, spawn, unique};

/// From this time after the fault on, the outage is known.
const KNOWN: Duration = Duration::from_millis(1_100);
/// How long decisions are made after the fault.
const TIME: Duration = Duration::from_millis(2_500);
/// Pause of a task between two decisions.
const BREATH: Duration = Duration::from_millis(5);
/// Number of tasks that decide with each policy, together.
const TASKS: usize = 64;

/// Makes decisions with each policy, by one task and by many, before a fault of the store and after
/// it, and prints how long those took that began when the outage was known.
///
/// # Panics
/// If they are not made at once: half of them within 5 ms, and 99 of 100 without an attempt to
/// reach the store.
pub async fn decide_through(store: &dyn Store, what: &str, fault: impl FnOnce()) {
    let limiter = |policy| {
        let options = LimiterOptions::new(Quota::per_second(1_000_000)).outage(policy);
        store.limiter(&unique("policy"), options).expect("a limiter")
    };
    let policies = [
        ("FailOpen", OutagePolicy::FailOpen),
        ("LocalShare", OutagePolicy::LocalShare(NonZero::<u32>::MIN.saturating_add(1))),
    ];
    let limiters: Vec<_> = policies
        .into_iter()
        .flat_map(|(name, policy)| [1, TASKS].map(|tasks| (name, tasks, limiter(policy))))
        .collect();
    for (_, _, limiter) in &limiters {
        assert_eq!(limiter.allow().await.expect("a decision").decided_by, DecidedBy::Store);
    }
    let began = real();
    fault();
    let rows: Vec<_> = limiters
        .into_iter()
        .map(|(name, tasks, limiter)| {
            let tasks: Vec<_> = (0..tasks).map(|_| spawn(decisions(Arc::clone(&limiter), began))).collect();
            (name, tasks)
        })
        .collect();
    let mut slow = Vec::new();
    for (name, tasks) in rows {
        let (count, mut times) = (tasks.len(), Vec::new());
        for task in tasks {
            times.extend(task.join().await);
        }
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        let row = format!(
            "{what}, {name}, {count} tasks: {} decisions, p50 {:?}, p99 {:?}, largest {:?}",
            times.len(),
            at(50),
            at(99),
            at(100)
        );
        println!("{row}");
        if at(50) > Duration::from_millis(5) || at(99) > Duration::from_millis(400) {
            slow.push(row);
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

/// Returns the times of the decisions that began when the outage was known.
async fn decisions(limiter: Arc<dyn Limiter>, began: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while began.elapsed() < TIME {
        let asked = real();
        let decision = limiter.allow().await.expect("a decision");
        if asked - began >= KNOWN {
            assert_eq!(decision.decided_by, DecidedBy::OutagePolicy);
            times.push(asked.elapsed());
        }
        pause(BREATH).await;
    }
    times
}
