//! How holds and requests end: by cancel, release, attach, force, and by retention of an idle name.

use crate::steps::StepCalls;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::Ticket;
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Attach, Cancel, Force, Kept, Release};

use super::super::drive::*;
use super::super::harness::StepHarness;

pub(super) async fn c4_a_cancel_that_overtakes_its_acquire_leaves_a_tombstone(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let lasting = Acquire { lease: ttl(30_000), ..ask(&mutex("m")) };
    let ending = Acquire { lease: ttl(1_000), ..ask(&mutex("m")) };
    cancel(&process, &lasting).await;
    assert_eq!(acquire(&process, &lasting).await, Acquired::Cancelled);
    cancel(&process, &ending).await;
    granted(&process, &ask(&mutex("m"))).await;
    sleep(Duration::from_millis(1_100)).await;
    assert_ne!(acquire(&process, &ending).await, Acquired::Cancelled, "the tombstone ends with the lease");
}

pub(super) async fn c4_a_cancelled_hold_is_free_and_a_late_copy_of_its_acquire_refused(
    harness: &dyn StepHarness,
) {
    let process = harness.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    cancel(&process, &request).await;
    cancel(&process, &request).await;
    assert_eq!(acquire(&process, &request).await, Acquired::Cancelled);
    granted(&process, &ask(&mutex("m"))).await;
}

pub(super) async fn c4_a_cancelled_waiter_is_gone_and_the_next_one_woken(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    granted(&first, &ask_many(&object, 3, 4)).await;
    let (large, small) = (ask_many(&object, 2, 4), ask_many(&object, 1, 4));
    waits(&first, &large).await;
    waits(&second, &small).await;
    cancel(&first, &large).await;
    assert_eq!(second.hint().await, small.ticket);
    granted(&second, &small).await;
    assert_eq!(first.callers.inspect(&object).await.expect("an answer").waiters, 0);
}

pub(super) async fn c4_a_cancel_of_what_was_answered_leaves_no_tombstone(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let (held, waiter) = (ask_many(&object, 1, 1), ask_many(&object, 1, 1));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    for request in [&waiter, &held] {
        let cancel = Cancel { object: object.clone(), ticket: request.ticket, tombstone: None };
        one(process.own.cancel(&[cancel]).await);
    }
    // Nothing is remembered of either.
    granted(&process, &waiter).await;
    release(&process, &waiter).await;
    granted(&process, &held).await;
}

pub(super) async fn c4_a_release_in_doubt_refuses_a_late_copy_of_its_acquire(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    let release = freeing(&request, Some(request.lease));
    assert_eq!(all(process.own.release(&[release.clone(), release]).await), [Kept::Yes, Kept::No]);
    assert_eq!(acquire(&process, &request).await, Acquired::Cancelled);
}

pub(super) async fn c2_a_release_call_is_answered_the_same_when_it_is_sent_again(harness: &dyn StepHarness) {
    let process = harness.process().await;
    for object in [mutex("m"), semaphore("s")] {
        let (held, next) = (ask(&object), ask(&object));
        granted(&process, &held).await;
        let by = |request: &Acquire, call| Release { call: Some(call), ..freeing(request, Some(ttl(5_000))) };
        let (first, second) = (Ticket::random(), Ticket::random());
        let answer = async |release: Release| one(process.callers.release(&[release]).await);
        assert_eq!(answer(by(&held, first)).await, Kept::Yes);
        granted(&process, &next).await;
        assert_eq!(
            answer(by(&held, first)).await,
            Kept::Yes,
            "again, though somebody else holds the name now"
        );
        assert_eq!(answer(by(&held, second)).await, Kept::No, "another call");
        let unknown = ask(&object);
        for _ in 0..2 {
            assert_eq!(answer(by(&unknown, first)).await, Kept::No, "of no hold, also when sent again");
        }
        assert_eq!(acquire(&process, &held).await, Acquired::Cancelled, "a late copy of the acquire");
        assert_eq!(renew(&process, &next).await, Kept::Yes, "the hold of somebody else stays");
    }
}

pub(super) async fn c11_a_release_frees_its_own_hold_only(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let (first, second) = (ask_many(&object, 1, 2), ask_many(&object, 1, 2));
    granted(&process, &first).await;
    granted(&process, &second).await;
    assert_eq!(release(&process, &first).await, Kept::Yes);
    assert_eq!(release(&process, &first).await, Kept::No);
    assert_eq!(release(&process, &ask(&object)).await, Kept::No);
    let holders = process.callers.inspect(&object).await.expect("an answer").holders;
    assert_eq!(holders.iter().map(|holder| holder.ticket).collect::<Vec<_>>(), [Some(second.ticket)]);
}

pub(super) async fn c24_an_attach_takes_the_hold_over_once(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    let request = ask_many(&object, 2, 3);
    let token = granted(&first, &request).await;
    let attach = |to| Attach {
        object: object.clone(),
        from: request.ticket,
        to,
        lease: request.lease,
        label: Some(Arc::from("new")),
    };
    let (to, other) = (attach(Ticket::random()), attach(Ticket::random()));
    let attached = second.callers.attach(&to).await.expect("an answer").expect("a hold");
    assert_eq!((attached.token, attached.weight), (token, 2));
    assert_eq!(
        second.callers.attach(&to).await.expect("an answer"),
        Some(attached),
        "a retry is answered as the first"
    );
    assert_eq!(second.callers.attach(&other).await.expect("an answer"), None);
    assert_eq!(renew(&first, &request).await, Kept::No);
    assert_eq!(release(&first, &request).await, Kept::No);
    assert_eq!(acquire(&first, &request).await, Acquired::Cancelled);
    let inspection = first.callers.inspect(&object).await.expect("an answer");
    assert_eq!(inspection.holders.len(), 1);
    assert_eq!(
        (inspection.holders[0].ticket, inspection.holders[0].label.as_deref()),
        (Some(to.to), Some("new"))
    );
    let again = Attach { from: to.to, to: Ticket::random(), label: None, ..to.clone() };
    second.callers.attach(&again).await.expect("an answer").expect("a hold");
    let inspection = first.callers.inspect(&object).await.expect("an answer");
    assert_eq!(inspection.holders[0].label.as_deref(), Some("new"), "kept where no other is given");
    let to = again;
    waits(&first, &Acquire { queue: false, ..ask_many(&object, 2, 3) }).await;
    assert_eq!(release(&second, &Acquire { ticket: to.to, ..request.clone() }).await, Kept::Yes);
    granted(&first, &ask_many(&object, 3, 3)).await;
}

pub(super) async fn c24_a_hold_that_nobody_queued_for_is_taken_over(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let request = Acquire { label: Some("mine".into()), ..ask(&mutex("m")) };
    let token = granted(&first, &request).await;
    let (object, to) = (request.object.clone(), Ticket::random());
    let attach = Attach { object, from: request.ticket, to, lease: request.lease, label: None };
    assert_eq!(second.callers.attach(&attach).await.expect("an answer").expect("a hold").token, token);
    assert_eq!(release(&first, &request).await, Kept::No);
}

pub(super) async fn c24_a_cancelled_attach_is_refused(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    let to = ask(&mutex("m"));
    cancel(&process, &to).await;
    let attach = Attach {
        object: request.object.clone(),
        from: request.ticket,
        to: to.ticket,
        lease: to.lease,
        label: None,
    };
    assert_eq!(process.callers.attach(&attach).await.expect("an answer"), None);
    assert_eq!(release(&process, &request).await, Kept::Yes);
}

pub(super) async fn m8_force_frees_and_wakes(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let requests: Vec<_> = (0..3).map(|_| ask_many(&object, 1, 3)).collect();
    for request in &requests {
        granted(&process, request).await;
    }
    let waiter = ask_many(&object, 2, 3);
    waits(&process, &waiter).await;
    let steps = &process.callers;
    assert_eq!(steps.force(&object, Force::One(requests[0].ticket)).await.expect("an answer"), 1);
    assert_eq!(steps.force(&object, Force::One(requests[0].ticket)).await.expect("an answer"), 0);
    assert_eq!(poll(&process, &object).await.ready, []);
    assert_eq!(steps.force(&object, Force::All).await.expect("an answer"), 2);
    assert_eq!(process.hint().await, waiter.ticket);
    assert_eq!(renew(&process, &requests[1]).await, Kept::No);
    for request in &requests {
        assert_eq!(acquire(&process, request).await, Acquired::Cancelled, "a late copy of a freed acquire");
    }
    granted(&process, &waiter).await;
    granted(&process, &ask_many(&object, 1, 3)).await;
}

pub(super) async fn c25_a_used_name_keeps_its_token_and_an_idle_one_forgets_its_limit(
    harness: &dyn StepHarness,
) {
    let retention = (Duration::from_secs(60), Duration::from_secs(1));
    let process = harness.forgetful_process(retention.0, retention.1).await;
    let object = semaphore("s");
    let first = ask_many(&object, 1, 3);
    let token = granted(&process, &first).await;
    sleep(Duration::from_millis(1_200)).await;
    let limit = |answer| match answer {
        Acquired::Granted { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    let second = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &second).await), 3, "in use");
    let idle = now();
    release(&process, &first).await;
    release(&process, &second).await;
    let third = ask_many(&object, 1, 5);
    let found = limit(acquire(&process, &third).await);
    assert!(found == 3 || idle.elapsed() >= retention.1, "{found}: idle, but not for long");
    release(&process, &third).await;
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(process.callers.inspect(&object).await.expect("an answer").limit, None);
    let fourth = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &fourth).await), 5);
    assert!(granted(&process, &fourth).await > token);
}
