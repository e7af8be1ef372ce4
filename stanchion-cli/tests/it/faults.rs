//! Faults, under which no two commands of a name run at an instant.

use rustix::process::{Signal, kill_process};
use stanchion::Ttl;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_testbed::faults::{Direction, Proxy};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

use crate::common::{Fixture, Running, on_each_store, rounds};
use crate::ending::{TTL, stubborn, wait_for_all};

on_each_store!(
    a_killed_client_takes_its_command_along,
    a_stopped_client_has_its_command_ended,
    a_killed_supervisor_takes_the_command_along,
    a_cut_link_ends_the_command,
);

/// Starts a command that only `SIGKILL` ends.
fn start(fixture: &Fixture, url: &str) -> Running {
    let running = fixture.start_at(url, &["--ttl", "8s"], &stubborn(fixture));
    wait_for_all(fixture);
    running
}

/// Asserts that the command is gone before the deadline of a lease that nobody renews since the
/// watch was started.
fn is_gone_in_time(fixture: &Fixture, watch: &Stopwatch) {
    fixture.wait_until_gone();
    let (took, limit) = (watch.elapsed(), Ttl::new(TTL).unwrap().belief());
    assert!(took < limit, "{took:?} of {limit:?}");
}

/// The next one waits while the fault is there.
fn next_one_runs(fixture: &Fixture, mut next: Running) {
    assert_eq!(next.code(), 0, "{}", next.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
}

fn a_killed_client_takes_its_command_along(fixture: &Fixture) {
    let mut running = start(fixture, &fixture.url);
    let next = fixture.start(&[], &fixture.ledger.short_work());
    fixture.wait_for_waiters(1);
    let watch = Stopwatch::start();
    running.process.kill().unwrap();
    is_gone_in_time(fixture, &watch);
    next_one_runs(fixture, next);
}

/// It is stopped for three leases at least: until the next command has run and two more leases have
/// passed.
fn a_stopped_client_has_its_command_ended(fixture: &Fixture) {
    let mut running = start(fixture, &fixture.url);
    let next = fixture.start(&[], &fixture.ledger.short_work());
    fixture.wait_for_waiters(1);
    running.process.stop().unwrap();
    let watch = Stopwatch::start();
    is_gone_in_time(fixture, &watch);
    next_one_runs(fixture, next);
    let ended = stanchion_testbed::servers::wait_until(3 * TTL, || None::<()>);
    assert!(ended.is_none());
    running.process.resume().unwrap();
    assert_eq!(running.code(), 125, "{}", running.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
}

fn a_killed_supervisor_takes_the_command_along(fixture: &Fixture) {
    let mut running = start(fixture, &fixture.url);
    let next = fixture.start(&[], &fixture.ledger.short_work());
    fixture.wait_for_waiters(1);
    kill_process(running.supervisor(), Signal::KILL).unwrap();
    assert_eq!(running.code(), 125, "{}", running.errors());
    next_one_runs(fixture, next);
    assert_eq!(fixture.processes(), []);
}

fn a_cut_link_ends_the_command(fixture: &Fixture) {
    let proxy = Proxy::to(&fixture.url).unwrap();
    let mut running = start(fixture, &proxy.url(&fixture.url));
    let next = fixture.start(&[], &fixture.ledger.short_work());
    fixture.wait_for_waiters(1);
    proxy.black_hole(Direction::Both);
    let watch = Stopwatch::start();
    is_gone_in_time(fixture, &watch);
    assert_eq!(running.code(), 125, "{}", running.errors());
    next_one_runs(fixture, next);
}

/// A server that a test may kill.
enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer),
}

impl Server {
    fn fixture(&self) -> Fixture {
        match self {
            Self::Redis(server) => Fixture::at(&server.url()),
            Self::Postgres(server) => Fixture::at(&server.url()),
        }
    }

    fn kill(&self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
        }
        .unwrap();
    }

    fn restart(&self) {
        match self {
            Self::Redis(server) => server.restart(),
            Self::Postgres(server) => server.restart(),
        }
        .unwrap();
    }
}

fn a_killed_server_ends_the_command(server: &Server) {
    let fixture = server.fixture();
    let mut running = start(&fixture, &fixture.url);
    let next = fixture.start(&[], &fixture.ledger.short_work());
    fixture.wait_for_waiters(1);
    server.kill();
    let watch = Stopwatch::start();
    is_gone_in_time(&fixture, &watch);
    assert_eq!(running.code(), 125, "{}", running.errors());
    assert!(running.errors().contains("could not be renewed"), "{}", running.errors());
    server.restart();
    next_one_runs(&fixture, next);
}

/// The supervisor is stopped, and the server does not answer: the client does the supervisor's
/// work.
fn a_stopped_supervisor_is_replaced(server: &Server) {
    let fixture = server.fixture();
    let mut running = start(&fixture, &fixture.url);
    kill_process(running.supervisor(), Signal::STOP).unwrap();
    server.kill();
    let watch = Stopwatch::start();
    is_gone_in_time(&fixture, &watch);
    assert_eq!(running.code(), 125, "{}", running.errors());
    server.restart();
}

fn redis() -> Server {
    let options = RedisOptions::default().append_only(true).config("appendfsync always");
    Server::Redis(RedisServer::start(options).unwrap())
}

fn postgres() -> Server {
    Server::Postgres(PostgresServer::start(PostgresOptions::default()).unwrap())
}

#[test]
fn a_killed_redis_ends_the_command() {
    let server = redis();
    for _ in 0..rounds() {
        a_killed_server_ends_the_command(&server);
        a_stopped_supervisor_is_replaced(&server);
    }
}

#[test]
fn a_killed_postgres_ends_the_command() {
    let server = postgres();
    for _ in 0..rounds() {
        a_killed_server_ends_the_command(&server);
        a_stopped_supervisor_is_replaced(&server);
    }
}
