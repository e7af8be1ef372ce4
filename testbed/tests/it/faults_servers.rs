//! Faults in servers and processes: closed connections, clocks that jump, workers that are killed
//! and stopped.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::wire::*;
use stanchion_testbed::faults::{Clock, Process};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer, wait_until};

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MICROS: i64 = 3_600_000_000;
/// Maximum time between two readings of clocks on a busy machine, in µs.
const SLACK: i64 = 5_000_000;

fn named(server: &RedisServer, name: &str) -> Client {
    let mut client = Client::to(server.port());
    client.send(command(&["CLIENT", "SETNAME", name]));
    client.expect("+OK\r\n");
    client
}

#[test]
fn redis_throws_its_clients_out() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let (mut first, mut second, mut third) =
        (named(&server, "worker"), named(&server, "worker"), named(&server, "worker2"));
    assert_eq!(server.kill_clients_named("worker").unwrap(), 2);
    first.expect_fin();
    second.expect_fin();
    third.send("PING\r\n");
    third.expect("+PONG\r\n");
    assert_eq!(server.kill_clients().unwrap(), 1);
    third.expect_fin();
    assert_eq!(server.kill_clients().unwrap(), 0);
}

#[test]
fn redis_pauses_its_clients() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let mut client = named(&server, "worker");
    server.pause_clients(STALL * 10).unwrap();
    client.send("PING\r\n");
    client.expect_silence();
    client.expect("+PONG\r\n");
}

#[test]
fn postgres_ends_its_sessions() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let [mut first, mut second, mut third] = ["a", "it's", "b"].map(|name| Session::to(server.port(), name));
    assert_eq!(server.terminate_sessions_named("it's").unwrap(), 1);
    assert!(second.0.read_to_end().contains("57P01"));
    // A session is listed for a moment after its end, also the one that has just ended this one.
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                  AND application_name NOT IN ('a', 'b')";
    assert_eq!(wait_until(LIMIT, || (first.ask(others).unwrap() == "0").then_some(())), Some(()));
    assert_eq!(server.terminate_sessions().unwrap(), 2);
    assert!(first.0.read_to_end().contains("57P01") && third.0.read_to_end().contains("57P01"));
    let none_left = || (server.terminate_sessions().unwrap() == 0).then_some(());
    assert_eq!(wait_until(LIMIT, none_left), Some(()));
}

/// Returns how many microseconds a server's clock is ahead of this machine's.
#[expect(clippy::disallowed_methods, reason = "the wall clock is what is compared")]
fn ahead(servers: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    servers - i64::try_from(now.as_micros()).unwrap()
}

/// Returns the same from the answer to `TIME`.
fn time_ahead(answer: &str) -> i64 {
    let numbers: Vec<i64> = answer.lines().filter_map(|line| line.parse().ok()).collect();
    ahead(numbers[0] * 1_000_000 + numbers[1])
}

fn redis_ahead(server: &RedisServer) -> i64 {
    time_ahead(&server.command(&["TIME"]).unwrap())
}

fn postgres_ahead(server: &PostgresServer) -> i64 {
    let micros = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    ahead(server.sql(micros).unwrap().parse().unwrap())
}

#[track_caller]
fn assert_near(ahead: i64, shift: i64) {
    assert!((ahead - shift).abs() < SLACK, "{ahead} µs instead of {shift} µs");
}

#[test]
fn the_clock_of_redis_jumps_forward_and_back() {
    let clock = Clock::new().unwrap();
    let server = RedisServer::start(RedisOptions::default().append_only(true).clock(&clock)).unwrap();
    assert_near(redis_ahead(&server), 0);
    assert_eq!(server.command(&["SET", "short", "v", "PX", "1800000"]).unwrap(), "+OK\r\n");
    assert_eq!(server.command(&["SET", "long", "v", "PX", "7200000"]).unwrap(), "+OK\r\n");
    clock.forward(HOUR).unwrap();
    assert_near(redis_ahead(&server), HOUR_MICROS);
    assert_eq!(server.command(&["GET", "short"]).unwrap(), "$-1\r\n", "its time has come");
    assert_eq!(server.command(&["GET", "long"]).unwrap(), "$1\r\nv\r\n");
    let answer = server.command(&["EVAL", "return redis.call('TIME')", "0"]).unwrap();
    assert_near(time_ahead(&answer), HOUR_MICROS);
    clock.back(HOUR * 2).unwrap();
    assert_eq!(clock.shift(), -HOUR_MICROS);
    assert_near(redis_ahead(&server), -HOUR_MICROS);
    // The server still works. A pop in progress would wait an hour longer; a new one does not.
    let mut client = Client::to(server.port());
    client.send(command(&["BLPOP", "box", "0.1"]));
    client.expect("*-1\r\n");
    server.restart().unwrap();
    assert_near(redis_ahead(&server), -HOUR_MICROS);
    assert_eq!(server.command(&["GET", "long"]).unwrap(), "$1\r\nv\r\n");
    clock.set(0).unwrap();
    assert_near(redis_ahead(&server), 0);
}

#[test]
fn the_clock_of_postgres_jumps_forward_and_back() {
    let clock = Clock::new().unwrap();
    let server = PostgresServer::start(PostgresOptions::default().clock(&clock)).unwrap();
    let mut session = Session::to(server.port(), "open");
    assert_near(postgres_ahead(&server), 0);
    clock.forward(HOUR).unwrap();
    assert_near(postgres_ahead(&server), HOUR_MICROS);
    let epoch = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";
    let seconds: i64 = session.ask(epoch).unwrap().parse().unwrap();
    assert_near(ahead(seconds * 1_000_000), HOUR_MICROS);
    clock.back(HOUR * 2).unwrap();
    assert_near(postgres_ahead(&server), -HOUR_MICROS);
    // The server still works: it writes, sleeps, and cancels statements that take too long.
    server.sql("CREATE TABLE t AS SELECT 1 AS value FROM pg_sleep(0.01); CHECKPOINT").unwrap();
    let error = server.sql("SET statement_timeout = 100; SELECT pg_sleep(60)").unwrap_err().to_string();
    assert!(error.contains("statement timeout"), "{error}");
    server.restart().unwrap();
    assert_near(postgres_ahead(&server), -HOUR_MICROS);
    assert_eq!(server.sql("SELECT count(*) FROM t").unwrap(), "1");
}

#[test]
fn the_machines_clock_and_other_servers_are_left_alone() {
    let clock = Clock::new().unwrap();
    clock.forward(HOUR).unwrap();
    let with = RedisServer::start(RedisOptions::default().clock(&clock)).unwrap();
    let without = RedisServer::start(RedisOptions::default()).unwrap();
    assert_near(redis_ahead(&with), HOUR_MICROS);
    assert_near(redis_ahead(&without), 0);
    let error = clock.forward(Duration::MAX).unwrap_err();
    assert_eq!((error.kind(), clock.shift()), (ErrorKind::InvalidInput, HOUR_MICROS));
}

/// Starts a worker that echoes its input.
fn cat() -> Process {
    Process::spawn(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
}

fn state(pid: u32) -> Option<char> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    state.trim_start().chars().next()
}

#[test]
fn a_process_is_stopped_and_goes_on() {
    let mut worker = cat();
    let mut to_worker = worker.take_stdin().unwrap();
    let mut from_worker = BufReader::new(worker.take_stdout().unwrap()).lines().map(Result::unwrap);
    writeln!(to_worker, "one").unwrap();
    assert_eq!(from_worker.next().as_deref(), Some("one"));
    worker.stop().unwrap();
    assert_eq!(state(worker.id()), Some('T'));
    writeln!(to_worker, "two").unwrap();
    assert!(worker.wait(STALL).unwrap().is_none() && worker.is_alive());
    worker.resume().unwrap();
    assert_eq!(from_worker.next().as_deref(), Some("two"));
    drop(to_worker);
    assert!(worker.wait(LIMIT).unwrap().unwrap().success());
    assert_eq!(worker.stop().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!worker.is_alive());
}

#[test]
fn a_process_is_killed_also_when_stopped_and_dropped() {
    let mut worker = cat();
    worker.stop().unwrap();
    assert_eq!(worker.kill().unwrap().signal(), Some(9));
    assert_eq!(state(worker.id()), None, "nobody is left to wait for");
    assert!(!worker.is_alive());
    let mut dropped = cat();
    dropped.stop().unwrap();
    let pid = dropped.id();
    drop(dropped);
    assert_eq!(wait_until(LIMIT, || state(pid).is_none().then_some(())), Some(()));
}
