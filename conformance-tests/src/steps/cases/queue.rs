//! The queue: its order, and the hints to its waiters.

use crate::steps::StepCalls;
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Kept};

use super::super::drive::*;
use super::super::harness::StepHarness;

pub(super) async fn c14_a_release_pushes_to_the_next_waiters_process(harness: &dyn StepHarness) {
    let (holder, first, second) = (harness.process().await, harness.process().await, harness.process().await);
    let object = mutex("m");
    let held = ask(&object);
    granted(&holder, &held).await;
    let (one, two) = (ask(&object), ask(&object));
    waits(&first, &one).await;
    waits(&second, &two).await;
    let releasing = async {
        sleep(Duration::from_millis(50)).await;
        release(&holder, &held).await
    };
    // No process polls here, so only the release can send the hint.
    let (ticket, _) = tokio::join!(first.hint(), releasing);
    assert_eq!(ticket, one.ticket);
    assert!(second.is_silent().await, "nobody else is told");
}

pub(super) async fn c14_without_any_hint_a_poll_tells_whose_turn_it_is(harness: &dyn StepHarness) {
    let (holder, first, second) = (harness.process().await, harness.process().await, harness.process().await);
    let object = semaphore("s");
    let held = [ask_many(&object, 2, 4), ask_many(&object, 2, 4)];
    for request in &held {
        granted(&holder, request).await;
    }
    let own = [ask_many(&object, 1, 4), ask_many(&object, 2, 4), ask_many(&object, 2, 4)];
    for request in &own {
        waits(&first, request).await;
    }
    let other = ask_many(&object, 1, 4);
    waits(&second, &other).await;
    let polled = poll(&first, &object).await;
    assert_eq!(polled.ready, []);
    assert!(polled.epoch > 0);
    let next = polled.next.expect("an end");
    assert!(
        next > Duration::from_secs(20) && next <= Duration::from_secs(30),
        "the next hold's end: {next:?}"
    );
    for request in &held {
        release(&holder, request).await;
    }
    let polled = poll(&first, &object).await;
    assert_eq!(polled.ready, [own[0].ticket, own[1].ticket], "what fits together, in order");
    let polled = poll(&second, &object).await;
    assert_eq!(polled.ready, []);
    assert!(polled.next.expect("an end") <= LIVENESS, "those in front may fall silent");
    assert_eq!(poll(&second, &semaphore("unused")).await.epoch, 0);
}

pub(super) async fn c14_expiry_found_by_a_poll_wakes_the_others(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    let held = ask_many(&object, 2, 2);
    granted(&first, &held).await;
    let (one, two) = (ask_many(&object, 1, 2), ask_many(&object, 1, 2));
    waits(&second, &two).await;
    waits(&first, &one).await;
    // Its lease ends soon, and not before they wait.
    let sent = now();
    shorten(&first, &[held], ttl(800)).await;
    let next = poll(&first, &object).await.next;
    if sent.elapsed() < Duration::from_millis(800) {
        assert!(next.is_some_and(|next| next <= Duration::from_millis(800)), "{next:?}");
    }
    sleep(Duration::from_millis(810)).await;
    // Both fit: its own is let in together with the other's, which is first, or by its grant.
    let ready = poll(&first, &object).await.ready;
    assert!(ready.is_empty() || ready == [one.ticket], "{ready:?}");
    assert_eq!(second.hint().await, two.ticket);
    granted(&second, &two).await;
    if ready.is_empty() {
        assert_eq!(first.hint().await, one.ticket, "a grant that leaves room wakes the next");
    }
    granted(&first, &one).await;
}

pub(super) async fn c16_first_come_first_served_across_processes(harness: &dyn StepHarness) {
    let processes = [harness.process().await, harness.process().await, harness.process().await];
    let object = mutex("m");
    let mut held = ask(&object);
    granted(&processes[0], &held).await;
    let waiters: Vec<_> = (0..30).map(|_| ask(&object)).collect();
    for (index, waiter) in waiters.iter().enumerate() {
        waits(&processes[index % 3], waiter).await;
    }
    for (index, waiter) in waiters.iter().enumerate() {
        let process = &processes[index % 3];
        assert_eq!(release(process, &held).await, Kept::Yes);
        // No waiter behind is granted, even if it asks first; a retry keeps its place.
        for (later, request) in waiters.iter().enumerate().skip(index + 1).take(4) {
            waits(&processes[later % 3], request).await;
        }
        waits(process, &Acquire { queue: false, ..ask(&object) }).await;
        granted(process, waiter).await;
        held = waiter.clone();
    }
    assert_eq!(processes[0].callers.inspect(&object).await.expect("an answer").waiters, 0);
}

pub(super) async fn c16_within_a_batch_nobody_overtakes_who_joined_earlier(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let (held, waiter) = (ask_many(&object, 2, 2), ask_many(&object, 1, 2));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    release(&process, &held).await;
    let (large, small) = (ask_many(&object, 2, 2), ask_many(&object, 1, 2));
    let batch = [large.clone(), waiter.clone(), small.clone()];
    let answers = all(process.callers.acquire(&batch).await);
    let granted_of = |answers: &[Acquired]| -> Vec<bool> {
        answers.iter().map(|answer| matches!(answer, Acquired::Granted { .. })).collect()
    };
    assert_eq!(granted_of(&answers), [false, true, false]);
    // Once more, with a queue that is complete before its first waiter leaves.
    release(&process, &waiter).await;
    let next = ask_many(&object, 1, 2);
    let answers = all(process.callers.acquire(&[small.clone(), next, large]).await);
    assert_eq!(granted_of(&answers), [false, false, true]);
}

pub(super) async fn c14_c16_all_who_fit_together_come_in_any_order(harness: &dyn StepHarness) {
    let (first, second) = (harness.process().await, harness.process().await);
    let object = semaphore("s");
    let held = ask_many(&object, 4, 4);
    granted(&first, &held).await;
    let (one, two, behind) = (ask_many(&object, 1, 4), ask_many(&object, 2, 4), ask_many(&object, 2, 4));
    waits(&first, &one).await;
    waits(&second, &two).await;
    waits(&first, &behind).await;
    release(&first, &held).await;
    // Nobody waits until those in front of it have come, whose room is kept.
    granted(&second, &two).await;
    let newcomer = Acquire { queue: false, ..ask_many(&object, 1, 4) };
    waits(&second, &newcomer).await;
    waits(&first, &behind).await;
    granted(&first, &one).await;
    waits(&second, &newcomer).await;
    release(&second, &two).await;
    granted(&first, &behind).await;
    // The queue is empty.
    granted(&second, &newcomer).await;
}

pub(super) async fn c16_who_stops_queueing_leaves_the_queue(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = mutex("m");
    let (held, first, second) = (ask(&object), ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &first).await;
    waits(&process, &second).await;
    waits(&process, &Acquire { queue: false, ..first }).await;
    assert_eq!(process.callers.inspect(&object).await.expect("an answer").waiters, 1);
    release(&process, &held).await;
    granted(&process, &second).await;
}

pub(super) async fn s2_many_permits_are_one_decision(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let (first, second) = (ask_many(&object, 2, 2), ask_many(&object, 2, 2));
    granted(&process, &first).await;
    waits(&process, &second).await;
    assert_eq!(acquire(&process, &ask_many(&object, 3, 2)).await, Acquired::TooLarge { limit: 2 });
    release(&process, &first).await;
    granted(&process, &second).await;
}

pub(super) async fn s5_a_large_request_in_front_is_not_starved_by_small_ones(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let held: Vec<_> = (0..4).map(|_| ask_many(&object, 1, 4)).collect();
    for request in &held {
        granted(&process, request).await;
    }
    let (large, small) = (ask_many(&object, 3, 4), ask_many(&object, 1, 4));
    waits(&process, &large).await;
    waits(&process, &small).await;
    for request in &held[..2] {
        release(&process, request).await;
        waits(&process, &small).await;
        waits(&process, &large).await;
    }
    release(&process, &held[2]).await;
    waits(&process, &small).await;
    granted(&process, &large).await;
    waits(&process, &small).await;
    release(&process, &held[3]).await;
    granted(&process, &small).await;
}
