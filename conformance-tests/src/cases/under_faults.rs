//! Retries and late copies of requests: the engine sends them only if a request or a reply was
//! lost.
//!
//! Each case orders faults for one client, and checks the result with another client without
//! faults. In the last case, the faults are drawn at random.

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

use stanchion_core::spi::RequestKind;

use crate::faulty::{Fault, Faults};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, Cut, DEAD_IN_FRONT, EPSILON, POLL_FLOOR, beside, cannot_show, drop_after, eventually,
    join_all, kind_of, pause, spawn, unique, unrenewed, within,
};

/// Time limit of a call that survives a few faults, on any machine.
const FAULTY_CALL: Duration = Duration::from_secs(20);

/// Faults, a client with these faults, and one without.
struct FaultSetup {
    faults: Arc<Faults>,
    faulty: Arc<dyn Store>,
    other: Arc<dyn Store>,
    name: String,
}

impl FaultSetup {
    async fn new(h: &dyn Harness, faults: Faults) -> Self {
        let faults = Arc::new(faults);
        let Some(faulty) = h.faulty_store(&faults).await else {
            cannot_show("the harness provides no store with faults between its engine and its steps");
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

    /// Returns the mutex of both clients, the faulty client's first.
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

    /// Runs a call with this fault in its requests.
    async fn meeting<T>(&self, step: RequestKind, fault: Fault, call: impl Future<Output = T>) -> T {
        self.faults.order(step, fault);
        let output = within(FAULTY_CALL, "a call that meets a fault", call).await;
        assert!(self.faults.is_spent(), "{step:?} was never sent");
        output
    }

    /// Waits until this number of cancels were executed.
    async fn withdrawn(&self, cancels: usize) {
        let executed = || async { self.faults.executed(RequestKind::Cancel) >= cancels };
        eventually(CANCELLED, "it is withdrawn", executed).await;
    }
}

/// Asserts that a mutex has no holder and no waiter: it can be locked at once.
async fn is_free(mutex: &dyn Mutex, what: &str) {
    let guard = mutex.try_lock().await.expect("a definite answer");
    guard.unwrap_or_else(|| panic!("{what}: somebody holds it")).release().await.expect("a release");
}

/// Asserts the same within the time in which a cancelled call may leave something behind.
async fn becomes_free(mutex: &dyn Mutex) {
    eventually(CANCELLED, "nothing is left behind", || async {
        match mutex.try_lock().await.expect("a definite answer") {
            Some(guard) => guard.release().await.map(|()| true).expect("a release"),
            None => false,
        }
    })
    .await;
}

/// Asserts that exactly this number of permits can be acquired: a store's count may differ from the
/// holds that it lists.
async fn takes(semaphore: &dyn Semaphore, permits: u32, fault: Fault) {
    let taken = semaphore.try_acquire_many(permits).await.expect("a definite answer");
    let taken = taken.unwrap_or_else(|| panic!("{fault:?}: {permits} permits are not to be had"));
    assert!(semaphore.try_acquire().await.expect("a definite answer").is_none(), "{fault:?}: one too many");
    taken.release().await.expect("a release");
}

/// C2, S7: an acquisition that had to be sent twice has one hold.
pub(crate) async fn c2_s7_a_retried_acquire_is_one_hold(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [semaphore, other] = setup.semaphores(4, &HoldOptions::default());
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let permit = setup.meeting(RequestKind::Acquire, fault, semaphore.acquire()).await.expect("a permit");
        assert_eq!(other.available().await.expect("a number"), 3, "{fault:?}: one permit is out");
        takes(other.as_ref(), 3, fault).await;
        permit.release().await.expect("a release");
        assert_eq!(other.available().await.expect("a number"), 4, "{fault:?}: it came back, and no more");
        takes(other.as_ref(), 4, fault).await;
    }
}

/// C2, C8: a holder whose retry was answered believes for a full lease after the retry, so no other
/// caller is granted before that.
pub(crate) async fn c2_c8_a_retried_acquire_has_its_lease_anew(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(3);
    // The retry comes this much later: more than the margin between a holder's deadline and the end
    // of its lease.
    let setup = FaultSetup::new(h, Faults::ordered().limit(TTL / 3)).await;
    let mutex = setup.mutex(&setup.faulty, unrenewed(TTL));
    let other = setup.mutex(&setup.other, HoldOptions::default());
    let guard = setup.meeting(RequestKind::Acquire, Fault::LoseReply, mutex.lock()).await.expect("a lock");
    let taken = within(TTL + DEAD_IN_FRONT + FAULTY_CALL, "the lease ends", other.lock()).await;
    assert!(!guard.is_held(), "somebody else was granted while the holder believed that it holds");
    taken.expect("a lock").release().await.expect("a release");
}

/// C3, C4: an attempt whose replies are lost ends as unknown, and leaves nothing. It is asked for
/// once more where the first one was lost within its time limit.
pub(crate) async fn c3_c4_an_attempt_in_doubt_is_unknown_and_leaves_nothing(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [mutex, other] = setup.mutexes();
    for (index, fault) in [Fault::LoseReply, Fault::LoseRequest, Fault::Late].into_iter().enumerate() {
        setup.faults.order(RequestKind::Acquire, fault);
        let answer = setup.meeting(RequestKind::Acquire, fault, mutex.try_lock()).await;
        assert_eq!(kind_of(answer), Some(ErrorKind::Unknown), "{fault:?}");
        setup.withdrawn(index + 1).await;
        becomes_free(other.as_ref()).await;
        setup.faults.deliver().await;
        is_free(other.as_ref(), "a late copy of a withdrawn attempt").await;
    }
}

/// C4: the cancel of a dropped acquisition leaves a tombstone, which refuses the request that it
/// overtook.
pub(crate) async fn c4_a_late_copy_of_a_dropped_acquire_is_refused(h: &dyn Harness) {
    // Only the drop ends the first request.
    let setup = FaultSetup::new(h, Faults::ordered().limit(FAULTY_CALL)).await;
    let [mutex, other] = setup.mutexes();
    setup.faults.order(RequestKind::Acquire, Fault::Late);
    {
        let mut locking = pin!(mutex.lock());
        let sent = eventually(FAULTY_CALL, "it is sent", || async { setup.faults.late() == 1 });
        beside(&mut locking, "it has no answer", sent).await;
    }
    setup.withdrawn(1).await;
    setup.faults.deliver().await;
    is_free(other.as_ref(), "a late copy of a cancelled acquire").await;
}

/// C4: a release in doubt leaves a tombstone, too.
pub(crate) async fn c4_a_late_copy_of_a_released_acquire_is_refused(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [mutex, other] = setup.mutexes();
    let guard = setup.meeting(RequestKind::Acquire, Fault::Late, mutex.lock()).await.expect("a lock");
    guard.release().await.expect("a release");
    is_free(other.as_ref(), "a released mutex").await;
    assert_eq!(setup.faults.late(), 1);
    setup.faults.deliver().await;
    is_free(other.as_ref(), "a late copy of a released acquire").await;
}

/// C11: a release that had to be sent twice succeeds, whichever reply was lost.
pub(crate) async fn c11_a_retried_release_is_told_the_same(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [mutex, other] = setup.mutexes();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let guard = within(FAULTY_CALL, "a lock", mutex.lock()).await.expect("a lock");
        setup.meeting(RequestKind::Release, fault, guard.release()).await.expect("its own release");
        is_free(other.as_ref(), "a released mutex").await;
        let guard =
            setup.meeting(RequestKind::Acquire, Fault::LoseReply, mutex.lock()).await.expect("a lock");
        setup
            .meeting(RequestKind::Release, fault, guard.release())
            .await
            .expect("its own release, named by its call");
        is_free(other.as_ref(), "a released mutex").await;
    }
}

/// C14: a waiter whose wake-up is lost proceeds by the poll floor.
pub(crate) async fn c14_a_lost_wake_up_is_ridden_out(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    setup.faults.lose_hints();
    let [mutex, other] = setup.mutexes();
    let held = other.lock().await.expect("a lock");
    let waiter = spawn(async move { mutex.lock().await.expect("a lock").release().await });
    eventually(FAULTY_CALL, "it queues", || async { other.inspect().await.expect("inspect").waiters == 1 })
        .await;
    held.release().await.expect("a release");
    within(POLL_FLOOR + EPSILON, "a waiter without a wake-up", waiter.join()).await.expect("a release");
}

/// W2: members whose add had to be sent twice count once, one at a time or many.
pub(crate) async fn w2_a_retried_add_counts_once(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [group, other] = setup.groups();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        let one = setup.meeting(RequestKind::Acquire, fault, group.add()).await.expect("a member");
        assert_eq!(other.count().await.expect("a count"), 1, "{fault:?} of an add");
        let mut members =
            setup.meeting(RequestKind::Acquire, fault, group.add_many(3)).await.expect("members");
        assert_eq!(other.count().await.expect("a count"), 4, "{fault:?} of an add of many");
        members.extend(setup.meeting(RequestKind::Split, fault, group.add_many(2)).await.expect("members"));
        assert_eq!(other.count().await.expect("a count"), 6, "{fault:?} of a split");
        for member in members.into_iter().chain([one]) {
            member.done().await.expect("done");
        }
        assert_eq!(other.count().await.expect("a count"), 0, "{fault:?}");
    }
}

/// W2, W4: members whose done had to be sent twice are counted once.
pub(crate) async fn w2_a_retried_done_counts_once(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    let [group, other] = setup.groups();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Double] {
        // It keeps the generation open until the end of the case.
        let last = other.add().await.expect("a member");
        let member = group.add().await.expect("a member");
        setup.meeting(RequestKind::Release, fault, member.done()).await.expect("done");
        let member =
            setup.meeting(RequestKind::Acquire, Fault::LoseReply, group.add()).await.expect("a member");
        setup.meeting(RequestKind::Release, fault, member.done()).await.expect("done, named by its call");
        assert_eq!(other.count().await.expect("a count"), 1, "{fault:?}");
        last.done().await.expect("done");
        let outcome = within(FAULTY_CALL, "zero", other.wait()).await.expect("an outcome");
        let ends = (outcome.finished, outcome.abandoned, outcome.expired);
        assert_eq!(ends, (3, 0, 0), "{fault:?}: how many finished, were abandoned, and expired");
    }
}

/// L5: a decision that had to be sent twice is charged once.
pub(crate) async fn l5_a_retried_decision_is_charged_once(h: &dyn Harness) {
    let setup = FaultSetup::ordered(h).await;
    if !setup.other.capabilities().limiters {
        cannot_show("the store declares no limiters");
    }
    let options = LimiterOptions::new(Quota::per_hour(1).burst(10));
    let [limiter, other] = [&setup.faulty, &setup.other]
        .map(|store| store.limiter(&setup.name, options.clone()).expect("a limiter"));
    for (fault, left) in [(Fault::LoseReply, 7), (Fault::LoseRequest, 4), (Fault::Double, 1)] {
        let decision =
            setup.meeting(RequestKind::Decide, fault, limiter.allow_n(3)).await.expect("a decision");
        assert_eq!((decision.allowed, decision.remaining), (true, left), "{fault:?}");
        assert_eq!(other.peek().await.expect("a decision").remaining, left, "{fault:?}");
    }
}

/// The permits of the campaign.
const LIMIT: u32 = 5;

/// Acquires and releases, or drops the acquisition half-way.
async fn round(semaphore: &dyn Semaphore, out: &AtomicU32) {
    let (weight, polls) = (rand::rng().random_range(1..=3), rand::rng().random_range(1..=12));
    let cut = if rand::rng().random_bool(0.5) {
        Cut::Ended(within(FAULTY_CALL * 2, "an acquisition", semaphore.acquire_many(weight)).await)
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

/// S1, S4, S7: whatever is lost, doubled or late, never more permits are out than the limit, and
/// all come back.
pub(crate) async fn s1_s4_s7_permits_are_conserved(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(6);
    let setup = FaultSetup::new(h, Faults::drawn()).await;
    let mut hold = HoldOptions::default();
    hold.ttl = Some(TTL);
    let [semaphore, other] = setup.semaphores(LIMIT, &hold);
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
    setup.faults.calm().await;
    // A release without an answer leaves its permits out until the end of their lease.
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
