//! Futures that are dropped half-way.

use std::pin::Pin;
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, Result};

use super::super::lock_fixture::{Guard, Lock, LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, Cut, EPSILON, POLL_FLOOR, Stopwatch, Task, drop_after, eventually, pause, poll_once, spawn,
    stays_pending, within,
};

/// Maximum number of polls: more than any acquisition needs before it waits.
const MAXIMUM_POLLS: u32 = 24;
const LONG: Duration = Duration::from_secs(30);

type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<Option<Guard>>> + Send + 'a>>;

/// The three ways to acquire.
const WAYS: [fn(&Lock) -> Acquiring<'_>; 3] = [
    |lock| Box::pin(async { lock.lock().await.map(Some) }),
    |lock| Box::pin(lock.try_lock()),
    |lock| Box::pin(lock.lock_for(LONG)),
];

/// C4: an acquisition of a free name is dropped at its k-th poll, for every k.
pub(crate) async fn c4_dropped_lock_leaves_nothing(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let witness = fixture.client(HoldOptions::default()).await;
    for acquire in WAYS {
        for polls in 0..=MAXIMUM_POLLS {
            assert!(polls < MAXIMUM_POLLS, "an acquisition of a free name ends");
            let cut = drop_after(polls, acquire(&lock)).await;
            let ended = match cut {
                Cut::Ended(granted) => match granted.expect("lock") {
                    Some(guard) => {
                        guard.release().await.expect("release");
                        true
                    }
                    // The dropped request before came after the witness had looked, and its cancel
                    // comes now.
                    None => false,
                },
                Cut::Dropped | Cut::Waiting => false,
            };
            free_again(&witness).await;
            fixture.settles(&witness, None).await;
            if ended {
                break;
            }
        }
    }
}

/// Waits until the name can be locked. The dropped request may still reach a networked store, until
/// its cancel does.
async fn free_again(witness: &Lock) {
    eventually(CANCELLED, "free again", || async {
        match witness.try_lock().await.expect("a definite answer") {
            Some(guard) => guard.release().await.map(|()| true).expect("release"),
            None => false,
        }
    })
    .await;
}

/// C4: an acquisition of a held name is dropped at its k-th poll, for every k until it waits for
/// the holder, and while it waits.
pub(crate) async fn c4_dropped_waiter_leaves_the_queue(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let witness = fixture.client(HoldOptions::default()).await;
    for acquire in WAYS {
        for polls in 0..MAXIMUM_POLLS {
            let guard = witness.lock().await.expect("lock");
            let cut = drop_after(polls, acquire(&lock)).await;
            assert!(!matches!(cut, Cut::Ended(Ok(Some(_)))), "granted while another holds");
            fixture.settles(&witness, Some(guard.ticket())).await;
            guard.release().await.expect("release");
            free_again(&witness).await;
            if !matches!(cut, Cut::Dropped) {
                break;
            }
        }
    }
}

/// C4: an acquisition is dropped around the moment of its grant, when a permit could be lost in
/// flight.
pub(crate) async fn c4_a_grant_to_a_dropped_waiter_is_given_back(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let witness = fixture.client(HoldOptions::default()).await;
    for micros in [0, 50, 200, 500, 1_000, 3_000, 10_000] {
        for polls in 0..3 {
            let guard = witness.lock().await.expect("lock");
            let mut waiting = Box::pin(lock.lock());
            stays_pending(Duration::from_millis(20), "the name is held", &mut waiting).await;
            guard.release().await.expect("release");
            pause(Duration::from_micros(micros)).await;
            for _ in 0..polls {
                if let Some(granted) = poll_once(&mut waiting).await {
                    drop(granted.expect("lock"));
                    break;
                }
            }
            drop(waiting);
            fixture.settles(&witness, None).await;
            free_again(&witness).await;
        }
    }
}

/// C5: if the head of the queue is dropped, the next waiter is granted at the release.
pub(crate) async fn c5_a_dropped_head_costs_the_others_nothing(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let witness = fixture.client(HoldOptions::default()).await;
    let locks = [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    for round in 0..4 {
        let guard = witness.lock().await.expect("lock");
        let head = locks[round % 2].clone();
        let head = spawn(async move { head.lock().await.expect("lock") });
        witness.queue_of(1).await;
        let second = locks[1].clone();
        let second = spawn(async move { second.lock().await.expect("lock") });
        locks[1].queue_of(2).await;
        if round < 2 {
            head.cancel().await;
            guard.release().await.expect("release");
        } else {
            guard.release().await.expect("release");
            head.cancel().await;
        }
        within(CANCELLED, "the second in the queue", second.join()).await.release().await.expect("release");
    }
}

/// Returns whether the time of a call ran out. The answer to what it asked at its limit can be
/// late: then it is undone (C3, C4).
fn timed_out(ended: Result<Option<Guard>>) -> bool {
    match ended {
        Ok(granted) => granted.is_none(),
        Err(error) => error.kind() == ErrorKind::Unknown,
    }
}

/// Starts a call with a time limit and returns it when it queues. On a machine that stands still,
/// the call can be over before it is seen in the queue: then another one follows.
async fn queued_for(limit: Duration, lock: &Lock, witness: &Lock) -> Task<Result<Option<Guard>>> {
    let queueing = async {
        loop {
            witness.queue_of(0).await;
            let head = lock.clone();
            let head = spawn(async move { head.lock_for(limit).await });
            while !head.is_finished() {
                if witness.inspect().await.expect("inspect").waiters == 1 {
                    return head;
                }
                pause(Duration::from_millis(10)).await;
            }
            assert!(timed_out(head.join().await), "its time ran out");
        }
    };
    within(Duration::from_secs(5), "a queue of 1", queueing).await
}

/// C5: the next waiter runs at the release, and not at its next poll. By polls, the sum would be
/// three times the bound.
pub(crate) async fn c5_a_timed_out_head_costs_the_others_nothing(h: &dyn Harness, kind: LockKind) {
    const ROUNDS: u32 = 12;
    /// Long enough for the head to be seen in the queue.
    const LIMIT: Duration = Duration::from_millis(700);
    let fixture = LockFixture::new(h, kind).await;
    let pushes = h.store().await.capabilities().wake_ups;
    let witness = fixture.client(HoldOptions::default()).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let mut cost = Duration::ZERO;
    for _ in 0..if pushes { ROUNDS } else { 1 } {
        let guard = witness.lock().await.expect("lock");
        let head = queued_for(LIMIT, &lock, &witness).await;
        let second = lock.clone();
        let second = spawn(async move { second.lock().await.expect("lock") });
        assert!(timed_out(head.join().await), "its time ran out");
        witness.queue_of(1).await;
        let watch = Stopwatch::start();
        guard.release().await.expect("release");
        let next = within(POLL_FLOOR + EPSILON, "the second in the queue", second.join()).await;
        cost += watch.elapsed();
        next.release().await.expect("release");
    }
    assert!(!pushes || cost <= POLL_FLOOR * ROUNDS / 12, "it cost {cost:?} in {ROUNDS} rounds");
}

/// C5: many waiters come and go at random; every waiter that stays is served.
pub(crate) async fn c5_no_wake_up_is_lost_among_cancels(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let mut patient = Vec::new();
    let mut fickle = Vec::new();
    for number in 0..4_usize {
        let lock = clients[number % 2].clone();
        patient.push(spawn(async move {
            for _ in 0..15 {
                let guard = within(LONG, "a patient waiter's turn", lock.lock()).await.expect("lock");
                pause(Duration::from_micros(200)).await;
                drop(guard);
            }
        }));
        let lock = clients[number % 2].clone();
        fickle.push(spawn(async move {
            for round in 0..40_u64 {
                let limit = Duration::from_micros(round * 137 % 2_500);
                let granted = tokio::time::timeout(limit, lock.lock()).await;
                drop(granted);
            }
        }));
    }
    for task in patient.into_iter().chain(fickle) {
        within(LONG, "all rounds", task.join()).await;
    }
    fixture.settles(&clients[0], None).await;
}
