//! Who waits, in which order, and who is told.

use std::time::Duration;

use stanchion_core::OnMismatch;
use stanchion_core::engine::steps::{Acquire, Acquired, Kept, LimitCheck, PermitSteps};
use tokio::time::{Instant, sleep};

use super::*;

#[tokio::test]
async fn c14_a_release_pushes_to_the_next_waiters_process() {
    let bed = Bed::shared();
    let (holder, first, second) = (bed.process().await, bed.process().await, bed.process().await);
    let object = mutex("m");
    let held = ask(&object);
    granted(&holder, &held).await;
    let (one, two) = (ask(&object), ask(&object));
    waits(&first, &one).await;
    waits(&second, &two).await;
    let listening = tokio::spawn(async move { hint(&first).await });
    sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    release(&holder, &held).await;
    assert_eq!(listening.await.unwrap(), [one.ticket]);
    assert!(start.elapsed() < Duration::from_millis(500));
    assert!(second.wake.is_silent().await, "nobody else is told");
}

#[tokio::test]
async fn c14_without_any_hint_a_poll_tells_whose_turn_it_is() {
    let bed = Bed::shared();
    let (holder, first, second) = (bed.process().await, bed.process().await, bed.process().await);
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
    assert!(polled.born > 0);
    let next = polled.next.unwrap();
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
    assert!(polled.next.unwrap() <= LIVENESS, "those in front may fall silent");
    assert_eq!(poll(&second, &semaphore("unused")).await.born, 0);
}

#[tokio::test]
async fn c14_expiry_found_by_a_poll_wakes_the_others() {
    let bed = Bed::shared();
    let (first, second) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    granted(&first, &Acquire { lease: ttl(200), ..ask_many(&object, 2, 2) }).await;
    let (one, two) = (ask_many(&object, 1, 2), ask_many(&object, 1, 2));
    waits(&second, &two).await;
    waits(&first, &one).await;
    let next = poll(&first, &object).await.next.unwrap();
    assert!(next <= Duration::from_millis(200), "{next:?}");
    sleep(Duration::from_millis(210)).await;
    assert_eq!(poll(&first, &object).await.ready, [], "the other's is first");
    assert_eq!(hint(&second).await, [two.ticket]);
    granted(&second, &two).await;
    assert_eq!(hint(&first).await, [one.ticket], "a grant that leaves room wakes the next");
    granted(&first, &one).await;
}

#[tokio::test]
async fn c16_first_come_first_served_across_processes() {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await, bed.process().await];
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
        // Nobody behind gets it, whoever asks first; a retry keeps its place.
        for (later, request) in waiters.iter().enumerate().skip(index + 1).take(4) {
            waits(&processes[later % 3], request).await;
        }
        waits(process, &Acquire { queue: false, ..ask(&object) }).await;
        granted(process, waiter).await;
        held = waiter.clone();
    }
    assert_eq!(processes[0].callers.inspect(&object).await.unwrap().waiters, 0);
}

#[tokio::test]
async fn c16_who_stops_queueing_leaves_the_queue() {
    let process = Bed::shared().process().await;
    let object = mutex("m");
    let (held, first, second) = (ask(&object), ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &first).await;
    waits(&process, &second).await;
    waits(&process, &Acquire { queue: false, ..first }).await;
    assert_eq!(process.callers.inspect(&object).await.unwrap().waiters, 1);
    release(&process, &held).await;
    granted(&process, &second).await;
}

#[tokio::test]
async fn s5_a_large_request_in_front_is_not_starved_by_small_ones() {
    let process = Bed::shared().process().await;
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

#[tokio::test]
async fn s2_many_permits_are_one_decision() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let (first, second) = (ask_many(&object, 2, 2), ask_many(&object, 2, 2));
    granted(&process, &first).await;
    waits(&process, &second).await;
    assert_eq!(acquire(&process, &ask_many(&object, 3, 2)).await, Acquired::TooLarge { limit: 2 });
    release(&process, &first).await;
    granted(&process, &second).await;
}

#[tokio::test]
async fn s6_resize_up_wakes_and_down_revokes_nobody() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let held: Vec<_> = (0..2).map(|_| ask_many(&object, 1, 2)).collect();
    for request in &held {
        granted(&process, request).await;
    }
    let waiters: Vec<_> = (0..3).map(|_| ask_many(&object, 1, 2)).collect();
    for request in &waiters {
        waits(&process, request).await;
    }
    process.callers.resize(&object, 4).await.unwrap();
    assert_eq!(hint(&process).await, [waiters[0].ticket]);
    assert_eq!(hint(&process).await, [waiters[1].ticket]);
    granted(&process, &waiters[0]).await;
    granted(&process, &waiters[1]).await;
    process.callers.resize(&object, 1).await.unwrap();
    assert_eq!(process.callers.inspect(&object).await.unwrap().holders.len(), 4);
    for request in held.iter().chain(&waiters[..1]) {
        release(&process, request).await;
        waits(&process, &waiters[2]).await;
    }
    release(&process, &waiters[1]).await;
    granted(&process, &waiters[2]).await;
}

#[tokio::test]
async fn c20_limits_are_compared_once_and_then_followed() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let first = |on_mismatch, limit| Acquire {
        check: LimitCheck::First(on_mismatch),
        queue: false,
        ..ask_many(&object, 1, limit)
    };
    let limit = |answer: Acquired| match answer {
        Acquired::Granted { limit, .. } | Acquired::Waiting { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Refuse, 9)).await), 9);
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Refuse, 9)).await), 9);
    assert_eq!(acquire(&process, &first(OnMismatch::Refuse, 8)).await, Acquired::Mismatch { stored: 9 });
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Adopt, 8)).await), 9);
    assert_eq!(limit(acquire(&process, &ask_many(&object, 1, 8)).await), 9);
    assert_eq!(process.callers.inspect(&object).await.unwrap().holders.len(), 4, "a mismatch grants nothing");
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Replace, 5)).await), 5);
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Adopt, 9)).await), 5);
    let waiter = ask_many(&object, 1, 5);
    waits(&process, &waiter).await;
    assert_eq!(limit(acquire(&process, &first(OnMismatch::Replace, 6)).await), 6);
    assert_eq!(hint(&process).await, [waiter.ticket], "a replaced limit wakes");
}

#[tokio::test]
async fn c20_a_queued_request_larger_than_the_new_limit_is_told() {
    let bed = Bed::shared();
    let (first, second) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    granted(&first, &ask_many(&object, 5, 5)).await;
    let small: Vec<_> = (0..20).map(|_| ask_many(&object, 1, 5)).collect();
    for request in &small {
        waits(&first, request).await;
    }
    let large = ask_many(&object, 4, 5);
    waits(&second, &large).await;
    let last = ask_many(&object, 2, 5);
    waits(&first, &last).await;
    first.callers.resize(&object, 2).await.unwrap();
    assert_eq!(hint(&second).await, [large.ticket]);
    assert_eq!(poll(&second, &object).await.ready, [large.ticket], "also without the hint");
    assert_eq!(poll(&first, &object).await.ready, []);
    assert_eq!(acquire(&second, &large).await, Acquired::TooLarge { limit: 2 });
    assert_eq!(first.callers.inspect(&object).await.unwrap().waiters, 21);
    assert_eq!(poll(&second, &object).await.ready, []);
}

#[tokio::test]
async fn c26_the_queue_is_bounded() {
    let process = Bed::shared().process().await;
    let object = mutex("m");
    granted(&process, &ask(&object)).await;
    let bounded = || Acquire { max_waiters: Some(2), ..ask(&object) };
    let (first, second) = (bounded(), bounded());
    waits(&process, &first).await;
    waits(&process, &second).await;
    assert_eq!(acquire(&process, &bounded()).await, Acquired::Overloaded);
    waits(&process, &first).await;
    cancel(&process, &first).await;
    waits(&process, &bounded()).await;
}

#[tokio::test]
async fn c5_c26_silent_waiters_do_not_fill_the_queue() {
    let bed = Bed::shared();
    let (dead, live) = (bed.process().await, bed.process().await);
    let object = mutex("m");
    granted(&live, &ask(&object)).await;
    let bounded = || Acquire { max_waiters: Some(2), ..ask(&object) };
    waits(&dead, &bounded()).await;
    waits(&dead, &bounded()).await;
    assert_eq!(acquire(&live, &bounded()).await, Acquired::Overloaded);
    heard(&[&live], &object, LIVENESS + Duration::from_millis(300)).await;
    waits(&live, &bounded()).await;
    waits(&live, &bounded()).await;
    assert_eq!(acquire(&live, &bounded()).await, Acquired::Overloaded);
}

#[tokio::test]
async fn c16_within_a_batch_nobody_overtakes_who_joined_earlier() {
    let process = Bed::shared().process().await;
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
    // Once more, with a queue that is known before the first of it leaves.
    release(&process, &waiter).await;
    let next = ask_many(&object, 1, 2);
    let answers = all(process.callers.acquire(&[small.clone(), next, large]).await);
    assert_eq!(granted_of(&answers), [false, false, true]);
}
