//! Logins that take longer than a request with a short lease may.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{poll_once, within};
use stanchion_core::spi::{Acquire, Acquired, Cancel};
use stanchion_testbed::faults::Proxy;
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::time::sleep;

const LOGIN: Duration = Duration::from_millis(400);

/// Starts a proxy to a server that slows down logins and nothing else.
fn slow_proxy(server: &RedisServer) -> (Proxy, Fixture) {
    let proxy = Proxy::to(&server.url()).unwrap();
    proxy.slow_logins(LOGIN);
    let fixture = Fixture::on(&proxy.url(&server.url()));
    (proxy, fixture)
}

#[tokio::test]
async fn c18_a_login_that_takes_longer_than_a_request_is_made_for_the_next() {
    let (server, _fixture) = start(RedisOptions::default());
    let (proxy, fixture) = slow_proxy(&server);
    let process = fixture.process().await;
    let before = proxy.connections().len();
    // The link of the engine has not connected yet.
    let request = Acquire { lease: ttl(150), ..ask(&semaphore("s")) };
    let mut attempts = 0;
    let connecting = async {
        loop {
            attempts += 1;
            match process.own.acquire(std::slice::from_ref(&request)).await.remove(0) {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    };
    // There would never be an answer if each request that gives up ended its login. A login that
    // stands still for too long is made again, so the time is that of several.
    let answer = within(LOGIN * 20, "a connection", connecting).await;
    assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
    // A request takes an eighth of the time of a login, and a connection is dropped if its first
    // answer is late.
    let logins = proxy.connections().len() - before;
    assert!(logins * 2 <= attempts + 1, "{attempts} requests began {logins}: {}", proxy.report());
}

#[tokio::test]
async fn c4_a_short_lease_cuts_no_others_cancel() {
    let (server, fixture) = start(RedisOptions::default());
    let process = fixture.process().await;
    let cancel = |name: &str, lease| {
        let request = ask(&semaphore(name));
        Cancel { object: request.object, ticket: request.ticket, tombstone: Some(lease) }
    };
    let batch = [cancel("short", ttl(100)), cancel("long", ttl(3_000))];
    all(process.own.cancel(&batch).await);
    server.pause().unwrap();
    let resumed = async {
        sleep(Duration::from_millis(300)).await;
        server.resume().unwrap();
    };
    // The batch has the time of a request, not that of the shortest lease.
    all(tokio::join!(process.own.cancel(&batch), resumed).0);
}

#[tokio::test]
async fn c18_a_caller_that_does_not_poll_keeps_no_other_from_connecting() {
    let (server, _fixture) = start(RedisOptions::default());
    let (proxy, fixture) = slow_proxy(&server);
    let process = fixture.process().await;
    let [first, second] = [ask(&semaphore("a")), ask(&semaphore("b"))];
    let mut parked = Box::pin(process.own.acquire(std::slice::from_ref(&first)));
    // The future is polled until its login has begun, and then no more.
    let before = proxy.connections().len();
    let connecting = async {
        while proxy.connections().len() == before {
            assert!(poll_once(&mut parked).await.is_none(), "there is no connection yet");
            sleep(Duration::from_millis(1)).await;
        }
    };
    within(LOGIN * 20, "a connection", connecting).await;
    let watch = Stopwatch::start();
    let answer = process.own.acquire(std::slice::from_ref(&second)).await.remove(0);
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    assert!(watch.elapsed() < LOGIN + EPSILON, "{:?}", watch.elapsed());
    drop(parked);
}

#[test]
fn c18_runtimes_that_take_turns_leave_each_others_attempts_alone() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (here, there) = (runtime(), runtime());
    let (server, _fixture) = start(RedisOptions::default());
    let (_proxy, fixture) = slow_proxy(&server);
    let process = here.block_on(fixture.process());
    let request = Acquire { lease: ttl(150), ..ask(&semaphore("s")) };
    let granted = |runtime: &tokio::runtime::Runtime| {
        let answer = runtime.block_on(process.own.acquire(std::slice::from_ref(&request))).remove(0);
        matches!(answer, Ok(Acquired::Granted { .. }))
    };
    let watch = Stopwatch::start();
    let mut both = [false, false];
    while both != [true, true] {
        both = [both[0] || granted(&here), both[1] || granted(&there)];
        assert!(watch.elapsed() < LOGIN * 2 + EPSILON, "{both:?}");
    }
}
