//! What the functions keep: flights, tickets, rows, names.

#![allow(clippy::disallowed_methods, reason = "tests run their own runtime")]

use std::collections::HashSet;

use stanchion_core::engine::steps::{FlightId, LimitAsk, LimitCall, LimitSteps, Limited, QuotaCheck, Refund};
use stanchion_core::limit::{ExactQuota, MAX, Reserved, Verdict};
use stanchion_core::{ErrorKind, Ticket};
use tokio::task::JoinSet;

use super::rig::{Rig, answered, object, quota};
use crate::steps::PostgresSteps;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

fn take(cost: u64) -> LimitAsk {
    LimitAsk::Take { cost }
}

fn reserve(id: u128, cost: u64) -> LimitAsk {
    LimitAsk::Reserve { ticket: Ticket::from(id), cost, max_wait: MAX }
}

fn verdict(limited: &Limited) -> Verdict {
    match limited {
        Limited::Taken { verdict, .. } => *verdict,
        other => panic!("{other:?}"),
    }
}

fn place(limited: &Limited) -> Reserved {
    match limited {
        Limited::Reserved { place: Some(place), .. } => *place,
        other => panic!("{other:?}"),
    }
}

/// One token in 100 ms.
fn ten_a_second(burst: u64) -> ExactQuota {
    quota(1, SECOND / 10, burst)
}

#[tokio::test]
async fn l5_a_retry_is_answered_and_not_charged() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.at(HOUR).await;
    let flight = rig.next_flight();
    let calls = [rig.call(terms, take(7)), rig.call(terms, take(7)), rig.call(terms, reserve(1, 5))];
    let first = answered(rig.steps.decide(flight, &calls).await);
    assert_eq!(verdict(&first[1]).retry_after, Some(4 * SECOND / 10));
    assert_eq!(place(&first[2]).wait, 2 * SECOND / 10);

    // Later, with one caller gone.
    rig.at(HOUR + SECOND / 4).await;
    let calls = [calls[0].clone(), rig.call(terms, take(0)), calls[2].clone()];
    let again = answered(rig.steps.decide(flight, &calls).await);
    assert_eq!(verdict(&again[0]).remaining, 3);
    assert_eq!(verdict(&again[1]).retry_after, Some(15 * SECOND / 100));
    assert_eq!(verdict(&again[1]).reset_after, verdict(&first[1]).reset_after - SECOND / 4);
    assert_eq!((place(&again[2]).ready_at, place(&again[2]).wait), (place(&first[2]).ready_at, 0));

    // On a clock that went back they are what they were.
    rig.at(HOUR - SECOND).await;
    assert_eq!(answered(rig.steps.decide(flight, &calls).await), first);

    // 12 were charged, once.
    rig.at(HOUR + SECOND / 2).await;
    assert_eq!(verdict(&rig.one(terms, take(0)).await).remaining, 3);
    let late = rig.steps.decide(flight, &calls).await;
    assert!(late.iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown)));
}

#[tokio::test]
async fn l5_lanes_do_not_see_each_other_and_old_ones_go() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(1_000));
    rig.at(HOUR).await;
    let calls = [rig.call(terms, take(1))];
    let mut flights = Vec::new();
    for lane in 0..100_u64 {
        rig.at(HOUR + lane * 10 * SECOND).await;
        flights.push(FlightId { lane: Ticket::random(), number: 3 });
        answered(rig.steps.decide(flights[flights.len() - 1], &calls).await);
    }
    let [limiters, _, lanes] = rig.rows().await;
    // Those of the last 60 s, and as many more before they are looked for.
    assert!(limiters == 1 && (7..=30).contains(&lanes), "{lanes}");
    let before = rig.number("SELECT tokens FROM stanchion.limiters").await;
    for flight in &flights[flights.len() - 6..] {
        answered(rig.steps.decide(*flight, &calls).await);
    }
    assert_eq!(rig.number("SELECT tokens FROM stanchion.limiters").await, before);
}

#[tokio::test]
async fn l7_a_ticket_gives_back_once_and_a_refund_that_overtakes_refuses() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    assert_eq!(place(&rig.one(terms, reserve(1, 4)).await).wait, 4 * SECOND / 10);
    assert_eq!(rig.refund(1).await, 4);
    assert_eq!(rig.refund(1).await, 4);
    assert_eq!(rig.refund(2).await, 0);
    let asks = [reserve(1, 4), reserve(2, 1), reserve(3, 1)];
    for (ask, cancelled) in asks.into_iter().zip([true, true, false]) {
        assert_eq!(rig.one(terms, ask).await == Limited::Cancelled, cancelled);
    }
    // On a name without a bucket too.
    rig.next();
    assert_eq!(rig.refund(4).await, 0);
    assert_eq!(rig.one(terms, reserve(4, 1)).await, Limited::Cancelled);
    // For 60 s.
    rig.at(HOUR + 60 * SECOND).await;
    assert_eq!(place(&rig.one(terms, reserve(4, 1)).await).wait, 0);
    assert_eq!(rig.rows().await[1], 3, "of the first name, which nobody has asked since");
    rig.object = object("0");
    rig.one(terms, take(0)).await;
    assert_eq!(rig.rows().await[1], 0);
}

#[tokio::test]
async fn l7_a_batch_of_refunds_is_answered_in_its_order() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.at(HOUR).await;
    let mut calls = Vec::new();
    for id in 0..20_u64 {
        let name = ["b", "a", "c"][usize::try_from(id % 3).unwrap()];
        let call = |ask| LimitCall { object: object(name), ..rig.call(terms, ask) };
        if id < 3 {
            calls.push(call(take(10)));
        }
        calls.push(call(reserve(id.into(), id % 7)));
    }
    let flight = rig.next_flight();
    answered(rig.steps.decide(flight, &calls).await);
    // The last first, so that each gives all of it back.
    let refund = |id: u64| Refund {
        object: object(["b", "a", "c"][usize::try_from(id % 3).unwrap()]),
        ticket: Ticket::from(u128::from(id)),
    };
    let batch: Vec<_> = (0..20).rev().map(refund).collect();
    let given: Vec<_> = (0..20).rev().map(|id| id % 7).collect();
    assert_eq!(answered(rig.steps.refund(&batch).await), given);
    assert_eq!(answered(rig.steps.refund(&batch).await), given, "a retry");
    assert_eq!(
        rig.number("SELECT sum(abs(tokens) + taken + latest)::bigint FROM stanchion.limiters").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_copies_of_a_flight_at_the_same_time_are_charged_once() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(100));
    rig.at(HOUR).await;
    for _ in 0..10 {
        rig.next();
        let flight = rig.next_flight();
        let calls = [rig.call(terms, take(3)), rig.call(terms, reserve(1, 100))];
        let mut copies = JoinSet::new();
        for _ in 0..8 {
            let (steps, calls) = (rig.steps.clone(), calls.clone());
            copies.spawn(async move { answered(steps.decide(flight, &calls).await) });
        }
        let told: HashSet<_> = copies.join_all().await.iter().map(|told| format!("{told:?}")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
    }
    assert_eq!(rig.number("SELECT count(*) FROM stanchion.limiters WHERE tokens = -3").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_the_clock_is_read_once_the_row_is_locked() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.at(HOUR).await;
    rig.one(terms, take(10)).await;
    rig.run("BEGIN; SELECT FROM stanchion.limiters FOR UPDATE").await;
    let (steps, flight, calls) = (rig.steps.clone(), rig.next_flight(), [rig.call(terms, take(7))]);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { answered(steps.decide(flight, &calls).await) });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'stanchion.+limit_'";
    while rig.number(waits).await == 0 {
        // Each look is at a new moment.
        rig.run("SELECT pg_stat_clear_snapshot()").await;
    }
    rig.at(HOUR + 7 * SECOND / 10).await;
    rig.run("COMMIT").await;
    assert!(verdict(&waiting.join_all().await[0][0]).allowed);
}

/// One caller, whose every flight asks for both names, in an order of its own.
async fn call_often(steps: PostgresSteps, quota: ExactQuota, caller: usize) -> [u64; 2] {
    let lane = Ticket::random();
    let mut admitted = [0; 2];
    for number in 1..=60_usize {
        let mut names = [0_usize, 1, 0, 0];
        names.rotate_left((caller + number) % 4);
        let call = |name: usize| LimitCall {
            object: object(["one", "two"][name]),
            quota,
            check: QuotaCheck::Follow,
            ask: take(1),
        };
        let flight = FlightId { lane, number: number.try_into().unwrap() };
        let answers = answered(steps.decide(flight, &names.map(call)).await);
        for (name, limited) in names.iter().zip(&answers) {
            admitted[*name] += u64::from(verdict(limited).allowed);
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_callers_over_many_connections_never_exceed_the_bound() {
    let mut rig = Rig::new().await;
    let (period, burst) = (2_000, 50);
    let started = rig.number("SELECT stanchion.now()").await;
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        callers.spawn(call_often(rig.steps.clone(), quota(1, period, burst), caller));
    }
    let admitted =
        callers.join_all().await.into_iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let elapsed = u64::try_from(rig.number("SELECT stanchion.now()").await - started).unwrap();
    let bound = burst + elapsed / period;
    println!("admitted {admitted:?} of at most {bound} each in {elapsed} µs");
    assert!(admitted.iter().all(|admitted| *admitted <= bound), "{admitted:?} of {bound}");
    assert!(admitted.iter().all(|admitted| *admitted > burst), "{admitted:?}");
}

#[tokio::test]
async fn c25_an_idle_limiter_leaves_no_row() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(1_000));
    rig.at(HOUR).await;
    // It needs 100 s to fill, and an hour more.
    for id in 0..30 {
        rig.decide(&[(terms, QuotaCheck::Follow, take(7)), (terms, QuotaCheck::Follow, reserve(id, 33))])
            .await;
    }
    rig.next();
    rig.refund(77).await;
    let reserved = rig.rows().await;
    assert!(reserved[0] == 2 && reserved[1] > 1 && reserved[2] == 1, "{reserved:?}");
    rig.at(2 * HOUR + 100 * SECOND).await;
    let sweep = "SELECT stanchion.sweep_limits('n', 4)";
    assert_eq!(rig.number("SELECT stanchion.sweep_limits('other', 4)").await, 0);
    // The second, which has no bucket, goes first; what is kept longer than it has to be is an eighth.
    let mut swept = rig.number(sweep).await;
    assert_eq!(rig.rows().await, reserved, "{swept}");
    rig.at(3 * HOUR + 200 * SECOND).await;
    for _ in 0..reserved.iter().sum::<i64>() {
        let gone = rig.number(sweep).await;
        assert!(gone <= 4, "{gone}");
        swept += gone;
    }
    assert_eq!((rig.rows().await, swept), ([0, 0, 0], reserved.iter().sum()));
}

#[tokio::test]
async fn c25_a_limiter_that_went_in_part_is_as_new() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.at(HOUR).await;
    for id in 0..9 {
        rig.one(terms, reserve(id, 10)).await;
    }
    rig.at(3 * HOUR).await;
    assert_eq!(rig.number("SELECT stanchion.sweep_limits('n', 3)").await, 3);
    assert_eq!(rig.rows().await, [1, 5, 1]);
    let limited = rig.one(terms, take(10)).await;
    assert!(
        matches!(limited, Limited::Taken { settled: true, .. }) && verdict(&limited).allowed,
        "{limited:?}"
    );
    assert_eq!(rig.number("SELECT taken + latest FROM stanchion.limiters").await, 0);
    assert_eq!(rig.rows().await, [1, 0, 1]);
}

#[tokio::test]
async fn c25_the_sweep_passes_over_what_is_in_use() {
    let (mut rig, terms) = (Rig::timed().await, ten_a_second(10));
    rig.one(terms, take(1)).await;
    rig.run("UPDATE stanchion.limiters SET expires = 0").await;
    rig.run("BEGIN; SELECT FROM stanchion.limiters FOR UPDATE").await;
    assert_eq!(rig.sweep_elsewhere().await, 0);
    rig.run("COMMIT").await;
    assert_eq!(rig.sweep_elsewhere().await, 2);
    assert_eq!(rig.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn c19_every_name_is_a_name_of_its_own() {
    let (mut rig, terms) = (Rig::new().await, quota(1, HOUR, 1_000));
    let long = "\u{1f980}".repeat(128);
    let names = [
        "a",
        "A",
        " a",
        "a ",
        "a\\",
        "'",
        "\"",
        "''",
        "a'; DROP SCHEMA n; --",
        "{}",
        "{a,b}",
        "NULL",
        "null",
        "$1",
        "%s",
        "ä",
        "a\u{308}",
        "\u{1f980}",
        "\n",
        "\u{7f}",
        &long,
        &long[4..],
    ];
    let call = |(index, name): (usize, &&str)| {
        let ask = take(u64::try_from(index).unwrap() + 1);
        LimitCall { object: object(name), ..rig.call(terms, ask) }
    };
    let calls: Vec<_> = names.iter().enumerate().map(call).collect();
    assert_eq!(
        (long.len(), calls.iter().map(|call| &call.object).collect::<HashSet<_>>().len()),
        (512, names.len())
    );
    let flight = rig.next_flight();
    for (index, limited) in answered(rig.steps.decide(flight, &calls).await).iter().enumerate() {
        assert_eq!(verdict(limited).remaining, 999 - u64::try_from(index).unwrap(), "{:?}", names[index]);
    }
    assert_eq!(rig.rows().await[0], i64::try_from(names.len()).unwrap());
    for name in names {
        rig.steps.reset(&object(name)).await.unwrap();
    }
    assert_eq!(rig.number("SELECT count(*) FROM stanchion.limiters WHERE tokens < 1000").await, 0);
    rig.steps.reset(&object("unknown")).await.unwrap();
    assert_eq!(rig.rows().await[0], i64::try_from(names.len()).unwrap(), "a reset makes no bucket");
}
