//! The cost of waiting for the server, and forged hints.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time")]

use std::time::Duration;

use crate::common::*;
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::within;
use stanchion_core::Ticket;
use stanchion_core::spi::Kept;
use stanchion_testbed::servers::RedisOptions;
use tokio::time::Instant;

#[tokio::test]
async fn c14_forged_and_lost_hints_do_no_harm() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = mutex("m");
    let (held, waiter) = (ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    release(&process, &held).await;
    let mut raw = fixture.raw().await;
    let mailbox = fixture.keys().await.into_iter().find(|key| key.contains("box:")).expect("a mailbox");
    let forged = ["hello".to_owned(), Ticket::random().to_string()];
    let _: () = redis::cmd("DEL").arg(&mailbox).query_async(&mut raw).await.unwrap();
    let _: () = redis::cmd("RPUSH").arg(&mailbox).arg(&forged).query_async(&mut raw).await.unwrap();
    assert_eq!(process.wake.next().await.unwrap(), []);
    assert_eq!(process.wake.next().await.unwrap()[0].to_string(), forged[1]);
    // A foreign value under that key costs the hints only.
    let _: () = redis::cmd("SET").arg(&mailbox).arg("foreign").query_async(&mut raw).await.unwrap();
    assert_eq!(poll(&process, &object).await.ready, [waiter.ticket]);
    granted(&process, &waiter).await;
    waits(&process, &held).await;
    assert_eq!(release(&process, &waiter).await, Kept::Yes);
    granted(&process, &held).await;
}

#[tokio::test]
async fn c14_a_wake_call_dropped_half_way_does_not_keep_the_next_one() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let mut dropped = 0;
    while dropped < 3 {
        let asked = Instant::now();
        match timeout(Duration::from_millis(50), process.wake.next()).await {
            Err(_) => dropped += 1,
            // The call ends by itself while the machine stands still.
            Ok(answer) => assert!(asked.elapsed() >= Duration::from_secs(1), "{answer:?}"),
        }
    }
    let answer = within(Duration::from_secs(2), "an empty answer", process.wake.next()).await;
    assert_eq!(answer.unwrap(), []);
    let object = mutex("m");
    let (held, waiter) = (ask(&object), ask(&object));
    granted(&process, &held).await;
    waits(&process, &waiter).await;
    release(&process, &held).await;
    assert_eq!(process.hint().await, waiter.ticket);
}

#[tokio::test]
async fn c15_a_release_costs_the_same_whatever_the_number_of_waiters() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let mut costs = Vec::new();
    // The first release sends the text of the script.
    for count in [1, 4, 200] {
        let object = mutex(&format!("m{count}"));
        let held = ask(&object);
        granted(&process, &held).await;
        for _ in 0..count {
            waits(&process, &ask(&object)).await;
        }
        let before = fixture.calls().await;
        release(&process, &held).await;
        costs.push(fixture.calls().await - before);
    }
    assert_eq!(costs[1], costs[2], "commands inside one release");
}

#[tokio::test]
async fn c15_an_uncontended_lock_costs_four_commands_inside_and_its_release_two() {
    let (_server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let mut costs = Vec::new();
    for _ in 0..3 {
        let request = ask(&mutex("m"));
        let at = [fixture.calls().await, {
            granted(&process, &request).await;
            fixture.calls().await
        }];
        release(&process, &request).await;
        costs.push((at[1] - at[0], fixture.calls().await - at[1]));
    }
    // Each interval includes the call of the script, and the question for the counter.
    let question = 2;
    assert_eq!(costs[1], (4 + question, 2 + question));
    assert_eq!(costs[2], costs[1]);
}
