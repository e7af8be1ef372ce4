//! The proxy in front of a Redis: it counts, loses the ordered requests and replies, and nothing
//! else.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime, and what fails in a helper fails its test"
)]

use std::time::Duration;

use crate::wire::*;
use stanchion_testbed::faults::{Action, Direction, Proxy, Scope, Then, When};
use stanchion_testbed::servers::{RedisOptions, RedisServer, wait_until};

const DELAY: Duration = Duration::from_millis(400);

struct Fixture {
    server: RedisServer,
    proxy: Proxy,
}

impl Fixture {
    fn new() -> Self {
        let server = RedisServer::start(RedisOptions::default()).unwrap();
        let proxy = Proxy::to(&server.url()).unwrap();
        assert_eq!(proxy.url(&server.url()), format!("redis://127.0.0.1:{}/", proxy.port()));
        Self { server, proxy }
    }

    fn client(&self) -> Client {
        Client::to(self.proxy.port())
    }

    /// Returns the server's value of `key`, asked without the proxy.
    fn value(&self, key: &str) -> String {
        self.server.command(&["GET", key]).unwrap()
    }
}

/// Measures the time of an action.
#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn timed(action: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    action();
    start.elapsed()
}

fn incr(times: usize) -> String {
    command(&["INCR", "n"]).repeat(times)
}

#[test]
fn pipelined_requests_are_counted_and_logged() {
    let fixture = Fixture::new();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.send(incr(3) + "PING\r\n" + &command(&["SET", "key", "value"]));
    first.expect(":1\r\n:2\r\n:3\r\n+PONG\r\n+OK\r\n");
    let mark = fixture.proxy.mark();
    // A command in several pieces is one request.
    let (head, tail) = ("*2\r\n$3\r\nGE", "T\r\n$3\r\nkey\r\n");
    second.send(head);
    second.expect_silence();
    assert_eq!(fixture.proxy.requests_since(mark), 0);
    second.send(tail);
    second.expect("$5\r\nvalue\r\n");
    let proxy = &fixture.proxy;
    assert_eq!((proxy.requests(), proxy.replies(), proxy.requests_since(mark)), (6, 6, 1));
    let counts: Vec<_> =
        fixture.proxy.connections().iter().map(|c| (c.connection, c.requests, c.replies)).collect();
    assert_eq!(counts, [(1, 5, 5), (2, 1, 1)]);
    let found = fixture.proxy.requests_matching(mark, |request| request.name == "GET");
    assert_eq!((found.len(), found[0].text.as_str(), found[0].number), (1, "GET key", 1));
    assert!(fixture.proxy.report().contains("request 5: SET key value"), "{}", fixture.proxy.report());
}

#[test]
fn the_kth_reply_is_dropped_among_pipelined_ones() {
    for then in [Then::Fin, Then::Reset, Then::Silence] {
        let fixture = Fixture::new();
        let rule = fixture.proxy.on(When::nth(3), Action::DropReply(then));
        let mut client = fixture.client();
        client.send(incr(5));
        client.expect(":1\r\n:2\r\n");
        match then {
            Then::Fin => client.expect_fin(),
            Then::Reset => client.expect_reset(),
            Then::Silence => client.expect_silence(),
        }
        assert_eq!(rule.fired(), 1, "{}", fixture.proxy.report());
        // The last two may end with the connection.
        let done = ["3", "4", "5"].map(bulk);
        assert!(done.contains(&fixture.value("n")), "the server has done what it did not answer");
        // The rule was for one request: a new connection works.
        let mut client = fixture.client();
        client.send(command(&["INCR", "m"]).repeat(5));
        client.expect(":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
        assert_eq!(rule.fired(), 1);
    }
}

#[test]
fn the_kth_request_is_dropped_and_never_reaches_the_server() {
    for then in [Then::Fin, Then::Reset, Then::Silence] {
        let fixture = Fixture::new();
        let rule = fixture.proxy.on(When::nth(2).named("incr"), Action::DropRequest(then));
        let mut client = fixture.client();
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
        client.send(incr(1));
        client.expect(":1\r\n");
        client.send(incr(2));
        match then {
            Then::Fin => client.expect_fin(),
            Then::Reset => client.expect_reset(),
            Then::Silence => client.expect_silence(),
        }
        assert_eq!((rule.fired(), fixture.value("n")), (1, bulk("1")), "{}", fixture.proxy.report());
    }
}

#[test]
fn frames_are_cut_in_the_middle() {
    let fixture = Fixture::new();
    let long = "x".repeat(100);
    fixture.server.command(&["SET", "long", &long]).unwrap();
    let reply = fixture.proxy.on(When::next().containing("long"), Action::CutReply(Then::Fin));
    let mut client = fixture.client();
    client.send(command(&["GET", "long"]));
    let whole = bulk(&long);
    assert_eq!(client.read_to_end(), whole[..whole.len() / 2]);
    let request = fixture.proxy.on(When::next().named("SET"), Action::CutRequest(Then::Reset));
    let mut client = fixture.client();
    client.send(command(&["SET", "long", "other"]));
    client.expect_reset();
    assert_eq!((reply.fired(), request.fired(), fixture.value("long")), (1, 1, whole));
}

#[test]
fn requests_and_replies_are_late() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for action in [Action::DelayRequest(DELAY), Action::DelayReply(DELAY)] {
        let rule = fixture.proxy.on(When::nth(2), action);
        client.send(command(&["ECHO", "a"]));
        client.expect("$1\r\na\r\n");
        let took = timed(|| {
            client.send(command(&["ECHO", "b"]) + &command(&["ECHO", "c"]));
            client.expect("$1\r\nb\r\n$1\r\nc\r\n");
        });
        assert!(took >= DELAY && took < DELAY * 10, "{took:?}");
        assert_eq!(rule.fired(), 1);
        rule.remove();
    }
    let lasting = fixture.proxy.on(When::from_nth(2), Action::DelayReply(DELAY));
    let took = timed(|| {
        for _ in 0..3 {
            client.send("PING\r\n");
            client.expect("+PONG\r\n");
        }
    });
    assert!(took >= DELAY * 2, "{took:?}");
    assert_eq!(lasting.fired(), 2);
    fixture.proxy.clear_rules();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    assert_eq!(lasting.fired(), 2);
}

#[test]
fn a_healed_black_hole_gives_back_what_it_held_in_order() {
    let fixture = Fixture::new();
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        fixture.server.command(&["SET", "n", "0"]).unwrap();
        let mut client = fixture.client();
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
        let mark = fixture.proxy.mark();
        fixture.proxy.black_hole(direction);
        let mut late = fixture.client();
        late.send(incr(1));
        client.send(incr(1));
        client.send(incr(2));
        client.expect_silence();
        late.expect_silence();
        let reached = if direction == Direction::ToClient { bulk("4") } else { bulk("0") };
        assert_eq!(fixture.value("n"), reached, "{direction:?}");
        assert!(fixture.proxy.requests_since(mark) >= 3, "it is counted before it passes");
        fixture.proxy.heal();
        let mut answers: Vec<_> = (0..3).map(|_| client.read(4).unwrap()).collect();
        assert!(answers.is_sorted(), "{answers:?}");
        answers.push(late.read(4).unwrap());
        answers.sort();
        assert_eq!(answers, [":1\r\n", ":2\r\n", ":3\r\n", ":4\r\n"]);
    }
}

#[test]
fn a_black_hole_can_end_in_a_reset() {
    let fixture = Fixture::new();
    let (mut held, mut free) = (fixture.client(), fixture.client());
    for client in [&mut held, &mut free] {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    }
    fixture.proxy.black_hole_for(Scope::One(1), Direction::ToServer);
    held.send(incr(1));
    held.expect_silence();
    free.send(incr(1));
    free.expect(":1\r\n");
    fixture.proxy.heal_by_reset();
    held.expect_reset();
    free.send(incr(1));
    free.expect(":2\r\n");
    assert_eq!(fixture.value("n"), bulk("2"));
}

#[test]
fn a_black_hole_can_be_for_new_connections_or_old_ones() {
    let fixture = Fixture::new();
    let mut old = fixture.client();
    old.send("PING\r\n");
    old.expect("+PONG\r\n");
    fixture.proxy.black_hole_for(Scope::New, Direction::Both);
    let mut new = fixture.client();
    new.send("PING\r\n");
    new.expect_silence();
    old.send("PING\r\n");
    old.expect("+PONG\r\n");
    fixture.proxy.heal();
    new.expect("+PONG\r\n");
    fixture.proxy.black_hole_for(Scope::Existing, Direction::ToClient);
    old.send("PING\r\n");
    old.expect_silence();
    let mut newest = fixture.client();
    newest.send("PING\r\n");
    newest.expect("+PONG\r\n");
}

#[test]
fn an_end_does_not_pass_a_black_hole() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send(command(&["CLIENT", "SETNAME", "seen"]));
    client.expect("+OK\r\n");
    fixture.proxy.black_hole(Direction::Both);
    assert_eq!(fixture.server.kill_clients_named("seen").unwrap(), 1);
    client.expect_silence();
    fixture.proxy.heal();
    client.expect_fin();
}

#[test]
fn connections_are_closed_reset_and_refused() {
    let fixture = Fixture::new();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    for client in [&mut first, &mut second] {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    }
    assert_eq!(fixture.proxy.close(), 2);
    first.expect_fin();
    second.expect_fin();
    assert!(fixture.proxy.connections().iter().all(|counts| !counts.open));
    let mut third = fixture.client();
    third.send("PING\r\n");
    third.expect("+PONG\r\n");
    fixture.proxy.refuse();
    let refused = Client::try_to(fixture.proxy.port()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    third.send("PING\r\n");
    third.expect("+PONG\r\n");
    assert_eq!(fixture.proxy.reset(), 1);
    third.expect_reset();
    fixture.proxy.heal();
    let mut fourth = fixture.client();
    fourth.send("PING\r\n");
    fourth.expect("+PONG\r\n");
}

#[test]
fn a_dead_server_resets_and_a_restarted_one_serves() {
    let fixture = Fixture::new();
    fixture.server.kill().unwrap();
    fixture.client().expect_reset();
    fixture.server.restart().unwrap();
    let mut client = fixture.client();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
}

#[test]
fn wake_ups_are_swallowed_and_nothing_else() {
    let fixture = Fixture::new();
    for (hello, nil) in [("", "*-1\r\n"), ("3", "_\r\n")] {
        let mut client = fixture.client();
        if !hello.is_empty() {
            client.send(command(&["HELLO", hello]));
            wait_until(LIMIT, || (fixture.proxy.connections().last()?.replies == 1).then_some(()));
            client.read_until_quiet();
        }
        let before = fixture.proxy.swallowed();
        let pop = |seconds| command(&["BLPOP", "box", seconds]);
        fixture.proxy.swallow_wake_ups();
        let took = timed(|| {
            client.send(pop("4"));
            fixture.server.command(&["RPUSH", "box", "hint"]).unwrap();
            client.expect(nil);
        });
        assert!(took >= Duration::from_millis(3_990), "it comes when the pop gives up: {took:?}");
        assert_eq!(fixture.proxy.swallowed() - before, 1);
        assert_eq!(fixture.server.command(&["LLEN", "box"]).unwrap(), ":0\r\n", "what was popped is gone");
        // All other requests on the same connection are answered, even a pop that finds nothing.
        client.send(incr(1) + &command(&["BLPOP", "box", "0.01"]) + "PING\r\n");
        assert!(client.read(4).unwrap().starts_with(':'));
        client.expect(nil);
        client.expect("+PONG\r\n");
        fixture.proxy.heal();
        client.send(pop("60"));
        fixture.server.command(&["RPUSH", "box", "hint"]).unwrap();
        client.expect(&format!("*2\r\n{}{}", bulk("box"), bulk("hint")));
    }
}

#[test]
fn messages_of_channels_are_unasked() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send(command(&["SUBSCRIBE", "a", "b"]));
    client.expect(&format!("*3\r\n{}{}:1\r\n", bulk("subscribe"), bulk("a")));
    client.expect(&format!("*3\r\n{}{}:2\r\n", bulk("subscribe"), bulk("b")));
    let message = format!("*3\r\n{}{}{}", bulk("message"), bulk("a"), bulk("hi"));
    fixture.server.command(&["PUBLISH", "a", "hi"]).unwrap();
    client.expect(&message);
    fixture.proxy.swallow_wake_ups();
    fixture.server.command(&["PUBLISH", "a", "hi"]).unwrap();
    client.expect_silence();
    let rule = fixture.proxy.on(When::next(), Action::DropReply(Then::Fin));
    client.send("PING\r\n");
    client.expect_fin();
    assert_eq!((rule.fired(), fixture.proxy.requests(), fixture.proxy.replies()), (1, 2, 2));
}

#[test]
fn transactions_have_a_reply_for_each_command() {
    let fixture = Fixture::new();
    let rule = fixture.proxy.on(When::next().named("EXEC"), Action::DropReply(Then::Reset));
    let mut client = fixture.client();
    fixture.proxy.swallow_wake_ups();
    client.send("MULTI\r\n".to_owned() + &incr(2) + &command(&["BLPOP", "box", "1"]) + "EXEC\r\n");
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    client.expect_reset();
    assert_eq!((rule.fired(), fixture.value("n")), (1, bulk("2")));
}

#[test]
fn passwords_are_not_logged() {
    let server = RedisServer::start(RedisOptions::default().password("secret")).unwrap();
    let proxy = Proxy::to(&server.url()).unwrap();
    let mut client = Client::to(proxy.port());
    client.send(
        command(&["AUTH", "secret"]) + &command(&["HELLO", "2", "AUTH", "default", "secret"]) + "PING\r\n",
    );
    client.expect("+OK\r\n");
    client.read_until_quiet();
    let report = proxy.report();
    assert_eq!(proxy.replies(), 3, "{report}");
    assert!(report.contains("HELLO 2") && !report.contains("secret"), "{report}");
}

#[tokio::test]
async fn tests_can_wait_for_requests_and_rules() {
    let fixture = Fixture::new();
    let mark = fixture.proxy.mark();
    let rule = fixture.proxy.on(When::nth(2), Action::DelayReply(Duration::ZERO));
    assert!(!fixture.proxy.wait_for_requests(mark, 1, Duration::from_millis(20)).await);
    let mut client = fixture.client();
    client.send("PING\r\nPING\r\n");
    assert!(fixture.proxy.wait_for_requests(mark, 2, LIMIT).await && rule.wait_fired(LIMIT).await);
}

#[test]
fn scripts_are_rewritten_on_their_way() {
    let fixture = Fixture::new();
    fixture.server.command(&["MSET", "a", "right", "b", "wrong"]).unwrap();
    let text = "return redis.call('GET', KEYS[1])";
    let loaded = fixture.server.command(&["SCRIPT", "LOAD", text]).unwrap();
    let hash = loaded.lines().nth(1).unwrap();
    let rewrite = fixture.proxy.rewrite("KEYS[1]", "'b'");
    let mut client = fixture.client();
    client.send(command(&["EVALSHA", hash, "1", "a"]));
    client.expect("-NOSCRIPT");
    let mut client = fixture.client();
    client.send(command(&["EVAL", text, "1", "a"]).repeat(2) + &command(&["GET", "a"]));
    client.expect(&(bulk("wrong").repeat(2) + &bulk("right")));
    assert_eq!(rewrite.fired(), 2, "{}", fixture.proxy.report());
    rewrite.remove();
    client.send(command(&["EVALSHA", hash, "1", "a"]));
    client.expect(&bulk("right"));
}
