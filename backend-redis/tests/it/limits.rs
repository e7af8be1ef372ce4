//! The steps of limiters on a server: the answers that are kept, the keys that are left, the cost
//! of a decision.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::outages::decide_through;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{Decide, LimitAsk, Limited, ParameterCheck, Refund, RequestId};
use stanchion_core::{DecidedBy, ErrorKind, LimiterOptions, OutagePolicy, Quota, Store, Ticket};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Away, Proxy};
use stanchion_testbed::servers::{RedisCluster, RedisOptions, RedisSentinel, RedisServer};
use tokio::time::sleep;

/// A token in 10 s, a burst of 10.
fn tens() -> ExactQuota {
    Quota::per(1, Duration::from_secs(10)).burst(10).validate().unwrap()
}

fn call(name: &str, ask: LimitAsk) -> Decide {
    Decide { id: RequestId::NONE, object: limiter(name), quota: tens(), check: ParameterCheck::Follow, ask }
}

fn take(name: &str, cost: u64) -> Decide {
    call(name, LimitAsk::Take { cost })
}

fn reserve(name: &str, ticket: Ticket, cost: u64) -> Decide {
    call(name, LimitAsk::Reserve { ticket, cost, max_wait: 1_000_000_000 })
}

async fn decide(process: &Process, id: RequestId, calls: &[Decide]) -> Vec<Limited> {
    all(process.callers.decide(id, calls).await)
}

async fn refund(process: &Process, name: &str, ticket: Ticket) -> u64 {
    one(process.own.refund(&[Refund { object: limiter(name), ticket }]).await)
}

#[tokio::test]
async fn c25_every_key_expires_and_reservations_need_two_more() {
    let fixture = Fixture::shared();
    let retention = Duration::from_secs(1);
    let process =
        driven(fixture.builder().request_timeout(PATIENT).retention(retention).steps().await.unwrap());
    let (mut lane, mut raw) = (Sequence::new(), fixture.raw().await);
    let ticket = Ticket::random();
    decide(&process, lane.next_id(), &[take("l", 10)]).await;
    assert_eq!(fixture.keys().await.len(), 1);
    // The bucket is full in 100 s, and answers are kept for 60 s.
    let left = |key: String| {
        let mut raw = raw.clone();
        async move {
            let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
            assert!((155..=170).contains(&left), "{key}: {left} s");
        }
    };
    for key in fixture.keys().await {
        left(key).await;
    }
    process.callers.reset(&limiter("l")).await.unwrap();
    let key = fixture.keys().await.remove(0);
    let expiry: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
    assert!((55..=70).contains(&expiry), "the bucket is full now: {expiry} s");
    decide(&process, lane.next_id(), &[take("l", 10), reserve("l", ticket, 1)]).await;
    assert_eq!(fixture.keys().await.len(), 3);
    for key in fixture.keys().await {
        let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left >= 155, "{key}: {left} s");
    }
    refund(&process, "l", ticket).await;
    let of_refund = fixture.keys().await;
    assert_eq!(of_refund.len(), 3, "its answer is remembered");
    // A refund alone, of a name without a bucket.
    refund(&process, "new", ticket).await;
    for key in fixture.keys().await {
        let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left >= 55, "{key}: {left} s");
    }
    // Reservations that come due leave by themselves.
    let quick = Quota::per(1, Duration::from_millis(20)).burst(1).validate().unwrap();
    let quick = |ask| Decide { quota: quick, ..call("quick", ask) };
    let ask = LimitAsk::Reserve { ticket, cost: 1, max_wait: 1_000_000 };
    decide(&process, lane.next_id(), &[quick(LimitAsk::Take { cost: 1 }), quick(ask)]).await;
    let of_quick = || async { fixture.keys().await.iter().filter(|key| key.ends_with("quick")).count() };
    assert_eq!(of_quick().await, 3);
    sleep(Duration::from_millis(50)).await;
    decide(&process, lane.next_id(), &[quick(LimitAsk::Take { cost: 0 })]).await;
    assert_eq!(of_quick().await, 1);
}

#[tokio::test]
async fn c25_lanes_that_ended_are_taken_out() {
    let fixture = Fixture::shared();
    let (process, mut raw) = (fixture.process().await, fixture.raw().await);
    decide(&process, Sequence::new().next_id(), &[take("l", 1)]).await;
    let key = fixture.keys().await.remove(0);
    // Old answers, as they would be after many processes came and went.
    let mut set = redis::cmd("HSET");
    set.arg(&key);
    for _ in 0..1_000 {
        set.arg(format!("a{}", Ticket::random())).arg("1 1700000000000000 0;");
    }
    let _: u64 = set.query_async(&mut raw).await.unwrap();
    let fields = || {
        let (mut raw, key) = (raw.clone(), key.clone());
        async move { redis::cmd("HLEN").arg(&key).query_async::<u64>(&mut raw).await.unwrap() }
    };
    decide(&process, Sequence::new().next_id(), &[take("l", 1)]).await;
    let left = fields().await;
    assert!((3..1_003).contains(&left), "the bucket, two lanes, and a part of the others: {left}");
    for _ in 0..100 {
        decide(&process, Sequence::new().next_id(), &[take("l", 0)]).await;
    }
    assert_eq!(fields().await, 103, "answers younger than 60 s stay");
}

#[tokio::test]
async fn c19_a_foreign_key_is_named_and_left_alone() {
    let fixture = Fixture::shared();
    let (process, mut lane, mut raw) = (fixture.process().await, Sequence::new(), fixture.raw().await);
    decide(&process, lane.next_id(), &[take("l", 1)]).await;
    let record = fixture.keys().await.remove(0);
    let places = record.replace("}:l:", "}:lz:");
    let () = redis::cmd("SET").arg(&places).arg("theirs").query_async(&mut raw).await.unwrap();
    let calls = [take("l", 9), reserve("l", Ticket::random(), 1), take("other", 1)];
    let answers = process.callers.decide(lane.next_id(), &calls).await;
    for refused in &answers[..2] {
        let error = refused.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&places), "{error}");
    }
    assert_eq!(remaining(answers[2].as_ref().unwrap()), (true, 9), "other names go on");
    assert_eq!(
        remaining(&decide(&process, lane.next_id(), &[take("l", 0)]).await[0]),
        (true, 9),
        "no part of the request was executed"
    );
    let () = redis::cmd("DEL").arg(&record).query_async(&mut raw).await.unwrap();
    let () = redis::cmd("SET").arg(&record).arg("theirs").query_async(&mut raw).await.unwrap();
    let error = process.callers.decide(lane.next_id(), &[take("l", 1)]).await.remove(0).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(&record), "{error}");
    let refused =
        process.own.refund(&[Refund { object: limiter("l"), ticket: Ticket::random() }]).await.remove(0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(process.own.reset(&limiter("l")).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = process.own.set_quota(&limiter("l"), tens()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let kept: String = redis::cmd("GET").arg(&record).query_async(&mut raw).await.unwrap();
    assert_eq!(kept, "theirs");
}

#[tokio::test]
async fn l5_a_batch_of_any_size_is_four_calls_of_the_server() {
    let (_server, fixture) = start(RedisOptions::default());
    let (process, mut lane) = (fixture.process().await, Sequence::new());
    decide(&process, lane.next_id(), &[take("l", 1)]).await;
    let idle = fixture.calls().await;
    let idle = fixture.calls().await - idle;
    for size in [1, 500] {
        let before = fixture.calls().await;
        decide(&process, lane.next_id(), &vec![take("l", 1); size]).await;
        // EVALSHA, TIME, HMGET, HSET.
        assert_eq!(fixture.calls().await - before - idle, 4, "{size} calls");
    }
}

#[tokio::test]
async fn l5_concurrent_callers_share_round_trips() {
    let (_server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).connect().await.unwrap();
    let options = LimiterOptions::new(Quota::per_hour(1).burst(2_000)).refusal_cache(false);
    let limiter = store.limiter("l", options).unwrap();
    limiter.allow().await.unwrap();
    let before = fixture.calls().await;
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
    assert_eq!(
        told,
        (999..1_999).rev().collect::<Vec<_>>(),
        "each call has its own answer, in the order of arrival"
    );
    let calls = fixture.calls().await - before;
    assert!(calls <= 30, "{calls} calls for 1,000 decisions");
}

#[tokio::test]
async fn l10_c18_without_its_server_the_policy_decides_and_then_the_server_again() {
    let (server, fixture) = start(RedisOptions::default().append_only(true));
    let store = fixture.builder().connect().await.unwrap();
    let options = LimiterOptions::new(Quota::per_hour(1).burst(5));
    let closed = store.limiter("l", options.clone()).unwrap();
    let open = store.limiter("l", options.outage(OutagePolicy::FailOpen)).unwrap();
    assert_eq!(open.allow_n(2).await.unwrap().remaining, 3);
    server.kill().unwrap();
    let watch = Stopwatch::start();
    assert_eq!(open.allow().await.unwrap().decided_by, DecidedBy::OutagePolicy);
    let error = closed.allow().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_policy_decides_at_once_while_the_server_is_away() {
    for away in Away::ALL {
        let (server, _) = start(RedisOptions::default());
        let proxy = Proxy::to(&server.url()).unwrap();
        let store = RedisStore::builder(&proxy.url(&server.url())).unwrap().connect().await.unwrap();
        decide_through(&store, &away.to_string(), || away.begin(&server, &proxy).unwrap()).await;
        away.end(&server, &proxy).unwrap();
    }
}

/// Kills servers, or stops them.
fn end(servers: &[RedisServer], what: &str) {
    for server in servers {
        if what == "killed" { server.kill() } else { server.pause() }.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_policy_decides_at_once_while_a_cluster_or_its_primary_is_away() {
    for what in ["killed", "stopped"] {
        let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
        let store = RedisStore::builder(&cluster.url()).unwrap().connect().await.unwrap();
        decide_through(&store, &format!("cluster {what}"), || end(cluster.nodes(), what)).await;
        let sentinel = RedisSentinel::start(RedisOptions::default()).unwrap();
        let store = RedisStore::builder(&sentinel.url()).unwrap().connect().await.unwrap();
        decide_through(&store, &format!("servers behind sentinels {what}"), || end(sentinel.servers(), what))
            .await;
        if what == "stopped" {
            cluster.nodes().iter().chain(sentinel.servers()).for_each(|server| server.resume().unwrap());
        }
    }
}
