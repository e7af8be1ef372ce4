//! Batches of limiter calls, by the store's own clock.

use crate::steps::StepCalls;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{Decide, LimitAsk, Limited, ParameterCheck, Refund, RequestId, Steps};
use stanchion_core::{ErrorKind, Ticket};
use tokio::task::JoinSet;

use super::super::drive::*;
use super::super::harness::{Process, StepHarness};

/// Returns a quota of one token in 10 s with a burst of 10.
fn tens() -> ExactQuota {
    quota(1, 10_000_000, 10)
}

fn call(name: &str, ask: LimitAsk) -> Decide {
    Decide { id: RequestId::NONE, object: limiter(name), quota: tens(), check: ParameterCheck::Follow, ask }
}

fn taking(name: &str, cost: u64) -> Decide {
    call(name, take(cost))
}

fn reserving(name: &str, ticket: Ticket, cost: u64) -> Decide {
    call(name, reserve(ticket, cost))
}

async fn decide(process: &Process, request: RequestId, calls: &[Decide]) -> Vec<Limited> {
    all(process.callers.decide(request, calls).await)
}

/// Returns the decisions without the waits, which get shorter.
fn decided(answers: &[Limited]) -> Vec<(bool, u64, Option<u64>)> {
    let decided = |limited: &Limited| match limited {
        Limited::Taken { verdict, .. } => (verdict.allowed, verdict.remaining, None),
        Limited::Reserved { place, .. } => (place.is_some(), 0, place.map(|place| place.ready_at)),
        other => panic!("no decision but {other:?}"),
    };
    answers.iter().map(decided).collect()
}

async fn refund(process: &Process, name: &str, ticket: Ticket) -> u64 {
    one(process.own.refund(&[Refund { object: limiter(name), ticket }]).await)
}

pub(super) async fn l5_a_flight_is_charged_once_whatever_its_retry_asks(harness: &dyn StepHarness) {
    let (process, mut lane) = (harness.process().await, Sequence::new());
    let request = lane.next_id();
    let calls =
        [taking("a", 2), taking("b", 1), taking("a", 2), reserving("a", Ticket::random(), 8), taking("b", 1)];
    let first = decide(&process, request, &calls).await;
    assert_eq!([0, 1, 2, 4].map(|i| remaining(&first[i])), [(true, 8), (true, 9), (true, 6), (true, 8)]);
    assert_eq!(decided(&decide(&process, request, &calls).await), decided(&first), "a retry");
    // Half of the callers are gone: their calls now have a cost of zero.
    let mut fewer = calls.clone();
    fewer[2] = taking("a", 0);
    fewer[3] = taking("a", 0);
    assert_eq!(
        decided(&decide(&process, request, &fewer).await),
        decided(&first),
        "from memory, over the same places"
    );
    // Another lane does not interfere, and the next request of this lane continues from there.
    let other = decide(&process, Sequence::new().next_id(), &[taking("b", 1)]).await;
    assert_eq!(remaining(&other[0]), (true, 7));
    assert_eq!(decided(&decide(&process, request, &calls).await), decided(&first));
    let next = decide(&process, lane.next_id(), &[taking("b", 7), taking("b", 1)]).await;
    assert_eq!([remaining(&next[0]), remaining(&next[1])], [(true, 0), (false, 0)]);
    // A late copy of the first request ends as unknown, and is not charged again.
    let late = process.callers.decide(request, &[taking("b", 1)]).await.remove(0);
    assert_eq!(late.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
}

pub(super) async fn l5_l6_the_waits_of_a_remembered_answer_count_from_its_retry(harness: &dyn StepHarness) {
    const LATER: Duration = Duration::from_millis(300);
    let (process, request) = (harness.process().await, Sequence::new().next_id());
    // One missing token takes 100 ms, ten take a second.
    let quota = quota(10, 1_000_000, 10);
    let ticket = Ticket::random();
    let place = LimitAsk::Reserve { ticket, cost: 10, max_wait: 1_000_000 };
    let asks = [take(10), take(1), place];
    let calls = asks.map(|ask| Decide { quota, ..call("l", ask) });
    let waits = |answers: &[Limited]| match answers {
        [Limited::Taken { verdict: taken, .. }, Limited::Taken { verdict: refused, .. }, reserved] => {
            let Limited::Reserved { place: Some(place), .. } = reserved else { panic!("{reserved:?}") };
            assert!(taken.allowed && !refused.allowed);
            let waits = [refused.retry_after.expect("a wait"), refused.reset_after, place.wait];
            (taken.retry_after, place.ready_at, waits)
        }
        other => panic!("{other:?}"),
    };
    let sent = now();
    let first = waits(&decide(&process, request, &calls).await);
    let answered = now();
    assert_eq!((first.0, first.2), (None, [100_000, 1_000_000, 1_000_000]));
    sleep(LATER).await;
    let least = answered.elapsed();
    let again = waits(&decide(&process, request, &calls).await);
    let most = sent.elapsed();
    assert_eq!(
        (again.0, again.1, again.2[0]),
        (None, first.1, 0),
        "it comes at the same time, which is nearer"
    );
    for wait in &again.2[1..] {
        let passed = Duration::from_micros(1_000_000 - wait);
        // No wait is below zero.
        let least = least.min(Duration::from_secs(1));
        assert!(passed >= least && passed <= most, "{passed:?}, not between {least:?} and {most:?}");
    }
}

pub(super) async fn l7_c4_a_refund_is_told_once_and_refuses_what_it_overtook(harness: &dyn StepHarness) {
    let (process, mut lane) = (harness.process().await, Sequence::new());
    let tickets: Vec<_> = (0..3).map(|_| Ticket::random()).collect();
    decide(&process, lane.next_id(), &[taking("l", 10)]).await;
    decide(&process, lane.next_id(), &[reserving("l", tickets[0], 5), reserving("l", tickets[1], 3)]).await;
    assert_eq!(refund(&process, "l", tickets[0]).await, 2);
    assert_eq!(refund(&process, "l", tickets[0]).await, 2, "the same answer, nothing more");
    assert_eq!(refund(&process, "l", tickets[1]).await, 3);
    assert_eq!(refund(&process, "l", tickets[2]).await, 0);
    let overtaken = decide(&process, lane.next_id(), &[reserving("l", tickets[2], 1)]).await;
    assert_eq!(overtaken, [Limited::Cancelled]);
    let overtaken = decide(&process, lane.next_id(), &[reserving("l", tickets[0], 1)]).await;
    assert_eq!(overtaken, [Limited::Cancelled]);
    // Also on a name without a bucket.
    refund(&process, "new", tickets[0]).await;
    let answers =
        decide(&process, lane.next_id(), &[reserving("new", tickets[0], 1), taking("new", 4)]).await;
    assert_eq!((answers[0], remaining(&answers[1])), (Limited::Cancelled, (true, 6)));
}

pub(super) async fn c19_every_name_is_a_name_of_its_own(harness: &dyn StepHarness) {
    let (process, mut lane) = (harness.process().await, Sequence::new());
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
    let terms = quota(1, 3_600_000_000, 1_000);
    let call = |(cost, name): (u64, &&str)| Decide { quota: terms, ..taking(name, cost) };
    let calls: Vec<_> = (1..).zip(&names).map(call).collect();
    let distinct = calls.iter().map(|call| &call.object).collect::<HashSet<_>>().len();
    assert_eq!((long.len(), distinct), (512, names.len()));
    let told = decide(&process, lane.next_id(), &calls).await;
    for ((cost, name), limited) in (1..).zip(&names).zip(&told) {
        assert_eq!(remaining(limited), (true, 1_000 - cost), "{name:?}");
    }
    assert_eq!(harness.records().await, names.len());
    for name in names {
        process.callers.reset(&limiter(name)).await.expect("an answer");
    }
    let full: Vec<_> = names.iter().map(|name| call((0, name))).collect();
    let told = decide(&process, lane.next_id(), &full).await;
    assert!(told.iter().all(|limited| remaining(limited) == (true, 1_000)), "{told:?}");
    process.callers.reset(&limiter("unknown")).await.expect("an answer");
    assert_eq!(harness.records().await, names.len(), "a reset makes no bucket");
}

/// Runs one caller. Each of its requests asks for both names, in the caller's own order.
async fn call_often(steps: Arc<dyn Steps>, quota: ExactQuota, caller: usize) -> [u64; 2] {
    let mut lane = Sequence::new();
    let mut admitted = [0; 2];
    for number in 1..=60_usize {
        let mut names = [0_usize, 1, 0, 0];
        names.rotate_left((caller + number) % 4);
        let calls = names.map(|name| Decide { quota, ..taking(["one", "two"][name], 1) });
        let answers = all(steps.decide(lane.next_id(), &calls).await);
        for (name, limited) in names.iter().zip(&answers) {
            admitted[*name] += u64::from(verdict(limited).allowed);
        }
    }
    admitted
}

pub(super) async fn l1_callers_over_many_connections_never_exceed_the_bound(harness: &dyn StepHarness) {
    const PERIOD: u64 = 2_000;
    const BURST: u64 = 50;
    let processes = [harness.process().await, harness.process().await, harness.process().await];
    let started = now();
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let steps = Arc::clone(&processes[caller % 3].callers);
        callers.spawn(call_often(steps, quota(1, PERIOD, BURST), caller));
    }
    let admitted =
        callers.join_all().await.into_iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let elapsed = started.elapsed();
    let bound = u128::from(BURST) + elapsed.as_micros() / u128::from(PERIOD);
    println!("admitted {admitted:?} of at most {bound} each in {elapsed:?}");
    assert!(admitted.iter().all(|admitted| u128::from(*admitted) <= bound), "{admitted:?} of {bound}");
    assert!(admitted.iter().all(|admitted| *admitted > BURST), "{admitted:?}");
}

pub(super) async fn c20_a_call_that_takes_nothing_makes_no_bucket(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let (large, small) = (tens(), quota(1, HOUR, 5));
    let of = |quota, cost| Decide { quota, ..taking("a", cost) };
    for overtaken in [false, true] {
        if overtaken {
            // What is kept of it is no bucket either.
            assert_eq!(refund(&process, "b", Ticket::random()).await, 0);
        }
        let name = if overtaken { "b" } else { "a" };
        let named = |call: Decide| Decide { id: RequestId::NONE, object: limiter(name), ..call };
        let calls = [of(large, 0), of(small, 9), of(large, 11), of(small, 2), of(large, 3)].map(named);
        let answers = decide(&process, Sequence::new().next_id(), &calls[..3]).await;
        assert_eq!(remaining(&answers[0]), (true, 10));
        assert_eq!(answers[1], Limited::TooLarge { quota: small });
        assert_eq!(answers[2], Limited::TooLarge { quota: large });
        let answers = decide(&process, Sequence::new().next_id(), &calls).await;
        assert_eq!(remaining(&answers[0]), (true, 10));
        assert_eq!(remaining(&answers[3]), (true, 3), "the first to take brings the quota");
        assert_eq!(remaining(&answers[4]), (true, 0), "which the next one follows");
        let answers = decide(&process, Sequence::new().next_id(), &calls[..1]).await;
        assert_eq!(remaining(&answers[0]), (true, 0));
    }
}
