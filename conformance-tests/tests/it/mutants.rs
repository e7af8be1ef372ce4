//! Each breach is caught by its case.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_conformance::faulty::{self, Faults};
use stanchion_conformance::suite::{Verdict, find, verdict};
use stanchion_conformance::{CASES, Harness};
use stanchion_core::engine::{Background, Engine, EngineSteps, StepsWrap};
use stanchion_core::spi::Steps;
use stanchion_core::{
    Capabilities, Limiter, LimiterOptions, Mutex, MutexMode, MutexOptions, Result, Semaphore,
    SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};

use crate::breach::{Breach, Client};
use crate::model::Model;

/// Time limit of a case: long enough for every case here, and short for a case that a breach
/// blocks.
const LIMIT: Duration = Duration::from_secs(60);

/// The model as a store.
#[derive(Debug)]
struct ModelStore(Engine);

#[async_trait]
impl Store for ModelStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.0.mutex(name, options)
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.0.semaphore(name, options)
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.0.wait_group(name, options)
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        self.0.limiter(name, options)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.0.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}

/// Processes of one model, all with the same breach.
struct MutantModel {
    model: Arc<Model>,
    breach: Option<Breach>,
}

impl MutantModel {
    fn new(breach: Option<Breach>) -> Self {
        Self { model: Model::new(), breach }
    }

    fn process(&self, wrap: Option<&StepsWrap>) -> Arc<dyn Store> {
        let client = Arc::new(Client::new(&self.model, self.breach));
        let steps: Arc<dyn Steps> = client;
        let own = Background { wake: Some(self.model.wakes()), ..Background::new(Arc::clone(&steps)) };
        let mut capabilities = Capabilities::full("model", MutexMode::Lease);
        capabilities.bloom_filters = false;
        capabilities.namespaces = false;
        capabilities.listing = false;
        let engine = Engine::start_wrapped(wrap, capabilities, steps, own).expect("a thread");
        Arc::new(ModelStore(engine))
    }
}

#[async_trait]
impl Harness for MutantModel {
    async fn store(&self) -> Arc<dyn Store> {
        self.process(None)
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        let faults = Arc::clone(faults);
        let wrap = StepsWrap::new(move |steps: EngineSteps| faulty::wrap(steps, &faults));
        Some(self.process(Some(&wrap)))
    }

    async fn forgetful_store(&self, _: Duration) -> Option<Arc<dyn Store>> {
        None
    }

    async fn leftover(&self) -> Option<usize> {
        None
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn lose_data(&self) -> bool {
        false
    }
}

fn verdict_of(name: &str, breach: Option<Breach>) -> Verdict {
    let case = find(&format!("under_faults::{name}")).expect("a case");
    verdict(case, LIMIT, move || async move { MutantModel::new(breach) })
}

/// Asserts that the case fails because of the breach, with a message that contains `saying`.
fn caught(breach: Breach, name: &str, saying: &str) {
    match verdict_of(name, Some(breach)) {
        Verdict::Failed(message) => assert!(message.contains(saying), "{breach:?}: {name} says {message}"),
        other => panic!("{breach:?} is not caught by {name}: {other:?}"),
    }
}

#[test]
fn a_store_that_does_what_is_asked_passes() {
    let cases = CASES.iter().filter(|case| case.group() == "under_faults");
    let names: Vec<_> = cases.map(|case| case.name()).collect();
    assert!(!names.is_empty());
    for name in names {
        assert_eq!(verdict_of(name, None), Verdict::Passed, "{name}");
    }
}

#[test]
fn c2_an_acquire_that_is_not_idempotent_is_caught() {
    caught(Breach::SecondHold, "c2_s7_a_retried_acquire_is_one_hold", "LoseReply: one permit is out");
}

#[test]
fn c2_a_retry_without_a_new_lease_is_caught() {
    let believed = "while the holder believed that it holds";
    caught(Breach::OldLease, "c2_c8_a_retried_acquire_has_its_lease_anew", believed);
}

#[test]
fn c4_a_missing_tombstone_is_caught() {
    let cancelled = "a late copy of a cancelled acquire";
    caught(Breach::NoTombstone, "c4_a_late_copy_of_a_dropped_acquire_is_refused", cancelled);
    let released = "a late copy of a released acquire";
    caught(Breach::NoTombstone, "c4_a_late_copy_of_a_released_acquire_is_refused", released);
}

#[test]
fn c11_a_release_that_is_not_idempotent_is_caught() {
    let own = "its own release, named by its call";
    caught(Breach::ForgottenCall, "c11_a_retried_release_is_told_the_same", own);
}

#[test]
fn c14_a_poll_that_says_nothing_is_caught() {
    caught(Breach::SilentPoll, "c14_a_lost_wake_up_is_ridden_out", "a waiter without a wake-up");
}

#[test]
fn w2_members_that_count_twice_are_caught() {
    caught(Breach::SecondHold, "w2_a_retried_add_counts_once", "LoseReply of an add");
    caught(Breach::CountedAgain, "w2_a_retried_done_counts_once", "LoseReply: how many finished");
}

#[test]
fn l5_a_flight_that_is_charged_twice_is_caught() {
    caught(Breach::ChargedAgain, "l5_a_retried_decision_is_charged_once", "LoseReply");
}
