//! Waiters of silent processes, and stalls of the store.

use crate::steps::StepCalls;
use std::time::Duration;

use stanchion_core::Ttl;
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Object};

use super::super::drive::*;
use super::super::harness::{Outages, Process, StepHarness};
use crate::stopwatch::{EPSILON, Stopwatch};
use crate::support::{TICK, eventually};

/// Two waiters in front of a third behind a holder's mutex; the holder still has it.
struct Row {
    silent: Process,
    other: Process,
    held: Acquire,
    first: Acquire,
    second: Acquire,
    /// When the first began to ask: it counts as live for at least [`LIVENESS`] from then on.
    asked: Instant,
    /// Time in which the store may have heard nobody, while the row was made.
    quiet: Duration,
}

impl Row {
    async fn new(harness: &dyn StepHarness, lease: u64) -> Self {
        let (silent, other) = (harness.process().await, harness.process().await);
        let object = mutex("m");
        let [held, first, second] = [(); 3].map(|()| Acquire { lease: ttl(30_000), ..ask(&object) });
        let first = Acquire { lease: ttl(lease), ..first };
        let began = now();
        granted(&other, &held).await;
        let asked = now();
        waits(&silent, &first).await;
        waits(&other, &second).await;
        Self { silent, other, held, first, second, asked, quiet: began.elapsed() }
    }
}

/// A mutex that is held at a private server, and a waiter whose lease ends while the server stands
/// still.
pub(super) struct Outlived {
    pub(super) process: Process,
    object: Object,
    resumed: Instant,
    server: Box<dyn Outages>,
    _harness: Box<dyn StepHarness>,
}

impl Outlived {
    /// The lease of the waiter.
    const LEASE: Duration = Duration::from_millis(1_500);

    async fn new(harness: &dyn StepHarness) -> Self {
        let (harness, server) = harness.alone().await;
        let (process, object) = (harness.process().await, mutex("m"));
        granted(&process, &Acquire { lease: ttl(60_000), ..ask(&object) }).await;
        waits(&process, &Acquire { lease: Ttl::new(Self::LEASE).expect("a TTL"), ..ask(&object) }).await;
        Self { process, object, resumed: now(), server, _harness: harness }
    }

    pub(super) async fn stalled(harness: &dyn StepHarness) -> Self {
        let mut row = Self::new(harness).await;
        row.server.pause();
        sleep(Self::LEASE + EPSILON).await;
        row.resumed = now();
        row.server.resume();
        row
    }

    async fn restarted(harness: &dyn StepHarness) -> Self {
        let mut row = Self::new(harness).await;
        row.server.kill();
        sleep(Self::LEASE + EPSILON).await;
        row.resumed = now();
        row.server.restart();
        for steps in [&row.process.callers, &row.process.own] {
            while steps.ping().await.is_err() {}
        }
        row
    }

    /// Asserts that the waiter was counted, unless the grace period is over that began after the
    /// server was resumed.
    pub(super) fn check(&self, waiters: Option<u64>) {
        assert!(waiters == Some(1) || self.resumed.elapsed() >= GRACE, "{waiters:?} waiters");
    }

    async fn waiters(&self) -> Option<u64> {
        let inspected = self.process.callers.inspect(&self.object).await;
        Some(inspected.expect("an answer").waiters)
    }

    /// Asserts that the waiter counts, twice, and further on once its process was heard.
    async fn counts(&self) {
        self.check(self.waiters().await);
        self.check(self.waiters().await);
        poll(&self.process, &self.object).await;
        let heard = now();
        let waiters = self.waiters().await;
        assert!(waiters == Some(1) || heard.elapsed() >= Self::LEASE, "{waiters:?} waiters");
    }
}

pub(super) async fn c5_c16_a_silent_waiter_is_passed_over_and_first_again_when_heard(
    harness: &dyn StepHarness,
) {
    let row = Row::new(harness, 30_000).await;
    let object = row.held.object.clone();
    let quiet = heard(&[&row.other], &object, Duration::from_millis(500)).await;
    let since = now();
    release(&row.other, &row.held).await;
    let at_once = is_granted(&acquire(&row.other, &row.second).await);
    assert!(!at_once || row.asked.elapsed() >= LIVENESS, "the first is live");
    if !at_once {
        let stalled = row.quiet.max(quiet + since.elapsed()) >= STALL;
        // Part of the second is over: a store that counted from the release would need all of it.
        let limit = if stalled { GRACE + EPSILON } else { LIVENESS * 4 / 5 };
        turn(&row.other, &row.second, limit).await;
        granted(&row.other, &row.second).await;
    }
    // It is still queued, in front of a new waiter.
    let third = ask(&object);
    waits(&row.other, &third).await;
    poll(&row.silent, &object).await;
    release(&row.other, &row.second).await;
    waits(&row.other, &third).await;
    granted(&row.silent, &row.first).await;
}

/// Who was silent while others were let in keeps its place all the same, and is not counted among
/// them.
pub(super) async fn c16_who_was_silent_while_others_were_let_in_is_in_front_again(harness: &dyn StepHarness) {
    const SILENCE: Duration = Duration::from_millis(2_500);
    const LONG: Duration = Duration::from_secs(6);
    let pair = async || (harness.process().await, harness.process().await);
    let newcomer = |object: &Object, limit| Acquire { queue: false, ..ask_many(object, 1, limit) };
    // A heavy one in front: those behind it came in, and it is first for what they give back.
    let heavy = async {
        let ((live, silent), object) = (pair().await, semaphore("heavy"));
        let (one, two) = (ask_many(&object, 1, 2), ask_many(&object, 1, 2));
        granted(&live, &one).await;
        granted(&live, &two).await;
        let (first, second) = (ask_many(&object, 2, 2), ask_many(&object, 1, 2));
        waits(&silent, &first).await;
        waits(&live, &second).await;
        heard(&[&live], &object, SILENCE).await;
        release(&live, &one).await;
        turn(&live, &second, LONG).await;
        granted(&live, &second).await;
        poll(&silent, &object).await;
        release(&live, &two).await;
        waits(&live, &newcomer(&object, 2)).await;
        release(&live, &second).await;
        granted(&silent, &first).await;
    };
    // One between two that are let in together: what is kept for those is not given away.
    let between = async {
        let ((live, silent), object) = (pair().await, semaphore("between"));
        let held = ask_many(&object, 2, 2);
        granted(&live, &held).await;
        let [first, second, third] = [(); 3].map(|()| ask_many(&object, 1, 2));
        waits(&live, &first).await;
        waits(&silent, &second).await;
        waits(&live, &third).await;
        heard(&[&live], &object, SILENCE).await;
        release(&live, &held).await;
        turn(&live, &third, LONG).await;
        waits(&live, &newcomer(&object, 2)).await;
        granted(&live, &first).await;
        waits(&live, &newcomer(&object, 2)).await;
        granted(&live, &third).await;
    };
    // One that comes back where nobody else waits any more.
    let alone = async {
        let ((live, silent), object) = (pair().await, semaphore("alone"));
        let held = ask_many(&object, 1, 1);
        granted(&live, &held).await;
        let [first, second, third] = [(); 3].map(|()| ask_many(&object, 1, 1));
        waits(&silent, &first).await;
        waits(&live, &second).await;
        heard(&[&live], &object, SILENCE).await;
        release(&live, &held).await;
        turn(&live, &second, LONG).await;
        granted(&live, &second).await;
        poll(&silent, &object).await;
        waits(&live, &third).await;
        release(&live, &second).await;
        waits(&live, &third).await;
        waits(&live, &newcomer(&object, 1)).await;
        granted(&silent, &first).await;
    };
    tokio::join!(heavy, between, alone);
}

pub(super) async fn c16_a_place_that_is_kept_is_that_of_a_live_waiter(harness: &dyn StepHarness) {
    // Kept all the time, and again after a silence.
    for silence in [Duration::ZERO, LIVENESS * 5 / 2] {
        let row = Row::new(harness, 30_000).await;
        let object = row.held.object.clone();
        heard(&[&row.other], &object, silence).await;
        let end = now() + LIVENESS * 5 / 2;
        let kept = loop {
            poll(&row.other, &object).await;
            let sent = now();
            keep_places(&row.silent, &object).await;
            if sent >= end {
                break sent;
            }
            sleep(Duration::from_millis(100)).await;
        };
        release(&row.other, &row.held).await;
        let second = acquire(&row.other, &row.second).await;
        // Later the first is silent again.
        if now() - kept < LIVENESS {
            assert!(!is_granted(&second), "the first is passed over after a silence of {silence:?}");
            granted(&row.silent, &row.first).await;
            release(&row.silent, &row.first).await;
            granted(&row.other, &row.second).await;
        }
        // The second holds, or still waits.
        cancel(&row.other, &row.second).await;
        cancel(&row.silent, &row.first).await;
    }
}

pub(super) async fn c16_a_silent_waiter_loses_its_place_after_its_lease(harness: &dyn StepHarness) {
    let lease = Duration::from_millis(3_500);
    let row = Row::new(harness, 3_500).await;
    let object = row.held.object.clone();
    let waiters = async || row.other.callers.inspect(&object).await.expect("an answer").waiters;
    let mut quiet = heard(&[&row.other], &object, Duration::from_millis(1_500)).await;
    let since = now();
    let before = waiters().await;
    if row.asked.elapsed() < lease {
        assert_eq!(before, 2, "silence alone ends no place");
    }
    quiet += since.elapsed();
    quiet += heard(&[&row.other], &object, Duration::from_millis(2_200)).await;
    let since = now();
    release(&row.other, &row.held).await;
    // Where the place was kept, a store that stalled would be a second reason not to be granted at
    // once: look at it first.
    let at_once = is_granted(&acquire(&row.other, &row.second).await);
    let stalled = quiet + since.elapsed() >= STALL;
    if !at_once {
        turn(&row.other, &row.second, GRACE + EPSILON).await;
        granted(&row.other, &row.second).await;
    }
    // Whoever asks again after the end of its place comes behind those that asked meanwhile.
    let third = ask(&object);
    waits(&row.other, &third).await;
    waits(&row.silent, &row.first).await;
    release(&row.other, &row.second).await;
    let third = acquire(&row.other, &third).await;
    assert!(is_granted(&third), "its place ended with its lease");
    assert!(at_once || stalled, "nobody is left in front of it");
}

/// Nobody makes a step on the name that could remove the place.
pub(super) async fn c23_a_place_that_has_ended_is_not_counted(harness: &dyn StepHarness) {
    let (dead, other) = (harness.process().await, harness.process().await);
    let object = mutex("m");
    let lease = Duration::from_millis(1_500);
    granted(&other, &Acquire { lease: ttl(30_000), ..ask(&object) }).await;
    let asked = now();
    waits(&dead, &Acquire { lease: ttl(1_500), ..ask(&object) }).await;
    let waiters = async || other.callers.inspect(&object).await.expect("an answer").waiters;
    let before = waiters().await;
    assert!(before == 1 || asked.elapsed() >= lease, "{before} waiters");
    // Nobody is heard meanwhile, so that a store may allow a grace period for its own silence,
    // once.
    let grace = Duration::from_secs(4);
    eventually(lease + grace + EPSILON, "its place ended with its lease", || async { waiters().await == 0 })
        .await;
    assert!(asked.elapsed() + TICK >= lease, "silence alone ends no place");
}

pub(super) async fn c16_try_lock_says_no_while_a_live_waiter_queues_and_passes_the_silent(
    harness: &dyn StepHarness,
) {
    let row = Row::new(harness, 30_000).await;
    let object = row.held.object.clone();
    cancel(&row.other, &row.second).await;
    release(&row.other, &row.held).await;
    let try_lock = || Acquire { queue: false, ..ask(&object) };
    // No process is heard later than the waiter's: if the machine stands still now, the silence is
    // not the waiter's.
    poll(&row.silent, &object).await;
    waits(&row.other, &try_lock()).await;
    // Other processes of the same stripe are heard, so this is no stall of the store, unless there
    // was one before.
    let watch = Stopwatch::start();
    loop {
        heard(&[&row.other], &object, Duration::from_millis(100)).await;
        if is_granted(&acquire(&row.other, &try_lock()).await) {
            break;
        }
        assert!(watch.elapsed() < LIVENESS + GRACE + EPSILON, "the silent waiter stands in front");
    }
}

pub(super) async fn c5_dead_waiters_alone_cost_a_caller_once_two_seconds_at_most(harness: &dyn StepHarness) {
    let (dead, other) = (harness.process().await, harness.process().await);
    let object = mutex("m");
    let held = ask(&object);
    let began = now();
    granted(&other, &held).await;
    for _ in 0..10 {
        waits(&dead, &ask(&object)).await;
    }
    release(&other, &held).await;
    // Then a grace period may have begun already, before the dead were heard last.
    let stalled = began.elapsed() >= STALL;
    sleep(Duration::from_millis(1_500)).await;
    // No process at all was heard for a second: the store could have been stalled.
    let first = ask(&object);
    let asked = if stalled { began } else { now() };
    waits(&other, &first).await;
    turn(&other, &first, GRACE + EPSILON).await;
    let took = asked.elapsed();
    assert!(took + TICK >= GRACE, "nobody is judged dead in the first 2 s: {took:?}");
    granted(&other, &first).await;
    release(&other, &first).await;
    if stalled {
        // The dead were not silent for all of that grace period: they may cost another one.
        return;
    }
    // Later callers are not delayed again, whether they wait or not.
    sleep(Duration::from_millis(1_500)).await;
    let second = ask(&object);
    granted(&other, &second).await;
    release(&other, &second).await;
    sleep(Duration::from_millis(1_500)).await;
    granted(&harness.process().await, &Acquire { queue: false, ..ask(&object) }).await;
}

pub(super) async fn c5_rare_attempts_pass_the_dead_after_one_grace(harness: &dyn StepHarness) {
    let (dead, other) = (harness.process().await, harness.process().await);
    let object = mutex("m");
    let held = ask(&object);
    let began = now();
    granted(&other, &held).await;
    waits(&dead, &ask(&object)).await;
    release(&other, &held).await;
    if began.elapsed() >= STALL {
        // A grace period may have begun already, before the dead one was heard: then it may cost
        // another one.
        return;
    }
    let try_lock = || Acquire { queue: false, ..ask(&object) };
    sleep(Duration::from_millis(1_200)).await;
    waits(&other, &try_lock()).await;
    sleep(GRACE + Duration::from_millis(100)).await;
    granted(&other, &try_lock()).await;
}

pub(super) async fn c16_nobody_is_judged_dead_right_after_a_stall_of_the_store(harness: &dyn StepHarness) {
    let (harness, server) = harness.alone().await;
    let row = Row::new(harness.as_ref(), 30_000).await;
    let object = row.held.object.clone();
    // Nobody is heard later than the waiter in front: a stall before the pause is no silence of
    // that waiter.
    heard(&[&row.other, &row.silent], &object, Duration::from_millis(300)).await;
    server.pause();
    sleep(Duration::from_millis(2_000)).await;
    let resumed = now();
    server.resume();
    let still_waits = async || {
        let answer = acquire(&row.other, &row.second).await;
        // A waiter that is silent for all of the grace period is dead after it.
        let in_grace = resumed.elapsed() < GRACE;
        assert!(!in_grace || matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
        in_grace
    };
    release(&row.other, &row.held).await;
    if !still_waits().await {
        return;
    }
    heard(&[&row.other], &object, Duration::from_millis(1_000)).await;
    if !still_waits().await {
        return;
    }
    // The waiter in front polls a second late, and is still first.
    poll(&row.silent, &object).await;
    waits(&row.other, &row.second).await;
    granted(&row.silent, &row.first).await;
}

/// While the store stands still, nobody can be heard. Nobody makes a step before the looks.
pub(super) async fn c16_c23_right_after_a_stall_of_the_store_its_waiters_count(harness: &dyn StepHarness) {
    Outlived::stalled(harness).await.counts().await;
}

pub(super) async fn c16_c23_right_after_a_restart_of_the_store_its_waiters_count(harness: &dyn StepHarness) {
    Outlived::restarted(harness).await.counts().await;
}

pub(super) async fn c16_the_order_survives_a_restart_of_the_store(harness: &dyn StepHarness) {
    let (harness, server) = harness.alone().await;
    let row = Row::new(harness.as_ref(), 30_000).await;
    let object = row.held.object.clone();
    let epoch = poll(&row.other, &object).await.epoch;
    server.kill();
    sleep(Duration::from_millis(1_100)).await;
    server.restart();
    for process in [&row.silent, &row.other] {
        for steps in [&process.callers, &process.own] {
            while steps.ping().await.is_err() {}
        }
    }
    assert_eq!(poll(&row.other, &object).await.epoch, epoch);
    release(&row.other, &row.held).await;
    waits(&row.other, &row.second).await;
    granted(&row.silent, &row.first).await;
}

pub(super) async fn c16_a_lost_queue_is_told_by_another_birth(harness: &dyn StepHarness) {
    let row = Row::new(harness, 30_000).await;
    let object = row.held.object.clone();
    let before = poll(&row.other, &object).await.epoch;
    harness.lose_data().await;
    assert_eq!(poll(&row.other, &object).await.epoch, 0);
    granted(&row.silent, &row.first).await;
    let after = poll(&row.other, &object).await.epoch;
    assert!(after > before);
    waits(&row.other, &row.second).await;
}

pub(super) async fn c18_a_waiter_that_made_the_record_notices_when_it_is_gone(harness: &dyn StepHarness) {
    let process = harness.process().await;
    granted(&process, &ask(&mutex("m"))).await;
    let queued = acquire(&process, &ask(&mutex("m"))).await;
    let Acquired::Waiting { epoch, .. } = queued else { panic!("{queued:?}") };
    let polled = poll(&process, &mutex("m")).await.epoch;
    assert!(epoch > 0 && polled == epoch, "{epoch} and then {polled}");
    harness.lose_data().await;
    assert_eq!(poll(&process, &mutex("m")).await.epoch, 0);
}
