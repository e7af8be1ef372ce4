//! Slow logins, and servers that accept connections and stay silent, for both stores.

use std::time::Duration;

use crate::wire::*;
use stanchion_testbed::faults::{Direction, Proxy};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

const DELAY: Duration = Duration::from_millis(400);

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn timed(action: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    action();
    start.elapsed()
}

fn ping(client: &mut Client) {
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
}

#[test]
fn a_login_to_redis_is_slow_and_nothing_after_it() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let proxy = Proxy::to(&server.url()).unwrap();
    let mut early = Client::to(proxy.port());
    ping(&mut early);
    let rule = proxy.slow_logins(DELAY);
    let mut late = Client::to(proxy.port());
    let took = timed(|| {
        late.send("PING\r\nPING\r\n");
        late.expect("+PONG\r\n+PONG\r\n");
    });
    assert!(took >= DELAY, "{took:?}");
    for client in [&mut early, &mut late] {
        ping(client);
    }
    assert_eq!((rule.fired(), proxy.connections().len()), (1, 2), "{}", proxy.report());
    rule.remove();
    ping(&mut Client::to(proxy.port()));
    assert_eq!((rule.fired(), proxy.connections().len()), (1, 3), "{}", proxy.report());
}

#[test]
fn a_login_to_postgres_is_slow_and_nothing_after_it() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let proxy = Proxy::to(&server.url()).unwrap();
    let rule = proxy.slow_logins(DELAY);
    let login = || Session::to(proxy.port(), "test");
    let took = timed(|| drop(login()));
    assert!(took >= DELAY, "{took:?}");
    let mut session = login();
    for answer in ["1", "2", "3"] {
        assert_eq!(session.ask(&format!("SELECT {answer}")).unwrap(), answer);
    }
    assert_eq!((rule.fired(), proxy.connections().len()), (2, 2), "{}", proxy.report());
}

#[test]
fn a_black_hole_in_front_of_no_server_accepts_and_is_silent() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let proxy = Proxy::to(&server.url()).unwrap();
    server.kill().unwrap();
    proxy.black_hole(Direction::Both);
    let mut client = Client::to(proxy.port());
    client.send("PING\r\n");
    client.expect_silence();
    assert_eq!((proxy.connections().len(), proxy.close()), (1, 1));
    client.expect_fin();
}
