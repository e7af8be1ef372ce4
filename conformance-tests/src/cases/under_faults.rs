//! What retries and late copies show of a store's steps: the engine sends them only where a request or a reply was lost.
//!
//! Each case orders the faults it is about for the clients it calls, and asks other clients, without faults, what became of
//! it. In the last one they are drawn.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use rand::RngExt;
use stanchion_core::{
    ErrorKind, HoldOptions, LimiterOptions, Mutex, MutexOptions, Quota, Semaphore, SemaphoreOptions, Store,
    WaitGroup, WaitGroupOptions,
};

use crate::faulty::{Fault, Faults, Step};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, Cut, DEAD_IN_FRONT, EPSILON, POLL_FLOOR, beside, cannot_show, drop_after, eventually,
    join_all, kind_of, pause, spawn, unique, unrenewed, within,
};

/// A call that rides a few faults out has ended by then, on any machine.
const RIDDEN_OUT: Duration = Duration::from_secs(20);

/// Faults, a client that meets them, and one that does not.
struct Scene {
    faults: Arc<Faults>,
    faulty: Arc<dyn Store>,
    other: Arc<dyn Store>,
    name: String,
}

impl Scene {
    async fn new(h: &dyn Harness, faults: Faults) -> Self {
        let faults = Arc::new(faults);
        let Some(faulty) = h.faulty_store(&faults).await else {
            cannot_show("the harness brings no store with faults between its engine and its steps");
            unreachable!("the case has ended");
        };
        Self { faults, faulty, other: h.store().await, name: unique("faults") }
    }

    async fn ordered(h: &dyn Harness) -> Self {
        Self::new(h, Faults::ordered()).await
    }

    fn mutex(&self, store: &Arc<dyn Store>, hold: HoldOptions) -> Arc<dyn Mutex> {
        let mut options = MutexOptions::default();
        options.hold = hold;
        store.mutex(&self.name, options).expect("a mutex")
    }

    /// The mutex of both clients, the faulty one's first.
    fn mutexes(&self) -> [Arc<dyn Mutex>; 2] {
        [&self.faulty, &self.other].map(|store| self.mutex(store, HoldOptions::default()))
    }

    fn semaphores(&self, permits: u32, hold: &HoldOptions) -> [Arc<dyn Semaphore>; 2] {
        let mut options = SemaphoreOptions::new(permits);
        options.hold = hold.clone();
        [&self.faulty, &self.other]
            .map(|store| store.semaphore(&self.name, options.clone()).expect("a semaphore"))
    }

    fn groups(&self) -> [Arc<dyn WaitGroup>; 2] {
        if !self.other.capabilities().wait_groups {
            cannot_show("the store declares no wait groups");
        }
        let group = |store: &Arc<dyn Store>| store.wait_group(&self.name, WaitGroupOptions::default());
        [&self.faulty, &self.other].map(|store| group(store).expect("a wait group"))
    }

    /// Runs a call whose requests meet this fault.
    async fn meeting<T>(&self, step: Step, fault: Fault, call: impl Future<Output = T>) -> T {
        self.faults.order(step, fault);
        let output = within(RIDDEN_OUT, "a call that meets a fault", call).await;
        assert!(self.faults.is_spent(), "{step:?} was never sent");
        output
    }

    /// Waits until so many cancels were executed.
    async fn withdrawn(&self, cancels: usize) {
        let executed = || async { self.faults.executed(Step::Cancel) >= cancels };
        eventually(CANCELLED, "it is withdrawn", executed).await;
    }
}

/// Asserts that nobody holds or queues for a mutex: it can be had at once.
async fn is_free(mutex: &dyn Mutex, what: &str) {
    let guard = mutex.try_lock().await.expect("a definite answer");
    guard.unwrap_or_else(|| panic!("{what}: somebody holds it")).release().await.expect("a release");
}

/// The same within the time that a cancelled call may leave something.
async fn becomes_free(mutex: &dyn Mutex) {
    eventually(CANCELLED, "nothing is left behind", || async {
        match mutex.try_lock().await.expect("a definite answer") {
            Some(guard) => guard.release().await.map(|()| true).expect("a release"),
            None => false,
        }
    })
    .await;
}

/// Asserts that so many permits can be had and no more: what a store counts may differ from the holds that it lists.
async fn takes(semaphore: &dyn Semaphore, permits: u32, fault: Fault) {
    let taken = semaphore.try_acquire_many(permits).await.expect("a definite answer");
    let taken = taken.unwrap_or_else(|| panic!("{fault:?}: {permits} permits are not to be had"));
    assert!(semaphore.try_acquire().await.expect("a definite answer").is_none(), "{fault:?}: one too many");
    taken.release().await.expect("a release");
}

/// C2, S7: an acquisition that had to be sent twice has one hold.
pub(crate) async fn c2_s7_a_retried_acquire_is_one_hold(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [semaphore, other] = scene.semaphores(4, &HoldOptions::default());
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let permit = scene.meeting(Step::Acquire, fault, semaphore.acquire()).await.expect("a permit");
        assert_eq!(other.available().await.expect("a number"), 3, "{fault:?}: one permit is out");
        takes(other.as_ref(), 3, fault).await;
        permit.release().await.expect("a release");
        assert_eq!(other.available().await.expect("a number"), 4, "{fault:?}: it came back, and no more");
        takes(other.as_ref(), 4, fault).await;
    }
}

/// C2, C8: a holder whose request was answered by its retry believes for as long as the retry allows, so nobody else is
/// granted before that.
pub(crate) async fn c2_c8_a_retried_acquire_has_its_lease_anew(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(3);
    // The retry comes so much later: more than what a holder leaves of its lease.
    let scene = Scene::new(h, Faults::ordered().limit(TTL / 3)).await;
    let mutex = scene.mutex(&scene.faulty, unrenewed(TTL));
    let other = scene.mutex(&scene.other, HoldOptions::default());
    let guard = scene.meeting(Step::Acquire, Fault::LoseReply, mutex.lock()).await.expect("a lock");
    let taken = within(TTL + DEAD_IN_FRONT + RIDDEN_OUT, "the lease ends", other.lock()).await;
    assert!(!guard.is_held(), "somebody else was granted while the holder believed that it holds");
    taken.expect("a lock").release().await.expect("a release");
}

/// C3, C4: of an attempt whose reply is lost nobody knows, and it leaves nothing.
pub(crate) async fn c3_c4_an_attempt_in_doubt_is_unknown_and_leaves_nothing(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [mutex, other] = scene.mutexes();
    for (index, fault) in [Fault::LoseReply, Fault::LoseRequest, Fault::Late].into_iter().enumerate() {
        let answer = scene.meeting(Step::Acquire, fault, mutex.try_lock()).await;
        assert_eq!(kind_of(answer), Some(ErrorKind::Unknown), "{fault:?}");
        scene.withdrawn(index + 1).await;
        becomes_free(other.as_ref()).await;
        scene.faults.deliver().await;
        is_free(other.as_ref(), "a late copy of a withdrawn attempt").await;
    }
}

/// C4: the cancel of a dropped acquisition leaves a tombstone, which refuses the request that it overtook.
pub(crate) async fn c4_a_late_copy_of_a_dropped_acquire_is_refused(h: &dyn Harness) {
    // Nothing but the drop ends the first request.
    let scene = Scene::new(h, Faults::ordered().limit(RIDDEN_OUT)).await;
    let [mutex, other] = scene.mutexes();
    scene.faults.order(Step::Acquire, Fault::Late);
    {
        let mut locking = pin!(mutex.lock());
        let sent = eventually(RIDDEN_OUT, "it is sent", || async { scene.faults.late() == 1 });
        beside(&mut locking, "it has no answer", sent).await;
    }
    scene.withdrawn(1).await;
    scene.faults.deliver().await;
    is_free(other.as_ref(), "a late copy of a cancelled acquire").await;
}

/// C4: a release in doubt leaves a tombstone, too.
pub(crate) async fn c4_a_late_copy_of_a_released_acquire_is_refused(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [mutex, other] = scene.mutexes();
    let guard = scene.meeting(Step::Acquire, Fault::Late, mutex.lock()).await.expect("a lock");
    guard.release().await.expect("a release");
    is_free(other.as_ref(), "a released mutex").await;
    assert_eq!(scene.faults.late(), 1);
    scene.faults.deliver().await;
    is_free(other.as_ref(), "a late copy of a released acquire").await;
}

/// C11: a release that had to be sent twice is told that it released, whichever reply was lost.
pub(crate) async fn c11_a_retried_release_is_told_the_same(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [mutex, other] = scene.mutexes();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let guard = within(RIDDEN_OUT, "a lock", mutex.lock()).await.expect("a lock");
        scene.meeting(Step::Release, fault, guard.release()).await.expect("its own release");
        is_free(other.as_ref(), "a released mutex").await;
        let guard = scene.meeting(Step::Acquire, Fault::LoseReply, mutex.lock()).await.expect("a lock");
        scene
            .meeting(Step::Release, fault, guard.release())
            .await
            .expect("its own release, named by its call");
        is_free(other.as_ref(), "a released mutex").await;
    }
}

/// C14: a waiter whose wake-up is lost proceeds by the poll floor.
pub(crate) async fn c14_a_lost_wake_up_is_ridden_out(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    scene.faults.lose_hints();
    let [mutex, other] = scene.mutexes();
    let held = other.lock().await.expect("a lock");
    let waiter = spawn(async move { mutex.lock().await.expect("a lock").release().await });
    eventually(RIDDEN_OUT, "it queues", || async { other.inspect().await.expect("inspect").waiters == 1 })
        .await;
    held.release().await.expect("a release");
    within(POLL_FLOOR + EPSILON, "a waiter without a wake-up", waiter.join()).await.expect("a release");
}

/// W2: members whose add had to be sent twice count once, one at a time or many.
pub(crate) async fn w2_a_retried_add_counts_once(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [group, other] = scene.groups();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let one = scene.meeting(Step::Acquire, fault, group.add()).await.expect("a member");
        assert_eq!(other.count().await.expect("a count"), 1, "{fault:?} of an add");
        let mut members = scene.meeting(Step::Acquire, fault, group.add_many(3)).await.expect("members");
        assert_eq!(other.count().await.expect("a count"), 4, "{fault:?} of an add of many");
        members.extend(scene.meeting(Step::Split, fault, group.add_many(2)).await.expect("members"));
        assert_eq!(other.count().await.expect("a count"), 6, "{fault:?} of a split");
        for member in members.into_iter().chain([one]) {
            member.done().await.expect("done");
        }
        assert_eq!(other.count().await.expect("a count"), 0, "{fault:?}");
    }
}

/// W2, W4: members whose done had to be sent twice are counted once.
pub(crate) async fn w2_a_retried_done_counts_once(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    let [group, other] = scene.groups();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        // Its generation goes on until the end.
        let last = other.add().await.expect("a member");
        let member = group.add().await.expect("a member");
        scene.meeting(Step::Release, fault, member.done()).await.expect("done");
        let member = scene.meeting(Step::Acquire, Fault::LoseReply, group.add()).await.expect("a member");
        scene.meeting(Step::Release, fault, member.done()).await.expect("done, named by its call");
        assert_eq!(other.count().await.expect("a count"), 1, "{fault:?}");
        last.done().await.expect("done");
        let outcome = within(RIDDEN_OUT, "zero", other.wait()).await.expect("an outcome");
        let ends = (outcome.finished, outcome.abandoned, outcome.expired);
        assert_eq!(ends, (3, 0, 0), "{fault:?}: how many finished, were abandoned, and expired");
    }
}

/// L5: a decision that had to be sent twice is charged once.
pub(crate) async fn l5_a_retried_decision_is_charged_once(h: &dyn Harness) {
    let scene = Scene::ordered(h).await;
    if !scene.other.capabilities().limiters {
        cannot_show("the store declares no limiters");
    }
    let options = LimiterOptions::new(Quota::per_hour(1).burst(10));
    let [limiter, other] = [&scene.faulty, &scene.other]
        .map(|store| store.limiter(&scene.name, options.clone()).expect("a limiter"));
    for (fault, left) in [(Fault::LoseReply, 7), (Fault::LoseRequest, 4), (Fault::Double, 1)] {
        let decision = scene.meeting(Step::Decide, fault, limiter.allow_n(3)).await.expect("a decision");
        assert_eq!((decision.allowed, decision.remaining), (true, left), "{fault:?}");
        assert_eq!(other.peek().await.expect("a decision").remaining, left, "{fault:?}");
    }
}

/// The permits of the campaign.
const LIMIT: u32 = 5;

/// Acquires, or gives that up half-way, and releases.
async fn round(semaphore: &dyn Semaphore, out: &AtomicU32) {
    let (weight, polls) = (rand::rng().random_range(1..=3), rand::rng().random_range(1..=12));
    let cut = if rand::rng().random_bool(0.5) {
        Cut::Ended(within(RIDDEN_OUT * 2, "an acquisition", semaphore.acquire_many(weight)).await)
    } else {
        drop_after(polls, semaphore.acquire_many(weight)).await
    };
    let Cut::Ended(permit) = cut else { return };
    let permit = permit.expect("what has no time limit rides out lost requests");
    let before = out.fetch_add(weight, SeqCst);
    assert!(before + weight <= LIMIT || !permit.is_held(), "{before} and {weight} permits are out");
    pause(Duration::from_millis(5)).await;
    out.fetch_sub(weight, SeqCst);
    if let Err(error) = permit.release().await {
        assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
    }
}

/// S1, S4, S7: whatever is lost, doubled or late, no more permits are out than there are, and all come back.
pub(crate) async fn s1_s4_s7_permits_are_conserved(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(6);
    let scene = Scene::new(h, Faults::drawn()).await;
    let mut hold = HoldOptions::default();
    hold.ttl = Some(TTL);
    let [semaphore, other] = scene.semaphores(LIMIT, &hold);
    let out = Arc::new(AtomicU32::new(0));
    let callers = (0..6).map(|_| {
        let (semaphore, out) = (Arc::clone(&semaphore), Arc::clone(&out));
        spawn(async move {
            for _ in 0..12 {
                round(semaphore.as_ref(), &out).await;
            }
        })
    });
    join_all(callers.collect()).await;
    scene.faults.calm().await;
    // A release that nobody answered leaves its permits to the end of their lease.
    eventually(TTL + DEAD_IN_FRONT + EPSILON, "all permits are back", || async {
        match other.try_acquire_many(LIMIT).await.expect("a definite answer") {
            Some(permit) => permit.release().await.map(|()| true).expect("a release"),
            None => false,
        }
    })
    .await;
    let state = other.inspect().await.expect("inspect");
    assert_eq!((state.holders.len(), state.waiters), (0, 0), "{state:?}");
}
