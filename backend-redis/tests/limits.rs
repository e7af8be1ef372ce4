//! The steps of limiters on a server: what is remembered, what is left, what a decision costs.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::sync::Arc;
use std::time::Duration;

use harness::*;
use stanchion_conformance::servers::RedisOptions;
use stanchion_core::engine::steps::{
    FlightId, LimitAsk, LimitCall, LimitSteps, Limited, Object, QuotaCheck, Refund,
};
use stanchion_core::limit::ExactQuota;
use stanchion_core::{DecidedBy, ErrorKind, Kind, LimiterOptions, Name, OutagePolicy, Quota, Store, Ticket};
use stanchion_redis::StepsOfStore;
use tokio::time::{Instant, sleep};

fn object(name: &str) -> Object {
    Object { kind: Kind::Limiter, name: Name::new(name).unwrap() }
}

/// A token in 10 s, a burst of 10.
fn tens() -> ExactQuota {
    Quota::per(1, Duration::from_secs(10)).burst(10).validate().unwrap()
}

fn call(name: &str, ask: LimitAsk) -> LimitCall {
    LimitCall { object: object(name), quota: tens(), check: QuotaCheck::Follow, ask }
}

fn take(name: &str, cost: u64) -> LimitCall {
    call(name, LimitAsk::Take { cost })
}

fn reserve(name: &str, ticket: Ticket, cost: u64) -> LimitCall {
    call(name, LimitAsk::Reserve { ticket, cost, max_wait: 1_000_000_000 })
}

/// A lane's flights, one after the other.
struct Lane(FlightId);

impl Lane {
    fn new() -> Self {
        Self(FlightId { lane: Ticket::random(), number: 0 })
    }

    fn next(&mut self) -> FlightId {
        self.0.number += 1;
        self.0
    }
}

fn remaining(limited: &Limited) -> (bool, u64) {
    match limited {
        Limited::Taken { verdict, .. } => (verdict.allowed, verdict.remaining),
        other => panic!("not taken but {other:?}"),
    }
}

async fn decide(process: &StepsOfStore, flight: FlightId, calls: &[LimitCall]) -> Vec<Limited> {
    all(process.callers.decide(flight, calls).await)
}

/// What was decided, without the waits, which get shorter.
fn decided(answers: &[Limited]) -> Vec<(bool, u64, Option<u64>)> {
    let decided = |limited: &Limited| match limited {
        Limited::Taken { verdict, .. } => (verdict.allowed, verdict.remaining, None),
        Limited::Reserved { place, .. } => (place.is_some(), 0, place.map(|place| place.ready_at)),
        other => panic!("no decision but {other:?}"),
    };
    answers.iter().map(decided).collect()
}

async fn refund(process: &StepsOfStore, name: &str, ticket: Ticket) -> u64 {
    one(process.own.refund(&[Refund { object: object(name), ticket }]).await)
}

#[tokio::test]
async fn l5_a_flight_is_charged_once_whatever_its_retry_asks() {
    let bed = Bed::shared();
    let (process, mut lane) = (bed.process().await, Lane::new());
    let flight = lane.next();
    let calls = [take("a", 2), take("b", 1), take("a", 2), reserve("a", Ticket::random(), 8), take("b", 1)];
    let first = decide(&process, flight, &calls).await;
    assert_eq!([0, 1, 2, 4].map(|i| remaining(&first[i])), [(true, 8), (true, 9), (true, 6), (true, 8)]);
    assert_eq!(decided(&decide(&process, flight, &calls).await), decided(&first));
    // Half of the callers have gone: their calls ask for nothing any more.
    let mut fewer = calls.clone();
    fewer[2] = take("a", 0);
    fewer[3] = take("a", 0);
    assert_eq!(
        decided(&decide(&process, flight, &fewer).await),
        decided(&first),
        "from memory, over the same places"
    );
    // Another lane does not disturb, another flight of this one goes on from there.
    let other = decide(&process, Lane::new().next(), &[take("b", 1)]).await;
    assert_eq!(remaining(&other[0]), (true, 7));
    assert_eq!(decided(&decide(&process, flight, &calls).await), decided(&first));
    let next = decide(&process, lane.next(), &[take("b", 7), take("b", 1)]).await;
    assert_eq!([remaining(&next[0]), remaining(&next[1])], [(true, 0), (false, 0)]);
    // A late copy of the first is not charged where it would be seen.
    let late = process.callers.decide(flight, &[take("b", 1)]).await.remove(0);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Unknown);
}

#[tokio::test]
async fn l5_l6_the_waits_of_a_remembered_answer_count_from_its_retry() {
    const LATER: Duration = Duration::from_millis(300);
    let bed = Bed::shared();
    let (process, flight) = (bed.process().await, Lane::new().next());
    // 1 token is missing for 100 ms, 10 for a second.
    let quota = Quota::per(10, Duration::from_secs(1)).burst(10).validate().unwrap();
    let ticket = Ticket::random();
    let place = LimitAsk::Reserve { ticket, cost: 10, max_wait: 1_000_000 };
    let asks = [LimitAsk::Take { cost: 10 }, LimitAsk::Take { cost: 1 }, place];
    let calls = asks.map(|ask| LimitCall { quota, ..call("l", ask) });
    let waits = |answers: &[Limited]| match answers {
        [Limited::Taken { verdict: taken, .. }, Limited::Taken { verdict: refused, .. }, reserved] => {
            let Limited::Reserved { place: Some(place), .. } = reserved else { panic!("{reserved:?}") };
            assert!(taken.allowed && !refused.allowed);
            let waits = [refused.retry_after.unwrap(), refused.reset_after, place.wait];
            (taken.retry_after, place.ready_at, waits)
        }
        other => panic!("{other:?}"),
    };
    let sent = Instant::now();
    let first = waits(&decide(&process, flight, &calls).await);
    let answered = Instant::now();
    assert_eq!((first.0, first.2), (None, [100_000, 1_000_000, 1_000_000]));
    sleep(LATER).await;
    let least = answered.elapsed();
    let again = waits(&decide(&process, flight, &calls).await);
    let most = sent.elapsed();
    assert_eq!(
        (again.0, again.1, again.2[0]),
        (None, first.1, 0),
        "it comes at the same time, which is nearer"
    );
    for wait in &again.2[1..] {
        let passed = Duration::from_micros(1_000_000 - wait);
        assert!(passed >= least && passed <= most, "{passed:?}, not between {least:?} and {most:?}");
    }
}

#[tokio::test]
async fn l7_c4_a_refund_is_told_once_and_refuses_what_it_overtook() {
    let bed = Bed::shared();
    let (process, mut lane) = (bed.process().await, Lane::new());
    let tickets: Vec<_> = (0..3).map(|_| Ticket::random()).collect();
    decide(&process, lane.next(), &[take("l", 10)]).await;
    decide(&process, lane.next(), &[reserve("l", tickets[0], 5), reserve("l", tickets[1], 3)]).await;
    assert_eq!(refund(&process, "l", tickets[0]).await, 2);
    assert_eq!(refund(&process, "l", tickets[0]).await, 2, "the same answer, nothing more");
    assert_eq!(refund(&process, "l", tickets[1]).await, 3);
    assert_eq!(refund(&process, "l", tickets[2]).await, 0);
    let overtaken = decide(&process, lane.next(), &[reserve("l", tickets[2], 1)]).await;
    assert_eq!(overtaken, [Limited::Cancelled]);
    let overtaken = decide(&process, lane.next(), &[reserve("l", tickets[0], 1)]).await;
    assert_eq!(overtaken, [Limited::Cancelled]);
    // Also of a name that has no bucket yet.
    refund(&process, "new", tickets[0]).await;
    let answers = decide(&process, lane.next(), &[reserve("new", tickets[0], 1), take("new", 4)]).await;
    assert_eq!((answers[0], remaining(&answers[1])), (Limited::Cancelled, (true, 6)));
}

#[tokio::test]
async fn c25_every_key_expires_and_reservations_need_two_more() {
    let bed = Bed::shared();
    let process =
        bed.builder().retention(Duration::from_secs(1), Duration::from_secs(1)).steps().await.unwrap();
    let (mut lane, mut raw) = (Lane::new(), bed.raw().await);
    let ticket = Ticket::random();
    decide(&process, lane.next(), &[take("l", 10)]).await;
    assert_eq!(bed.keys().await.len(), 1);
    // Full in 100 s, and the answers for 60 s.
    let left = |key: String| {
        let mut raw = raw.clone();
        async move {
            let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
            assert!((155..=170).contains(&left), "{key}: {left} s");
        }
    };
    for key in bed.keys().await {
        left(key).await;
    }
    process.callers.reset(&object("l")).await.unwrap();
    let key = bed.keys().await.remove(0);
    let expiry: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
    assert!((55..=70).contains(&expiry), "full now: {expiry} s");
    decide(&process, lane.next(), &[take("l", 10), reserve("l", ticket, 1)]).await;
    assert_eq!(bed.keys().await.len(), 3);
    for key in bed.keys().await {
        let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left >= 155, "{key}: {left} s");
    }
    refund(&process, "l", ticket).await;
    let of_refund = bed.keys().await;
    assert_eq!(of_refund.len(), 3, "its answer is remembered");
    // A refund alone, of a name without a bucket.
    refund(&process, "new", ticket).await;
    for key in bed.keys().await {
        let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left >= 55, "{key}: {left} s");
    }
    // What comes due leaves by itself.
    let quick = Quota::per(1, Duration::from_millis(20)).burst(1).validate().unwrap();
    let quick = |ask| LimitCall { quota: quick, ..call("quick", ask) };
    let ask = LimitAsk::Reserve { ticket, cost: 1, max_wait: 1_000_000 };
    decide(&process, lane.next(), &[quick(LimitAsk::Take { cost: 1 }), quick(ask)]).await;
    let of_quick = || async { bed.keys().await.iter().filter(|key| key.ends_with("quick")).count() };
    assert_eq!(of_quick().await, 3);
    sleep(Duration::from_millis(50)).await;
    decide(&process, lane.next(), &[quick(LimitAsk::Take { cost: 0 })]).await;
    assert_eq!(of_quick().await, 1);
}

#[tokio::test]
async fn c25_lanes_that_ended_are_taken_out() {
    let bed = Bed::shared();
    let (process, mut raw) = (bed.process().await, bed.raw().await);
    decide(&process, Lane::new().next(), &[take("l", 1)]).await;
    let key = bed.keys().await.remove(0);
    // Answers of long ago, as they would be after many processes came and went.
    let bucket: String = redis::cmd("HGET").arg(&key).arg("s").query_async(&mut raw).await.unwrap();
    let mut words: Vec<_> = bucket.split(' ').map(str::to_owned).collect();
    words[7] = "1001".to_owned();
    let mut set = redis::cmd("HSET");
    set.arg(&key).arg("s").arg(words.join(" "));
    for _ in 0..1_000 {
        set.arg(format!("a{}", Ticket::random())).arg("1 1700000000000000 0;");
    }
    let _: u64 = set.query_async(&mut raw).await.unwrap();
    let fields = || {
        let (mut raw, key) = (raw.clone(), key.clone());
        async move { redis::cmd("HLEN").arg(&key).query_async::<u64>(&mut raw).await.unwrap() }
    };
    decide(&process, Lane::new().next(), &[take("l", 1)]).await;
    assert_eq!(fields().await, 3, "the bucket and two lanes");
    for _ in 0..100 {
        decide(&process, Lane::new().next(), &[take("l", 0)]).await;
    }
    assert_eq!(fields().await, 103, "what is younger than 60 s stays");
}

#[tokio::test]
async fn c19_a_foreign_key_is_named_and_left_alone() {
    let bed = Bed::shared();
    let (process, mut lane, mut raw) = (bed.process().await, Lane::new(), bed.raw().await);
    decide(&process, lane.next(), &[take("l", 1)]).await;
    let record = bed.keys().await.remove(0);
    let places = record.replace("}:l:", "}:lz:");
    let () = redis::cmd("SET").arg(&places).arg("theirs").query_async(&mut raw).await.unwrap();
    let calls = [take("l", 9), reserve("l", Ticket::random(), 1), take("other", 1)];
    let answers = process.callers.decide(lane.next(), &calls).await;
    for refused in &answers[..2] {
        let error = refused.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&places), "{error}");
    }
    assert_eq!(remaining(answers[2].as_ref().unwrap()), (true, 9), "other names go on");
    assert_eq!(
        remaining(&decide(&process, lane.next(), &[take("l", 0)]).await[0]),
        (true, 9),
        "nothing of it"
    );
    let () = redis::cmd("DEL").arg(&record).query_async(&mut raw).await.unwrap();
    let () = redis::cmd("SET").arg(&record).arg("theirs").query_async(&mut raw).await.unwrap();
    let error = process.callers.decide(lane.next(), &[take("l", 1)]).await.remove(0).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(&record), "{error}");
    let refused =
        process.own.refund(&[Refund { object: object("l"), ticket: Ticket::random() }]).await.remove(0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(process.own.reset(&object("l")).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = process.own.set_quota(&object("l"), tens()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let kept: String = redis::cmd("GET").arg(&record).query_async(&mut raw).await.unwrap();
    assert_eq!(kept, "theirs");
}

#[tokio::test]
async fn l5_a_flight_of_any_size_is_four_calls_of_the_server() {
    let (_server, bed) = start(RedisOptions::default());
    let (process, mut lane) = (bed.process().await, Lane::new());
    decide(&process, lane.next(), &[take("l", 1)]).await;
    let idle = bed.calls().await;
    let idle = bed.calls().await - idle;
    for size in [1, 500] {
        let before = bed.calls().await;
        decide(&process, lane.next(), &vec![take("l", 1); size]).await;
        // EVALSHA, TIME, HMGET, HSET.
        assert_eq!(bed.calls().await - before - idle, 4, "{size} calls");
    }
}

#[tokio::test]
async fn l5_concurrent_callers_share_round_trips() {
    let (_server, bed) = start(RedisOptions::default());
    let store = bed.builder().connect().await.unwrap();
    let options = LimiterOptions::new(Quota::per_hour(1).burst(2_000)).refusal_cache(false);
    let limiter = store.limiter("l", options).unwrap();
    limiter.allow().await.unwrap();
    let before = bed.calls().await;
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.allow().await.unwrap().remaining })
        })
        .collect();
    let mut told = Vec::new();
    for call in calls {
        told.push(call.await.unwrap());
    }
    assert_eq!(told, (999..1_999).rev().collect::<Vec<_>>(), "each its own, in the order of arrival");
    let calls = bed.calls().await - before;
    assert!(calls <= 30, "{calls} calls for 1,000 decisions");
}

#[tokio::test]
async fn l10_c18_without_its_server_the_policy_decides_and_then_the_server_again() {
    let (server, bed) = start(RedisOptions::default().append_only(true));
    let store = bed.builder().connect().await.unwrap();
    let options = LimiterOptions::new(Quota::per_hour(1).burst(5));
    let closed = store.limiter("l", options.clone()).unwrap();
    let open = store.limiter("l", options.outage(OutagePolicy::FailOpen)).unwrap();
    assert_eq!(open.allow_n(2).await.unwrap().remaining, 3);
    server.kill().unwrap();
    let before = Instant::now();
    assert_eq!(open.allow().await.unwrap().decided_by, DecidedBy::OutagePolicy);
    let error = closed.allow().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    let waiting = tokio::spawn({
        let closed = Arc::clone(&closed);
        async move { closed.wait_n(2).await }
    });
    sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    server.restart().unwrap();
    waiting.await.unwrap().unwrap();
    let decision = open.peek().await.unwrap();
    assert_eq!((decision.remaining, decision.decided_by), (1, DecidedBy::Store), "charged once");
}
