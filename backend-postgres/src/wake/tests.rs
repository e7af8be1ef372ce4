//! Hints through a real server.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time and own their runtimes")]

use stanchion_conformance::EPSILON;
use stanchion_conformance::support::{eventually, within};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use super::*;
use crate::session_settings::SessionSettings;

/// Timeout of a source whose requests end by it.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of all other sources, also on a machine that stands still for a while. A source whose
/// server is killed tries to connect for as long.
const LONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time until a source works again: two calls without hints.
const RECOVERY_TIMEOUT: Duration =
    HINT_TIMEOUT.saturating_add(TIMEOUT).saturating_mul(2).saturating_add(EPSILON);
const SECOND: Duration = Duration::from_secs(1);

fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).unwrap()
}

fn wake(server: &PostgresServer) -> PostgresWake {
    wake_within(server, LONG_TIMEOUT)
}

fn wake_within(server: &PostgresServer, request_timeout: Duration) -> PostgresWake {
    let connector = Connector::from(server.url().parse::<PgConnectOptions>().unwrap());
    let listener = Listener::new(Some(connector.with(SessionSettings::new(request_timeout))));
    PostgresWake::new(&listener, [ProcessId::random()], Arc::default())
}

fn notify(server: &PostgresServer, wake: &PostgresWake, payload: &str) {
    server.sql(&format!("SELECT pg_notify('{}', '{payload}')", wake.channels[0])).unwrap();
}

/// Returns the next hints. Connects again as often as necessary.
async fn hints(wake: &PostgresWake) -> Vec<Ticket> {
    for _ in 0..10 {
        match wake.next().await {
            Ok(hints) if hints.is_empty() => {}
            Ok(hints) => return hints,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
    panic!("no hints");
}

/// Waits until a call ends without an error. On a machine that stands still, a call can end by its
/// timeout.
async fn works(wake: &PostgresWake) {
    let is_silent = || async { wake.next().await.is_ok_and(|hints| hints.is_empty()) };
    eventually(RECOVERY_TIMEOUT, "it works", is_silent).await;
}

#[test]
fn c14_forged_hints_are_ignored() {
    let (one, other) = (Ticket::random(), Ticket::random());
    assert_eq!(tickets(&format!("{one},{other}")), [one, other]);
    assert_eq!(tickets(&format!(",x,{one},{}", "0".repeat(33))), [one]);
    assert_eq!(tickets(""), []);
}

#[tokio::test]
async fn c14_hints_come_and_silence_ends_within_a_second() {
    let server = server();
    let wake = wake(&server);
    assert_eq!(within(SECOND + EPSILON, "silence", wake.next()).await.unwrap(), []);
    let (one, other) = (Ticket::random(), Ticket::random());
    notify(&server, &wake, &format!("{one},{other}"));
    notify(&server, &wake, &other.to_string());
    // A hint that comes late is returned by a later call.
    let mut hinted = hints(&wake).await;
    while hinted.len() < 3 {
        hinted.extend(hints(&wake).await);
    }
    assert_eq!(hinted, [one, other, other]);
}

#[tokio::test]
async fn c14_a_connection_that_breaks_is_reported_and_made_anew() {
    let server = server();
    let wake = wake(&server);
    assert_eq!(wake.next().await.unwrap(), []);
    server
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stanchion'")
        .unwrap();
    assert_eq!(wake.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(wake.next().await.unwrap(), []);
    let ticket = Ticket::random();
    notify(&server, &wake, &ticket.to_string());
    assert_eq!(hints(&wake).await, [ticket]);
    server.kill().unwrap();
    for _ in 0..2 {
        assert_eq!(wake.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    server.restart().unwrap();
    works(&wake).await;
}

#[tokio::test]
async fn c17_a_silent_connection_is_given_up_in_a_bounded_time() {
    let server = server();
    let wake = wake_within(&server, TIMEOUT);
    works(&wake).await;
    server.pause().unwrap();
    for _ in 0..2 {
        let given_up = within(HINT_TIMEOUT + TIMEOUT + EPSILON, "it is given up", wake.next()).await;
        assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    server.resume().unwrap();
    works(&wake).await;
}

/// A namespace begins or ends while the server does not answer.
#[tokio::test]
async fn c17_a_connection_that_falls_silent_with_a_change_is_given_up_in_a_bounded_time() {
    let server = server();
    let wake = wake_within(&server, TIMEOUT);
    works(&wake).await;
    server.pause().unwrap();
    let other = PostgresWake::new(&wake.listener, [ProcessId::random()], Arc::default());
    let given_up = within(HINT_TIMEOUT + TIMEOUT + EPSILON, "it is given up", wake.next()).await;
    assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Unavailable);
    server.resume().unwrap();
    works(&wake).await;
    let ticket = Ticket::random();
    notify(&server, &other, &ticket.to_string());
    let (hinted, ()) = tokio::join!(hints(&other), works(&wake));
    assert_eq!(hinted, [ticket]);
}

/// Whoever waits first waits for all namespaces of the store; when it ends, the others go on with
/// its connection, and lose nothing.
#[tokio::test]
async fn c27_a_wait_that_is_dropped_leaves_the_connection_to_the_others() {
    let server = server();
    let first = wake(&server);
    let second = PostgresWake::new(&first.listener, [ProcessId::random()], Arc::default());
    works(&first).await;
    for _ in 0..5 {
        assert!(timeout(Duration::from_millis(50), first.next()).await.is_err(), "it waits");
        let ticket = Ticket::random();
        notify(&server, &second, &ticket.to_string());
        assert_eq!(within(SECOND + EPSILON, "a hint", second.next()).await.unwrap(), [ticket]);
    }
}

#[tokio::test]
async fn c4_a_dropped_call_leaves_a_working_source() {
    let server = server();
    let wake = wake(&server);
    for delay in 0..20 {
        drop(timeout(Duration::from_millis(delay), wake.next()).await);
    }
    assert_eq!(wake.next().await.unwrap(), []);
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion'";
    let one_is_left = || async { server.sql(count).unwrap().trim() == "1" };
    eventually(SECOND + EPSILON, "the others end", one_is_left).await;
}

#[test]
fn c12_it_may_be_dropped_where_there_is_no_runtime() {
    let server = server();
    for ended in [false, true] {
        let wake = wake(&server);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(wake.next()).unwrap();
        if ended {
            drop(runtime);
            drop(wake);
        } else {
            drop(wake);
            drop(runtime);
        }
    }
}
