//! What calls cost while a store is away, after its idle connections were dropped, and where it has
//! few connections ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{Instant, real};
use stanchion_core::connect::MAX_UNCHECKED_IDLE;
use stanchion_core::{DecidedBy, Limiter, LimiterOptions, Mutex, MutexOptions, OutagePolicy, Quota, Store};

use crate::stopwatch::{EPSILON, Stopwatch};
use crate::support::{on_another_runtime, pause, spawn, unique, within};

/// From this time after the fault on, the outage is known.
const KNOWN: Duration = Duration::from_millis(1_100);
/// How long decisions are made after the fault.
const TIME: Duration = Duration::from_millis(2_500);
/// Minimum number of decisions of a task after the outage is known.
const FEWEST: usize = 20;
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

/// Makes calls after `drop_all` has dropped all connections of an idle store without a word, as
/// routers do. The store's requests have the default time limit.
///
/// # Panics
/// If one does not succeed in the time that finding out and connecting anew take.
pub async fn call_over_dropped_connections(store: &dyn Store, drop_all: impl Fn() + Send + Sync) {
    // A connection is asked for a quarter of a request's time limit, and then another one is made.
    let calls = CallsOverDropped::new(store, EPSILON * 2, MAX_UNCHECKED_IDLE * 3 / 2);
    for call in [OverDropped::Try, OverDropped::Limited, OverDropped::Decision, OverDropped::Decisions] {
        calls.make(call, &drop_all).await;
    }
}

/// As [`call_over_dropped_connections`], where the connections were used a moment before.
///
/// # Panics
/// If a call does not succeed in the time that finding out and connecting anew take.
pub async fn call_over_connections_dropped_in_use(store: &dyn Store, drop_all: impl Fn() + Send + Sync) {
    // An answer is late after a quarter of a request's time limit. Finding out takes as long, at
    // most.
    let calls = CallsOverDropped::new(store, EPSILON * 3, Duration::ZERO);
    for call in [
        OverDropped::Try,
        OverDropped::Limited,
        OverDropped::Release,
        OverDropped::Decision,
        OverDropped::Decisions,
    ] {
        calls.make(call, &drop_all).await;
    }
}

/// A call over connections that were dropped in silence.
#[derive(Clone, Copy, Debug)]
enum OverDropped {
    Try,
    Limited,
    Release,
    Decision,
    /// Of many tasks.
    Decisions,
}

struct CallsOverDropped {
    mutex: Arc<dyn Mutex>,
    limiter: Arc<dyn Limiter>,
    /// Maximum time of a call.
    limit: Duration,
    /// Time between the last answer and the drop.
    pause: Duration,
}

impl CallsOverDropped {
    fn new(store: &dyn Store, limit: Duration, pause: Duration) -> Self {
        let mutex = store.mutex(&unique("dropped"), MutexOptions::default()).expect("a mutex");
        let options = LimiterOptions::new(Quota::per_second(1_000_000));
        let limiter = store.limiter(&unique("dropped"), options).expect("a limiter");
        Self { mutex, limiter, limit, pause }
    }

    async fn make(&self, call: OverDropped, drop_all: impl Fn() + Send + Sync) {
        let held = self.mutex.lock().await.expect("a guard");
        self.limiter.allow().await.expect("a decision");
        let held = match call {
            OverDropped::Release => Some(held),
            _ => held.release().await.map(|()| None).expect("its end"),
        };
        pause(self.pause).await;
        drop_all();
        let watch = Stopwatch::start();
        let taken = match call {
            OverDropped::Try => self.mutex.try_lock().await.expect("an answer"),
            OverDropped::Limited => self.mutex.lock_for(self.limit).await.expect("an answer"),
            OverDropped::Release => {
                held.expect("a guard").release().await.expect("its end");
                None
            }
            OverDropped::Decision => {
                self.decide(1).await;
                None
            }
            OverDropped::Decisions => {
                self.decide(TASKS).await;
                None
            }
        };
        assert!(watch.elapsed() < self.limit, "{call:?} took {:?}", watch.elapsed());
        let is_taken = matches!(call, OverDropped::Try | OverDropped::Limited);
        assert_eq!(taken.is_some(), is_taken, "{call:?}: it was free");
        if let Some(guard) = taken {
            guard.release().await.expect("its end");
        }
    }

    async fn decide(&self, tasks: usize) {
        let decide = || {
            let limiter = Arc::clone(&self.limiter);
            spawn(async move { limiter.allow().await.expect("a decision") })
        };
        for task in (0..tasks).map(|_| decide()).collect::<Vec<_>>() {
            let decision = within(self.limit, "a decision", task.join()).await;
            assert_eq!(decision.decided_by, DecidedBy::Store);
        }
    }
}

/// Holds a mutex for a minute by leases of two seconds, while somebody waits for it and another
/// runtime asks for it, and then closes the store: whatever the engine has to send finds a way,
/// also where the server lets fewer connections in than the store wants.
///
/// # Panics
/// If the hold is lost, somebody is not served, or the store does not close in time.
pub async fn work_over_few_connections(store: &dyn Store, what: &str) {
    const TTL: Duration = Duration::from_secs(2);
    let mutex = |name: &str| store.mutex(&unique(name), MutexOptions::default().ttl(TTL)).expect("a mutex");
    let held = mutex("held");
    let guard = held.lock().await.expect("a guard");
    let waiting = Arc::clone(&held);
    let waiting =
        spawn(async move { waiting.lock().await.expect("a turn").release().await.expect("its end") });
    let elsewhere = Arc::clone(&held);
    let elsewhere = move || on_another_runtime(move |lone| lone.drive(elsewhere.try_lock()));
    let elsewhere = tokio::task::spawn_blocking(elsewhere).await.expect("a thread");
    assert!(elsewhere.expect("an answer").is_none(), "{what}: it is held");
    pause(TTL * 30).await;
    assert!(guard.is_held(), "{what}: lost");
    guard.release().await.expect("its end");
    within(TTL + EPSILON * 2, "a turn", waiting.join()).await;
    // Many at once, which are released in the background.
    let calls: Vec<_> = (0..20).map(|_| mutex("many")).collect();
    let calls: Vec<_> =
        calls.into_iter().map(|mutex| spawn(async move { mutex.lock().await.expect("a guard") })).collect();
    for call in calls {
        drop(within(TTL * 2, "a grant", call.join()).await);
    }
    within(TTL, "it closes", store.close()).await.expect("closed");
}

/// Returns the times of the decisions that began when the outage was known.
async fn decisions(limiter: Arc<dyn Limiter>, began: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    // A machine that stands still for that long has shown nothing yet.
    while began.elapsed() < TIME || times.len() < FEWEST {
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
