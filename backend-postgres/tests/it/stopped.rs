//! A client that is stopped within a request of several messages, behind a pooler.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::{lease, server};
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::within;
use stanchion_core::spi::{Acquire, Acquired, Object, ParameterCheck, Purpose};
use stanchion_core::{ErrorKind, Kind, Name, Result, Ticket, Ttl};
use stanchion_testbed::faults::{Action, Proxy, Then, When};
use stanchion_testbed::servers::PgBouncer;

fn ask() -> Acquire {
    Acquire {
        object: Object { kind: Kind::Semaphore, name: Name::new("s").unwrap() },
        ticket: Ticket::random(),
        weight: 1,
        lease: Ttl::DEFAULT,
        limit: 5,
        check: ParameterCheck::Follow,
        queue: false,
        max_waiters: None,
        label: None,
        purpose: Purpose::Guard,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_client_that_is_stopped_before_its_commit_frees_the_rows_within_a_second() {
    let server = server();
    let pooler = PgBouncer::start(&server, 3, &[]).unwrap();
    let proxy = Proxy::to(&pooler.url()).unwrap();
    // The server waits for a quarter of it for the next message.
    let request_timeout = Duration::from_secs(3);
    let stopped = lease(&proxy.url(&pooler.url())).request_timeout(request_timeout).steps().await.unwrap();
    let other = lease(&server.url()).steps().await.unwrap();
    assert!(!stopped.capabilities.wake_ups, "it goes through the pooler");
    // The connection of a stopped process: silent and open.
    let lost = proxy.on(When::next().named("COMMIT"), Action::DropRequest(Then::Silence));
    // If the machine stands still before the commit, the server ends that transaction, too: it is
    // begun again.
    let is_ended =
        |answer: Result<Acquired>| answer.is_err_and(|error| error.kind() == ErrorKind::Unavailable);
    let commit = lost.clone();
    let request = tokio::spawn(async move {
        while is_ended(stopped.callers.acquire(&[ask()]).await.remove(0)) && commit.fired() == 0 {}
    });
    assert!(lost.wait_fired(Duration::from_secs(20)).await, "no commit: {}", proxy.report());
    let asked = [ask()];
    let second = Duration::from_secs(1) + EPSILON;
    let answer = within(second, "the row is free", other.callers.acquire(&asked)).await.remove(0);
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    let held = server.sql("SELECT count(*) FROM stanchion.holds").unwrap();
    assert_eq!(held.trim(), "1", "what was not committed is rolled back");
    request.abort();
}
