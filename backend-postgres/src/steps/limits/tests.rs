//! The cases that set the clock, and the rows that the functions keep of lanes, tickets and idle
//! names.

#![allow(clippy::disallowed_methods, reason = "tests run their own runtime")]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;

use stanchion_conformance::clock_suite;
use stanchion_conformance::steps::drive::*;
use stanchion_core::Ticket;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{LimitAsk, Limited, ParameterCheck, Refund, RequestId};
use tokio::task::JoinSet;

use super::clocked::Clocked;

clock_suite!(Clocked::new().await);

/// Returns a quota of one token in 100 ms.
fn ten_a_second(burst: u64) -> ExactQuota {
    quota(1, SECOND / 10, burst)
}

fn reserving(id: u128, cost: u64) -> LimitAsk {
    reserve(Ticket::from(id), cost)
}

#[tokio::test]
async fn l5_answers_of_old_sequences_go() {
    let server = Clocked::new().await;
    let (rig, terms) = (Rig::new(&server), ten_a_second(1_000));
    let calls = [rig.call(terms, take(1))];
    for sequence in 0..100_u64 {
        rig.at(HOUR + sequence * 10 * SECOND).await;
        all(rig.steps.decide(RequestId { sequence: Ticket::random(), number: 3 }, &calls).await);
    }
    let [limiters, _, sequences] = server.rows().await;
    // The answers of the last 60 s, and as many more before the next sweep of old answers.
    assert!(limiters == 1 && (7..=30).contains(&sequences), "{sequences}");
}

#[tokio::test]
async fn l7_what_refunds_gave_is_kept_for_60_s_and_taken_out_by_the_next_call() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    rig.one(terms, reserving(1, 4)).await;
    for id in 1..3 {
        rig.refund(id).await;
    }
    rig.one(terms, reserving(3, 1)).await;
    rig.at(HOUR + 60 * SECOND).await;
    assert_eq!(server.rows().await[1], 3, "no call came since then");
    rig.one(terms, take(0)).await;
    assert_eq!(server.rows().await[1], 0);
}

#[tokio::test]
async fn l7_a_row_whose_reservations_were_all_refunded_owes_nothing() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.at(HOUR).await;
    let reserves = (0..20_u64).map(|id| (terms, ParameterCheck::Follow, reserving(id.into(), id % 7)));
    let calls: Vec<_> = [(terms, ParameterCheck::Follow, take(10))].into_iter().chain(reserves).collect();
    rig.decide(&calls).await;
    // In reverse order, so that each refund gives back its whole cost.
    let refund = |id: u64| Refund { object: rig.object.clone(), ticket: Ticket::from(u128::from(id)) };
    let batch: Vec<_> = (0..20).rev().map(refund).collect();
    let given: Vec<_> = (0..20).rev().map(|id| id % 7).collect();
    assert_eq!(all(rig.steps.refund(&batch).await), given);
    assert_eq!(server.number("SELECT abs(tokens) + taken + latest FROM stanchion.limiters").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_the_clock_is_read_once_the_row_is_locked() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    server.run("BEGIN; SELECT FROM stanchion.limiters FOR UPDATE").await;
    let (steps, id, calls) = (Arc::clone(&rig.steps), rig.next_id(), [rig.call(terms, take(7))]);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { all(steps.decide(id, &calls).await) });
    server.await_waiter().await;
    rig.at(HOUR + 7 * SECOND / 10).await;
    server.run("COMMIT").await;
    assert!(verdict(&waiting.join_all().await[0][0]).allowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_a_refund_reads_the_clock_once_the_row_is_locked() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    rig.one(terms, reserving(1, 7)).await;
    server.run("BEGIN; SELECT FROM stanchion.limiters FOR UPDATE").await;
    let refund = Refund { object: rig.object.clone(), ticket: Ticket::from(1) };
    let (steps, mut waiting) = (Arc::clone(&rig.steps), JoinSet::new());
    waiting.spawn(async move { all(steps.refund(&[refund]).await) });
    server.await_waiter().await;
    rig.at(HOUR + 7 * SECOND / 10).await;
    server.run("COMMIT").await;
    // The time of the reservation has come, so nothing is given back.
    assert_eq!(waiting.join_all().await, [[0]]);
}

#[tokio::test]
async fn c25_an_idle_limiter_leaves_no_row() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(1_000));
    rig.at(HOUR).await;
    // The row stays for the 100 s that the bucket needs to fill, and for an hour more.
    for id in 0..30 {
        rig.decide(&[
            (terms, ParameterCheck::Follow, take(7)),
            (terms, ParameterCheck::Follow, reserving(id, 33)),
        ])
        .await;
    }
    rig.next();
    rig.refund(77).await;
    let reserved = server.rows().await;
    assert!(reserved[0] == 2 && reserved[1] > 1 && reserved[2] == 1, "{reserved:?}");
    rig.at(2 * HOUR + 100 * SECOND).await;
    let sweep = "SELECT stanchion.sweep_limits('n', 4)";
    assert_eq!(server.number("SELECT stanchion.sweep_limits('other', 4)").await, 0);
    // The second row has no bucket and goes first. A row is kept at most an eighth of the retention
    // longer than necessary.
    let mut swept = server.number(sweep).await;
    assert_eq!(server.rows().await, reserved, "{swept}");
    rig.at(3 * HOUR + 200 * SECOND).await;
    for _ in 0..reserved.iter().sum::<i64>() {
        let gone = server.number(sweep).await;
        assert!(gone <= 4, "{gone}");
        swept += gone;
    }
    assert_eq!((server.rows().await, swept), ([0, 0, 0], reserved.iter().sum()));
}

#[tokio::test]
async fn c25_a_limiter_that_went_in_part_is_as_new() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.at(HOUR).await;
    for id in 0..9 {
        rig.one(terms, reserving(id, 10)).await;
    }
    rig.at(3 * HOUR).await;
    assert_eq!(server.number("SELECT stanchion.sweep_limits('n', 3)").await, 3);
    assert_eq!(server.rows().await, [1, 5, 1]);
    let limited = rig.one(terms, take(10)).await;
    assert!(
        matches!(limited, Limited::Taken { settled: true, .. }) && verdict(&limited).allowed,
        "{limited:?}"
    );
    assert_eq!(server.number("SELECT taken + latest FROM stanchion.limiters").await, 0);
    assert_eq!(server.rows().await, [1, 0, 1]);
}

#[tokio::test]
async fn c25_the_sweep_passes_over_what_is_in_use() {
    let server = Clocked::new().await;
    let (mut rig, terms) = (Rig::new(&server), ten_a_second(10));
    rig.one(terms, take(1)).await;
    server.run("UPDATE stanchion.limiters SET expires = 0").await;
    server.run("BEGIN; SELECT FROM stanchion.limiters FOR UPDATE").await;
    assert_eq!(server.sweep_elsewhere().await, 0);
    server.run("COMMIT").await;
    assert_eq!(server.sweep_elsewhere().await, 2);
    assert_eq!(server.rows().await, [0, 0, 0]);
}
