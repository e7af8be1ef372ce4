//! TLS: a server that does not prove its identity is refused, and no connection falls back to plain
//! text.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]
#![cfg(feature = "tls")]

use crate::common::*;
use stanchion_conformance::steps::StepCalls;
use stanchion_core::ErrorKind;
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisCluster, RedisOptions, RedisSentinel, RedisServer};

fn start() -> RedisServer {
    RedisServer::start(RedisOptions::default().tls(true).password("s3cret")).unwrap()
}

async fn refused(url: &str) -> ErrorKind {
    let error = RedisStore::connect(url).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error.kind()
}

#[tokio::test]
async fn c22_a_server_that_proves_itself_is_used() {
    let server = start();
    let fixture = Fixture::on(&server.url());
    granted(&fixture.process().await, &ask(&mutex("m"))).await;
    let by_name = Fixture::on(&server.url().replace("127.0.0.1", "localhost"));
    granted(&by_name.process().await, &ask(&mutex("m"))).await;
}

#[tokio::test]
async fn c22_without_the_authority_the_server_is_refused() {
    let (server, other) = (start(), start());
    let url = server.url();
    let (bare, _) = url.split_once('?').unwrap();
    assert_eq!(refused(bare).await, ErrorKind::Unavailable);
    // Another authority does not help.
    let ca = other.ca().unwrap();
    assert_eq!(refused(&format!("{bare}?ca={}", ca.display())).await, ErrorKind::Unavailable);
    // The server received no command, so that no password was sent.
    let clients = server.command(&["INFO", "stats"]).unwrap();
    let commands = clients.lines().find(|line| line.starts_with("total_commands_processed:")).unwrap();
    let before: u64 = commands.split(':').nth(1).unwrap().parse().unwrap();
    assert_eq!(refused(bare).await, ErrorKind::Unavailable);
    let clients = server.command(&["INFO", "stats"]).unwrap();
    let commands = clients.lines().find(|line| line.starts_with("total_commands_processed:")).unwrap();
    let after: u64 = commands.split(':').nth(1).unwrap().parse().unwrap();
    // The difference is the two commands of the question before.
    assert!(after <= before + 2, "{before} and then {after}");
}

#[tokio::test]
async fn c22_a_certificate_for_another_host_is_refused() {
    let options = RedisOptions::default().tls(true).config("bind 127.0.0.1 127.0.0.2");
    let server = RedisServer::start(options).unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.2", server.port())).is_ok());
    // It listens there, but its certificate does not name the address.
    let url = server.url().replace("127.0.0.1", "127.0.0.2");
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c22_plain_and_tls_do_not_mix() {
    let (server, plain) = (start(), RedisServer::start(RedisOptions::default()).unwrap());
    let url = server.url();
    let (bare, parameters) = url.split_once('?').unwrap();
    assert_eq!(refused(&bare.replace("rediss:", "redis:")).await, ErrorKind::Unavailable);
    let url = format!("rediss://127.0.0.1:{}/?{parameters}", plain.port());
    assert_eq!(refused(&url).await, ErrorKind::Unavailable);
}

#[tokio::test]
async fn c22_a_cluster_and_sentinels_speak_it_too() {
    let options = || RedisOptions::default().tls(true).password("s3cret");
    let (cluster, sentinel) =
        (RedisCluster::start(options()).unwrap(), RedisSentinel::start(options()).unwrap());
    for (url, scheme) in [(cluster.url(), "rediss+cluster:"), (sentinel.url(), "rediss+sentinel:")] {
        assert!(url.starts_with(scheme), "{url}");
        let process = Fixture::on(&url).process().await;
        let requests: Vec<_> = (0..30).map(|index| ask(&mutex(&format!("m{index}")))).collect();
        all(process.callers.acquire(&requests).await);
        let waiter = ask(&mutex("m0"));
        waits(&process, &waiter).await;
        process.wake.watch(&mutex("m0"), true);
        release(&process, &requests[0]).await;
        assert_eq!(process.hint().await, waiter.ticket);
        let (bare, parameters) = url.split_once('?').unwrap();
        let without = parameters.split('&').filter(|parameter| !parameter.starts_with("ca="));
        let without: Vec<_> = without.collect();
        assert_eq!(refused(&format!("{bare}?{}", without.join("&"))).await, ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn c22_a_client_proves_itself_to_a_server_that_asks() {
    let options = RedisOptions::default().tls(true).config("tls-auth-clients yes");
    let server = RedisServer::start(options).unwrap();
    let url = server.url();
    assert_eq!(refused(&url).await, ErrorKind::Unavailable);
    // Any certificate of the authority will do.
    let [cert, key] = ["server.pem", "server.key"].map(|file| server.dir().join(file).display().to_string());
    let fixture = Fixture::on(&format!("{url}&cert={cert}&key={key}"));
    granted(&fixture.process().await, &ask(&mutex("m"))).await;
    let wrong = [
        format!("{url}&cert={cert}"),
        format!("{url}&cert={key}&key={key}"),
        format!("{url}&cert={cert}&key={cert}"),
        format!("{url}&cert=/nowhere&key={key}"),
    ];
    for url in wrong {
        assert_eq!(refused(&url).await, ErrorKind::InvalidArgument, "{url}");
    }
}

#[tokio::test]
async fn c22_a_certificate_may_have_the_name_that_it_is_said_to_have() {
    let options = RedisOptions::default().tls(true).config("bind 127.0.0.1 127.0.0.2");
    let server = RedisServer::start(options).unwrap();
    let url = server.url().replace("127.0.0.1", "127.0.0.2");
    assert_eq!(refused(&format!("{url}&server_name=elsewhere.example")).await, ErrorKind::Unavailable);
    let fixture = Fixture::on(&format!("{url}&server_name=localhost"));
    granted(&fixture.process().await, &ask(&mutex("m"))).await;
}
