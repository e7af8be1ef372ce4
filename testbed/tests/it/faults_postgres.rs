//! The proxy in front of a Postgres: it groups messages into requests, loses the ordered ones, and
//! nothing else.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wire::*;
use stanchion_testbed::faults::{Action, Direction, Mark, Proxy, Request, Then, When};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, wait_until};

const DELAY: Duration = Duration::from_millis(400);

/// One server for all tests: starting it takes most of a test's time.
static SERVER: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(PostgresOptions::default()).unwrap());
static FIXTURES: AtomicU32 = AtomicU32::new(0);

struct Fixture {
    server: &'static PostgresServer,
    proxy: Proxy,
    start: Mark,
    /// The statement that increments the table's value.
    count: String,
    table: String,
}

impl Fixture {
    fn new() -> Self {
        let table = format!("n{}", FIXTURES.fetch_add(1, Ordering::Relaxed));
        SERVER.sql(&format!("CREATE TABLE {table} AS SELECT 0 AS value")).unwrap();
        let count = format!("UPDATE {table} SET value = value + 1 RETURNING value");
        let proxy = Proxy::to(&SERVER.url()).unwrap();
        Self { server: &SERVER, start: proxy.mark(), proxy, count, table }
    }

    fn session(&self) -> Session {
        Session::to(self.proxy.port(), "test")
    }

    /// Returns the server's count, asked without the proxy.
    fn value(&self) -> String {
        self.server.sql(&format!("SELECT value FROM {}", self.table)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let all = self.proxy.requests_matching(self.start, |_| true);
        all.into_iter().map(|request: Request| request.name).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn timed(action: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    action();
    start.elapsed()
}

#[test]
fn messages_are_grouped_into_requests() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    assert_eq!(session.ask(&fixture.count).unwrap(), "1");
    // Pipelined: with the statement's text, by its name, and by the simple protocol.
    session.send_extended(Some(&fixture.count));
    session.send_extended(None);
    session.send("SELECT 7");
    assert_eq!([(); 3].map(|()| session.value().unwrap()), ["2", "3", "7"]);
    session.send("SELECT 1; SELECT 2");
    assert_eq!(session.value().unwrap(), "2");
    session.send("SELECT nonsense");
    assert_eq!(session.until_ready().unwrap(), "EZ");
    assert_eq!(fixture.names(), ["STARTUP", "UPDATE", "UPDATE", "UPDATE", "SELECT", "SELECT", "SELECT"]);
    assert_eq!((fixture.proxy.requests(), fixture.proxy.replies()), (7, 7));
    let prepared =
        fixture.proxy.requests_matching(fixture.start, |request| request.text.starts_with("UPDATE"));
    assert_eq!(prepared.len(), 3, "{}", fixture.proxy.report());
}

#[test]
fn a_flushed_request_is_one() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    session.0.send([message(b'P', b"s\0SELECT 5\0\0\0"), message(b'H', b"")].concat());
    assert_eq!(session.message().unwrap().0, '1');
    session.send_extended(None);
    assert_eq!(session.value().unwrap(), "5");
    session.send("SELECT 6");
    assert_eq!(session.value().unwrap(), "6");
    assert_eq!(fixture.names(), ["STARTUP", "SELECT", "SELECT"]);
    assert_eq!(fixture.proxy.replies(), 3);
}

#[test]
fn real_clients_log_in_and_copy() {
    let fixture = Fixture::new();
    let psql = |url: &str, sql: &str| {
        let mut psql = Command::new(fixture.server.programs().join("psql"));
        let output =
            psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "-c", sql, url]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let url = fixture.proxy.url(&fixture.server.url());
    assert_eq!(psql(&url, "SELECT 1"), "1");
    assert_eq!(fixture.names(), ["SSLREQUEST", "STARTUP", "SELECT"]);
    assert_eq!(psql(&url, "COPY (SELECT generate_series(1, 3)) TO STDOUT"), "1\n2\n3");
    assert_eq!((fixture.proxy.requests(), fixture.proxy.replies()), (6, 6), "{}", fixture.proxy.report());
}

#[test]
fn passwords_and_encryption_pass() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true).tls(true)).unwrap();
    let user = server.role("ann", "pw", "").unwrap().replace("verify-full", "verify-ca");
    let proxy = Proxy::to(&user).unwrap();
    let mut psql = Command::new(server.programs().join("psql"));
    let output =
        psql.args(["--no-psqlrc", "-tAc", "SELECT current_user", &proxy.url(&user)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ann\n", "{output:?}");
    assert_eq!(proxy.requests(), 1, "{}", proxy.report());
}

#[test]
fn logins_can_be_cut_and_lost() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let user = server.role("ann", "pw", "").unwrap();
    let proxy = Proxy::to(&user).unwrap();
    let login = || {
        let mut psql = Command::new(server.programs().join("psql"));
        psql.args(["--no-psqlrc", "-tAc", "SELECT current_user", &proxy.url(&user)]).output().unwrap()
    };
    for action in [Action::CutReply(Then::Fin), Action::DropReply(Then::Reset)] {
        let rule = proxy.on(When::next().named("STARTUP"), action);
        assert!(!login().status.success());
        assert_eq!(rule.fired(), 1);
    }
    assert_eq!(String::from_utf8_lossy(&login().stdout), "ann\n");
}

#[test]
fn the_kth_reply_is_dropped_after_its_commit() {
    for then in [Then::Fin, Then::Reset, Then::Silence] {
        let fixture = Fixture::new();
        let mut session = fixture.session();
        let rule = fixture.proxy.on(When::nth(2).named("UPDATE"), Action::DropReply(then));
        session.send_extended(Some(&fixture.count));
        session.send_extended(None);
        session.send(&fixture.count);
        assert_eq!(session.value().unwrap(), "1");
        match then {
            Then::Fin => session.0.expect_fin(),
            Then::Reset => session.0.expect_reset(),
            Then::Silence => session.0.expect_silence(),
        }
        assert_eq!(rule.fired(), 1, "{}", fixture.proxy.report());
        assert!(["2", "3"].contains(&fixture.value().as_str()), "it was committed");
        assert_eq!(fixture.session().ask("SELECT 1").unwrap(), "1");
    }
}

#[test]
fn the_kth_request_is_dropped_and_never_reaches_the_server() {
    for then in [Then::Fin, Then::Reset, Then::Silence] {
        let fixture = Fixture::new();
        let mut session = fixture.session();
        let rule = fixture.proxy.on(When::nth(2).containing("RETURNING"), Action::DropRequest(then));
        session.send_extended(Some(&fixture.count));
        assert_eq!(session.value().unwrap(), "1");
        session.send_extended(None);
        match then {
            Then::Fin => session.0.expect_fin(),
            Then::Reset => session.0.expect_reset(),
            Then::Silence => session.0.expect_silence(),
        }
        assert_eq!((rule.fired(), fixture.value().as_str()), (1, "1"), "{}", fixture.proxy.report());
    }
}

#[test]
fn frames_are_cut_in_the_middle() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    let reply = fixture.proxy.on(When::next(), Action::CutReply(Then::Fin));
    session.send("SELECT repeat('x', 100)");
    let rest = session.0.read_to_end();
    assert!(rest.starts_with('T') && !rest.contains('Z') && rest.len() > 20, "{rest:?}");
    let mut session = fixture.session();
    let request = fixture.proxy.on(When::next(), Action::CutRequest(Then::Reset));
    session.send(&fixture.count);
    session.0.expect_reset();
    assert_eq!((reply.fired(), request.fired(), fixture.value().as_str()), (1, 1, "0"));
}

#[test]
fn requests_and_replies_are_late() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    for action in [Action::DelayRequest(DELAY), Action::DelayReply(DELAY)] {
        let rule = fixture.proxy.on(When::nth(2), action);
        let took = timed(|| {
            for _ in 0..3 {
                assert_eq!(session.ask("SELECT 1").unwrap(), "1");
            }
        });
        assert!(took >= DELAY && took < DELAY * 10, "{took:?}");
        assert_eq!(rule.fired(), 1);
    }
}

#[test]
fn a_healed_black_hole_gives_back_what_it_held_in_order() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    for (direction, reached) in
        [(Direction::ToServer, "0"), (Direction::ToClient, "5"), (Direction::Both, "5")]
    {
        fixture.proxy.black_hole(direction);
        session.send_extended(Some(&fixture.count));
        session.send(&fixture.count);
        session.0.expect_silence();
        let has_reached = wait_until(LIMIT, || (fixture.value() == reached).then_some(()));
        assert_eq!(has_reached, Some(()), "{direction:?}: {} and not {reached}", fixture.value());
        fixture.proxy.heal();
        let got = [(); 2].map(|()| session.value().unwrap().parse::<u32>().unwrap());
        assert_eq!(got[0] + 1, got[1]);
        if direction == Direction::ToServer {
            assert_eq!(session.ask(&fixture.count).unwrap(), "3");
        }
        session.send("DEALLOCATE ALL");
        session.until_ready().unwrap();
    }
}

#[test]
fn notifications_are_swallowed_and_nothing_else() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    session.ask("LISTEN box").unwrap();
    let notify = || fixture.server.sql("NOTIFY box, 'hint'").unwrap();
    notify();
    let (kind, body) = session.message().unwrap();
    assert_eq!((kind, body.contains("hint")), ('A', true));
    fixture.proxy.swallow_wake_ups();
    notify();
    session.0.expect_silence();
    assert_eq!(session.ask("SELECT 1").unwrap(), "1");
    // A notification by the session itself, in the middle of a reply.
    session.send("NOTIFY box, 'own'");
    assert_eq!(session.until_ready().unwrap(), "CZ");
    session.send("DO $$ BEGIN RAISE NOTICE 'heard'; END $$");
    assert_eq!(session.until_ready().unwrap(), "NCZ");
    assert_eq!(fixture.proxy.swallowed(), 2);
    fixture.proxy.heal();
    notify();
    assert_eq!(session.message().unwrap().0, 'A');
    let replies = fixture.proxy.replies();
    assert_eq!(replies, fixture.proxy.requests(), "what comes unasked is no reply");
}

#[test]
fn sessions_are_closed_and_refused() {
    let fixture = Fixture::new();
    let mut session = fixture.session();
    assert_eq!(fixture.proxy.reset(), 1);
    session.0.expect_reset();
    fixture.proxy.refuse();
    assert!(Client::try_to(fixture.proxy.port()).is_err());
    fixture.proxy.heal();
    let mut session = fixture.session();
    assert_eq!(fixture.proxy.close(), 1);
    session.0.expect_fin();
}
