//! Limit batches and refunds, at times that the case sets.

use crate::steps::StepCalls;
use std::collections::HashSet;
use std::sync::Arc;

use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{Decide, LimitAsk, Limited, Refund, RequestId};
use stanchion_core::{ErrorKind, Ticket};
use tokio::task::JoinSet;

use super::super::drive::*;
use super::super::harness::ClockHarness;

/// Returns a quota of one token in 100 ms.
fn ten_a_second(burst: u64) -> ExactQuota {
    quota(1, SECOND / 10, burst)
}

fn reserving(id: u128, cost: u64) -> LimitAsk {
    reserve(Ticket::from(id), cost)
}

pub(super) async fn l5_a_retry_is_answered_and_not_charged(harness: &dyn ClockHarness) {
    let (mut rig, terms) = (Rig::new(harness), ten_a_second(10));
    rig.at(HOUR).await;
    let request = rig.next_id();
    let calls = [rig.call(terms, take(7)), rig.call(terms, take(7)), rig.call(terms, reserving(1, 5))];
    let first = all(rig.steps.decide(request, &calls).await);
    assert_eq!(verdict(&first[1]).retry_after, Some(4 * SECOND / 10));
    assert_eq!(place(&first[2]).wait, 2 * SECOND / 10);

    // A later retry, with one caller gone.
    rig.at(HOUR + SECOND / 4).await;
    let calls = [calls[0].clone(), rig.call(terms, take(0)), calls[2].clone()];
    let again = all(rig.steps.decide(request, &calls).await);
    assert_eq!(verdict(&again[0]).remaining, 3);
    assert_eq!(verdict(&again[1]).retry_after, Some(15 * SECOND / 100));
    assert_eq!(verdict(&again[1]).reset_after, verdict(&first[1]).reset_after - SECOND / 4);
    assert_eq!((place(&again[2]).ready_at, place(&again[2]).wait), (place(&first[2]).ready_at, 0));

    // If the clock went back, the answers are the same as at first.
    rig.at(HOUR - SECOND).await;
    assert_eq!(all(rig.steps.decide(request, &calls).await), first);

    // 12 tokens were charged, once.
    rig.at(HOUR + SECOND / 2).await;
    assert_eq!(verdict(&rig.one(terms, take(0)).await).remaining, 3);
    let late = rig.steps.decide(request, &calls).await;
    assert!(late.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown)));
}

pub(super) async fn l5_lanes_do_not_see_each_other(harness: &dyn ClockHarness) {
    let (mut rig, terms) = (Rig::new(harness), ten_a_second(1_000));
    let calls = [rig.call(terms, take(1))];
    let mut requests = Vec::new();
    for lane in 0..100_u64 {
        rig.at(HOUR + lane * 10 * SECOND).await;
        requests.push(RequestId { sequence: Ticket::random(), number: 3 });
        all(rig.steps.decide(requests[requests.len() - 1], &calls).await);
    }
    let before = verdict(&rig.one(terms, take(0)).await);
    // The requests of the last 60 s are remembered.
    for request in &requests[requests.len() - 6..] {
        all(rig.steps.decide(*request, &calls).await);
    }
    assert_eq!(verdict(&rig.one(terms, take(0)).await), before);
}

pub(super) async fn l5_copies_of_a_flight_at_the_same_time_are_charged_once(harness: &dyn ClockHarness) {
    let (mut rig, terms) = (Rig::new(harness), ten_a_second(100));
    rig.at(HOUR).await;
    for _ in 0..10 {
        rig.next();
        let request = rig.next_id();
        let calls = [rig.call(terms, take(3)), rig.call(terms, reserving(1, 100))];
        let mut copies = JoinSet::new();
        for _ in 0..8 {
            let (steps, calls) = (Arc::clone(&rig.steps), calls.clone());
            copies.spawn(async move { all(steps.decide(request, &calls).await) });
        }
        let told: HashSet<_> = copies.join_all().await.iter().map(|told| format!("{told:?}")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        let refused = verdict(&rig.one(terms, take(1)).await);
        assert_eq!(refused.retry_after, Some(4 * SECOND / 10), "3 and 100 of 100 were charged");
    }
}

pub(super) async fn l7_a_ticket_gives_back_once_and_a_refund_that_overtakes_refuses(
    harness: &dyn ClockHarness,
) {
    let (mut rig, terms) = (Rig::new(harness), ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    assert_eq!(place(&rig.one(terms, reserving(1, 4)).await).wait, 4 * SECOND / 10);
    assert_eq!(rig.refund(1).await, 4);
    assert_eq!(rig.refund(1).await, 4);
    assert_eq!(rig.refund(2).await, 0);
    let asks = [reserving(1, 4), reserving(2, 1), reserving(3, 1)];
    for (ask, cancelled) in asks.into_iter().zip([true, true, false]) {
        assert_eq!(rig.one(terms, ask).await == Limited::Cancelled, cancelled);
    }
    // Also on a name without a bucket.
    rig.next();
    assert_eq!(rig.refund(4).await, 0);
    assert_eq!(rig.one(terms, reserving(4, 1)).await, Limited::Cancelled);
    // The refusal lasts for 60 s.
    rig.at(HOUR + 60 * SECOND).await;
    assert_eq!(place(&rig.one(terms, reserving(4, 1)).await).wait, 0);
}

pub(super) async fn l7_a_batch_of_refunds_is_answered_in_its_order(harness: &dyn ClockHarness) {
    let (mut rig, terms) = (Rig::new(harness), ten_a_second(10));
    rig.at(HOUR).await;
    let mut calls = Vec::new();
    for id in 0..20_u64 {
        let name = ["b", "a", "c"][usize::try_from(id % 3).expect("an index")];
        let call = |ask| Decide { id: RequestId::NONE, object: limiter(name), ..rig.call(terms, ask) };
        if id < 3 {
            calls.push(call(take(10)));
        }
        calls.push(call(reserving(id.into(), id % 7)));
    }
    let request = rig.next_id();
    all(rig.steps.decide(request, &calls).await);
    // The last reservation first, so that each gives back its whole cost.
    let refund = |id: u64| Refund {
        object: limiter(["b", "a", "c"][usize::try_from(id % 3).expect("an index")]),
        ticket: Ticket::from(u128::from(id)),
    };
    let batch: Vec<_> = (0..20).rev().map(refund).collect();
    let given: Vec<_> = (0..20).rev().map(|id| id % 7).collect();
    assert_eq!(all(rig.steps.refund(&batch).await), given);
    assert_eq!(all(rig.steps.refund(&batch).await), given, "a retry");
    for name in ["a", "b", "c"] {
        rig.object = limiter(name);
        assert_eq!(
            place(&rig.one(terms, reserving(20, 1)).await).wait,
            SECOND / 10,
            "{name} is empty, no less"
        );
    }
}
