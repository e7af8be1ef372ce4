//! What the log says of outages and losses (C29).

use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::model::Model;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::{
    Capabilities, LimiterOptions, Mutex as NamedMutex, MutexMode, MutexOptions, OutagePolicy, Quota,
    Semaphore, SemaphoreOptions, Store,
};
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Without an answer for so long, the store is away.
const OUTAGE: Duration = Duration::from_millis(500);

/// The lines of the log of this program at `info` and above, with their fields.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<(Level, String)>>);

struct Shared(Arc<Log>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Shared {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("stanchion_core") && *metadata.level() <= Level::INFO
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.0.lock().unwrap().push((*event.metadata().level(), line.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The log, and the tests of this file one after the other: other tests of the program write to it,
/// too.
pub(crate) async fn log() -> (Arc<Log>, tokio::sync::MutexGuard<'static, ()>) {
    static LOG: OnceLock<Arc<Log>> = OnceLock::new();
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let alone = ALONE.lock().await;
    let log = LOG.get_or_init(|| {
        let log = Arc::<Log>::default();
        tracing::subscriber::set_global_default(Shared(Arc::clone(&log))).unwrap();
        log
    });
    (Arc::clone(log), alone)
}

impl Log {
    /// The lines with that text.
    pub(crate) fn lines(&self, text: &str) -> Vec<(Level, String)> {
        self.0.lock().unwrap().iter().filter(|(_, line)| line.contains(text)).cloned().collect()
    }

    /// The lines with that text, once there are so many: a thread writes its line a moment after
    /// what the line tells.
    pub(crate) async fn told(&self, text: &str, count: usize) -> Vec<(Level, String)> {
        let told = async {
            while self.lines(text).len() < count {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(Duration::from_secs(2), told).await.unwrap_or_else(|_| panic!("{text}: not {count} lines"));
        self.lines(text)
    }
}

/// A model whose lines are told apart from those of other tests.
fn logged(store: &'static str) -> (Arc<Model>, Engine) {
    let model = Model::new();
    let steps = model.steps(Duration::from_secs(2));
    let slow_wait = Duration::MAX;
    let own = Background { wake: Some(model.wakes()), slow_wait, ..Background::new(Arc::clone(&steps)) };
    (model, Engine::start(Capabilities::full(store, MutexMode::Lease), steps, own).unwrap())
}

#[tokio::test]
async fn c29_an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of outages");
    let held = engine.mutex("a", MutexOptions::default()).unwrap();
    let guard = held.lock().await.unwrap();
    let waiting = tokio::spawn(async move { held.lock().await.map(drop) });
    sleep(Duration::from_millis(100)).await;
    model.faults.away.store(true, SeqCst);
    log.told("store of outages", 1).await;
    // It goes on, and is not told again.
    sleep(Duration::from_secs(1)).await;
    let begun = log.lines("store of outages");
    let [(level, line)] = &begun[..] else { panic!("one line: {begun:?}") };
    assert_eq!(*level, Level::WARN);
    assert!(line.contains("the store is away") && line.contains("waiting=1"), "{line}");
    model.faults.away.store(false, SeqCst);
    guard.release().await.unwrap();
    timeout(Duration::from_secs(1) + EPSILON, waiting).await.unwrap().unwrap().unwrap();
    log.told("store of outages", 2).await;
    sleep(Duration::from_millis(400)).await;
    let all = log.lines("store of outages");
    assert!(all.len() == 2 && all[1].0 == Level::INFO && all[1].1.contains("is back"), "{all:?}");
}

#[tokio::test]
async fn c29_a_lost_reply_is_no_outage() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of lost replies");
    let mutex = engine.mutex("a", MutexOptions::default()).unwrap();
    let quick_rounds = async {
        let mut quick = 0;
        while quick < 5 {
            let (began, before) = (Instant::now(), log.lines("store of lost replies").len());
            model.faults.lose_replies.store(true, SeqCst);
            assert!(mutex.try_lock().await.is_err());
            model.faults.lose_replies.store(false, SeqCst);
            drop(mutex.lock().await.unwrap());
            engine.drain().await.unwrap();
            // A machine that stands still between a lost reply and the next answer makes an outage
            // of it.
            if began.elapsed() < OUTAGE {
                let lines = log.lines("store of lost replies");
                assert_eq!(lines.len(), before, "{lines:?}");
                quick += 1;
            }
            // The lost replies are spread over more than the time of an outage: the answers between
            // them count.
            sleep(OUTAGE * 2 / 5).await;
        }
    };
    timeout(Duration::from_secs(20), quick_rounds).await.expect("a round is quick");
}

#[tokio::test]
async fn c29_refusals_of_a_store_that_answers_are_no_outage() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of refusals");
    let mutex = engine.mutex("a", MutexOptions::default()).unwrap();
    drop(mutex.lock().await.unwrap());
    model.faults.refuses.store(true, SeqCst);
    // The queued release is refused, and sent again.
    let began = Instant::now();
    while began.elapsed() < OUTAGE * 3 {
        assert!(mutex.try_lock().await.is_err());
        sleep(OUTAGE / 10).await;
    }
    assert_eq!(log.lines("store of refusals"), []);
    model.faults.refuses.store(false, SeqCst);
    drop(timeout(OUTAGE * 4, mutex.lock()).await.expect("it is free").unwrap());
}

#[tokio::test]
async fn c29_decisions_of_a_policy_are_told_at_most_every_ten_seconds() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of policies");
    let options = LimiterOptions::new(Quota::per_second(1)).outage(OutagePolicy::FailOpen);
    let limiter = engine.limiter("rate of the policy", options).unwrap();
    model.faults.away.store(true, SeqCst);
    for _ in 0..100 {
        assert!(limiter.allow().await.unwrap().allowed);
    }
    let lines = log.lines("rate of the policy");
    assert!(lines.len() == 1 && lines[0].0 == Level::WARN, "{lines:?}");
}

#[tokio::test]
async fn c29_a_lost_lock_says_which_whose_and_for_how_long() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of losses");
    let ttl = Duration::from_millis(300);
    let options = MutexOptions::default().ttl(ttl).label("the label");
    let guard = engine.mutex("the lost one", options).unwrap().lock().await.unwrap();
    model.faults.no_renewal.store(true, SeqCst);
    guard.lost().await;
    assert!(!guard.is_held());
    // Told by whichever thread noticed first, once it has let go of the lock.
    let lines = log.told("the lost one", 1).await;
    let [(level, line)] = &lines[..] else { panic!("one line: {lines:?}") };
    assert_eq!(*level, Level::WARN);
    assert!(
        line.contains("the label") && line.contains("hold.duration=") && line.contains("cause=\"deadline\""),
        "{line}"
    );
}

/// Handles of a name that is freed by force: a holder's, and an operator's.
type Handles = [Arc<dyn NamedMutex>; 2];

/// Checks the records of a mutex that was freed by force.
async fn check_mutex(log: &Log, [holder, operator]: Handles, mutex: &str) {
    let _guard = holder.lock().await.unwrap();
    assert!(operator.force_unlock().await.unwrap());
    assert!(!operator.force_unlock().await.unwrap());
    let lines = log.told(mutex, 2).await;
    let of = |told: &str| lines.iter().find(|(_, line)| line.contains(told)).expect(told);
    let (level, line) = of("ended by force");
    assert_eq!(*level, Level::WARN);
    for told in ["operation=\"force_unlock\"", "caller.label=\"an operator\"", "freed=1", "namespace="] {
        assert!(line.contains(told), "{told}: {line}");
    }
    assert!(!line.contains("a holder") && !line.contains("ticket="), "{line}");
    assert_eq!(of("nothing was held").0, Level::INFO);
}

/// Checks the record of permits that were freed by force.
async fn check_semaphore(log: &Log, semaphores: Arc<dyn Semaphore>, semaphore: &str) {
    let permit = semaphores.acquire_many(2).await.unwrap();
    assert!(semaphores.force_release(permit.ticket()).await.unwrap());
    let lines = log.told(semaphore, 1).await;
    let (level, line) = lines.iter().find(|(_, line)| line.contains("ended by force")).expect("a record");
    assert_eq!(*level, Level::WARN);
    let ticket = format!("ticket={}", permit.ticket());
    for told in ["operation=\"force_release\"", "caller.label=\"an operator\"", "freed=1", &ticket] {
        assert!(line.contains(told), "{told}: {line}");
    }
}

#[tokio::test]
async fn m8_a_forced_release_is_recorded_with_the_label_of_its_caller() {
    let (log, _alone) = log().await;
    let labelled = ["a holder", "an operator"].map(|by| MutexOptions::default().label(by));
    let permits = || SemaphoreOptions::new(3).label("an operator");
    let (in_memory, by_engine) = ("forced in memory", "forced by the engine");
    let store = stanchion::memory::MemoryStore::new();
    check_mutex(&log, labelled.clone().map(|options| store.mutex(in_memory, options).unwrap()), in_memory)
        .await;
    let name = "permits forced in memory";
    check_semaphore(&log, store.semaphore(name, permits()).unwrap(), name).await;
    let (_model, engine) = logged("store of forced releases");
    check_mutex(&log, labelled.map(|options| engine.mutex(by_engine, options).unwrap()), by_engine).await;
    let name = "permits forced by the engine";
    check_semaphore(&log, engine.semaphore(name, permits()).unwrap(), name).await;
}

#[tokio::test]
async fn c3_a_forced_release_that_may_have_been_made_is_recorded() {
    let (log, _alone) = log().await;
    let (model, engine) = logged("store of doubtful releases");
    let options = MutexOptions::default().label("an operator");
    let operator = engine.mutex("forced in doubt", options).unwrap();
    let _guard = operator.lock().await.unwrap();
    model.faults.lose_replies.store(true, SeqCst);
    assert!(operator.force_unlock().await.is_err());
    let lines = log.lines("may have been ended by force");
    let [(level, line)] = &lines[..] else { panic!("one line: {lines:?}") };
    assert!(*level == Level::WARN && line.contains("caller.label=\"an operator\""), "{line}");
    // What was not executed is not recorded.
    model.faults.lose_replies.store(false, SeqCst);
    model.faults.away.store(true, SeqCst);
    assert!(operator.force_unlock().await.is_err());
    assert_eq!(
        log.lines("forced in doubt").iter().filter(|(_, line)| line.contains("force_unlock")).count(),
        1
    );
}
