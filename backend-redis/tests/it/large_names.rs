//! Names with thousands of silent waiters, expired members or holds: what each of them costs, and
//! that no call is as long as their number ([C27]).
//!
//! [C27]: stanchion_core::contract#c27

use stanchion_conformance::steps::StepCalls;
use std::collections::HashSet;
use std::time::Duration;

use crate::common::*;
use crate::listing::processor_time;
use redis::AsyncCommands;
use stanchion_conformance::EPSILON;
use stanchion_conformance::steps::StepHarness;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_core::Ttl;
use stanchion_core::spi::{Acquire, Force, Kept};
use stanchion_testbed::servers::RedisOptions;
use tokio::time::sleep;

/// Returns how often the server has executed a command, in scripts and outside.
pub(crate) async fn calls(fixture: &Fixture, command: &str) -> u64 {
    let mut raw = fixture.raw().await;
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut raw).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Sends as many requests, 500 at a time.
async fn send(process: &Process, count: usize, request: impl Fn() -> Acquire) -> Vec<Acquire> {
    let mut sent = Vec::new();
    while sent.len() < count {
        let batch: Vec<_> = (0..500.min(count - sent.len())).map(|_| request()).collect();
        acquire_all(process, &batch).await;
        sent.extend(batch);
    }
    sent
}

/// Sends a request until it is granted. If the machine stands still, no process is heard for a
/// while, and then the silent waiters in front count as live for a grace period ([C16]).
///
/// [C16]: stanchion_core::contract#c16
async fn served(process: &Process, request: &Acquire) {
    let watch = Stopwatch::start();
    while !is_granted(&acquire(process, request).await) {
        assert!(watch.elapsed() < LIVENESS + GRACE + EPSILON, "the silent stand in front");
        heard(&[process], &request.object, Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn c27_silent_waiters_in_front_cost_an_operation_once() {
    const DEAD: usize = 3_000;
    let (_server, fixture) = start(RedisOptions::default());
    let (dead, live) = (fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let mut holder = ask(&object);
    granted(&live, &holder).await;
    let silent = send(&dead, DEAD, || ask(&object)).await;
    heard(&[&live], &object, LIVENESS + Duration::from_millis(500)).await;
    let mut walks = Vec::new();
    for _ in 0..6 {
        let waiter = ask(&object);
        waits(&live, &waiter).await;
        let before = calls(&fixture, "zmscore").await;
        release(&live, &holder).await;
        served(&live, &waiter).await;
        walks.push(calls(&fixture, "zmscore").await - before);
        holder = waiter;
    }
    assert!(walks[0] > 10 && walks[1..].iter().all(|walk| *walk <= 2), "{walks:?}");
    fixture.check(&object).await;
    assert_eq!(dead.callers.inspect(&object).await.unwrap().waiters, DEAD as u64);
    // Heard again, they are in front of whoever came later, in their order.
    let later = ask(&object);
    waits(&live, &later).await;
    for _ in 0..4 {
        poll(&dead, &object).await;
    }
    fixture.check(&object).await;
    release(&live, &holder).await;
    waits(&live, &later).await;
    assert_eq!(poll(&dead, &object).await.ready, [silent[0].ticket]);
    cancel(&dead, &silent[0]).await;
    assert_eq!(poll(&dead, &object).await.ready, [silent[1].ticket]);
    granted(&dead, &silent[1]).await;
    fixture.check(&object).await;
}

#[tokio::test]
async fn c25_a_queue_that_waiters_come_back_to_expires_as_before() {
    let (_server, fixture) = start(RedisOptions::default());
    let (silent, live) = (fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let holder = ask(&object);
    granted(&live, &holder).await;
    waits(&silent, &ask(&object)).await;
    heard(&[&live], &object, LIVENESS + Duration::from_millis(500)).await;
    release(&live, &holder).await;
    served(&live, &ask(&object)).await;
    // A new request of the process brings its waiters back.
    waits(&silent, &ask(&object)).await;
    fixture.check(&object).await;
    let mut raw = fixture.raw().await;
    for key in fixture.keys().await.into_iter().filter(|key| key.ends_with(":s") && !key.contains("d:")) {
        let left: i64 = raw.pttl(&key).await.unwrap();
        assert!(left > 0, "{key} stays for good");
    }
}

#[tokio::test]
async fn c27_a_foreign_value_in_place_of_silent_waiters_stops_nobody_else() {
    let (_server, fixture) = start(RedisOptions::default());
    let (silent, live) = (fixture.process().await, fixture.process().await);
    let (object, other) = (semaphore("s"), semaphore("other"));
    let holder = ask(&object);
    granted(&live, &holder).await;
    send(&silent, 3, || Acquire { lease: ttl(8_000), ..ask(&object) }).await;
    heard(&[&live], &object, LIVENESS + Duration::from_millis(500)).await;
    release(&live, &holder).await;
    let next = Acquire { lease: ttl(2_000), ..ask(&object) };
    served(&live, &next).await;
    let mut raw = fixture.raw().await;
    let aside = fixture.keys().await.into_iter().find(|key| key.contains("sd:")).unwrap();
    let _: () = raw.set(aside, "foreign").await.unwrap();
    // The process polls both names, and the name goes on once the hold has expired.
    all(silent.own.poll(&[object.clone(), other.clone()]).await);
    granted(&silent, &ask(&other)).await;
    sleep(Duration::from_millis(8_200)).await;
    granted(&live, &ask(&object)).await;
    release(&live, &next).await;
    all(silent.own.poll(&[object, other]).await);
}

#[tokio::test]
async fn c16_a_process_with_many_silent_waiters_comes_back_beside_others() {
    let (_server, fixture) = start(RedisOptions::default());
    let (silent, live) = (fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let holder = ask(&object);
    granted(&live, &holder).await;
    let waiters = send(&silent, 1_700, || ask(&object)).await;
    heard(&[&live], &object, LIVENESS + Duration::from_millis(500)).await;
    release(&live, &holder).await;
    let next = ask(&object);
    served(&live, &next).await;
    release(&live, &next).await;
    // A poll ends though others walk the queue again and again meanwhile.
    let walking = async {
        loop {
            let request = Acquire { queue: false, ..ask(&object) };
            if is_granted(&acquire(&live, &request).await) {
                release(&live, &request).await;
            }
        }
    };
    tokio::select! {
        polled = poll(&silent, &object) => assert_eq!(polled.ready, [waiters[0].ticket]),
        () = walking => {}
    }
    fixture.check(&object).await;
}

#[tokio::test]
async fn c27_silent_waiters_leave_when_they_cancel_or_their_leases_end() {
    let (_server, fixture) = start(RedisOptions::default());
    let (dead, live) = (fixture.process().await, fixture.process().await);
    let object = semaphore("s");
    let holder = ask(&object);
    granted(&live, &holder).await;
    let long = send(&dead, 700, || ask(&object)).await;
    let short = fixture.process().await;
    send(&short, 500, || Acquire { lease: ttl(4_000), ..ask(&object) }).await;
    release(&live, &holder).await;
    let next = ask(&object);
    served(&live, &next).await;
    cancel(&dead, &long[7]).await;
    fixture.check(&object).await;
    // The places of the others end with their leases.
    let waiters = async || live.callers.inspect(&object).await.unwrap().waiters;
    let watch = Stopwatch::start();
    while waiters().await != 699 {
        assert!(watch.elapsed() < Duration::from_millis(4_000) + GRACE + EPSILON, "{}", waiters().await);
        heard(&[&live], &object, Duration::from_millis(100)).await;
    }
    fixture.check(&object).await;
}

#[tokio::test]
async fn c27_a_call_removes_a_bounded_number_of_expired_members() {
    const MEMBERS: usize = 2_600;
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let object = wait_group("g");
    let added = send(&process, MEMBERS, || members(&object, 1)).await;
    shorten(&process, &added, ttl(1_500)).await;
    sleep(Duration::from_millis(1_600)).await;
    let before = calls(&fixture, "evalsha").await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.ended.unwrap().expired), (0, MEMBERS as u64));
    let took = calls(&fixture, "evalsha").await - before;
    // The first of them may have expired before the last was added.
    assert!((2..=MEMBERS.div_ceil(500) as u64).contains(&took), "{took} calls of 500 at most");
    fixture.check(&object).await;
}

#[tokio::test]
async fn c27_m8_all_holds_are_freed_in_parts() {
    const HOLDS: usize = 5_000;
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let object = semaphore("s");
    let holds = send(&process, HOLDS, || ask_many(&object, 1, 10_000)).await;
    let before = calls(&fixture, "evalsha").await;
    assert_eq!(process.callers.force(&object, Force::All).await.unwrap() as usize, HOLDS);
    assert!(calls(&fixture, "evalsha").await - before > 5, "in parts");
    fixture.check(&object).await;
    assert_eq!(renew(&process, &holds[0]).await, Kept::No);
    granted(&process, &ask_many(&object, 10_000, 10_000)).await;
    assert_eq!(process.callers.force(&object, Force::All).await.unwrap(), 1);
}

/// What a request costs is counted as processor time of the server, so that a busy machine does not
/// matter.
#[tokio::test]
async fn c23_c27_a_hundred_thousand_holds_are_told_in_bounded_requests() {
    const HOLDS: usize = 100_000;
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let hour = Ttl::new(Duration::from_secs(60 * 60)).unwrap();
    let object = semaphore("s");
    let holds = send(&process, HOLDS, || Acquire { lease: hour, ..ask_many(&object, 1, 200_000) }).await;
    let mut raw = fixture.raw().await;
    // The script is known from then on.
    process.callers.inspect(&semaphore("other")).await.unwrap();
    let (before, requests) = (processor_time(&mut raw).await, calls(&fixture, "evalsha").await);
    let inspection = process.callers.inspect(&object).await.unwrap();
    let used = processor_time(&mut raw).await - before;
    let requests = calls(&fixture, "evalsha").await - requests;
    let each = used / requests as f64;
    println!("{requests} requests of {each:.0} µs of the processor");
    let told: HashSet<_> = inspection.holders.iter().filter_map(|holder| holder.ticket).collect();
    assert_eq!((inspection.holders.len(), told.len()), (HOLDS, HOLDS));
    assert!(holds.iter().all(|hold| told.contains(&hold.ticket)));
    let tokens: Vec<_> = inspection.holders.iter().filter_map(|holder| holder.token).collect();
    assert!(tokens.iter().map(|token| token.get()).is_sorted(), "oldest grant first");
    assert!(each < 10_000.0, "{each} µs of the processor for a request");
    let before = [calls(&fixture, "evalsha").await, calls(&fixture, "hscan").await];
    assert_eq!(process.callers.usage(&object).await.unwrap().weight, HOLDS as u64);
    let after = [calls(&fixture, "evalsha").await, calls(&fixture, "hscan").await];
    assert_eq!(after, [before[0] + 1, before[1]], "the totals are read without the holds");
}
