//! Addresses without a server, and attempts in their order.

#![allow(clippy::disallowed_methods, reason = "tests own their runtimes and sockets")]

use sqlx::postgres::{PgListener, PgSslMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::PostgresBuilder;
use crate::address::TargetSessionAttrs;

/// Makes a connector to local ports.
fn connector(ports: &[u16]) -> Connector {
    let options = PgConnectOptions::new().host("127.0.0.1").password("s3cret").ssl_mode(PgSslMode::Disable);
    let options = |port: &u16| options.clone().port(*port);
    let addresses = Addresses::new(ports.iter().map(options).collect()).unwrap();
    Connector::new(Origin::Own(Box::new(addresses), None))
}

async fn error(connector: &Connector, limit: Duration) -> Error {
    let connected =
        connector.connect_as::<PgConnection>(limit, ErrorKind::Unavailable, |options| options).await;
    connected.expect_err("no host fits")
}

/// Returns a port that refuses connections for as long as its socket, which does not listen, keeps
/// it from others.
fn closed_port() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

#[tokio::test]
async fn c21_the_error_names_each_address_with_its_cause_and_no_password() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ((_kept, closed), silent_port) = (closed_port(), silent.local_addr().unwrap().port());
    let connector = connector(&[closed, silent_port]);
    let error = error(&connector, Duration::from_millis(100)).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    for part in [
        format!("127.0.0.1:{closed}: the server could not be reached: connection refused"),
        format!("127.0.0.1:{silent_port}: no answer to a new connection in time"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    let shown = format!("{text} {error:?} {:?}", PostgresBuilder::new("postgres://u:s3cret@h1,h2/").unwrap());
    assert!(!shown.contains("s3cret") && shown.contains("h1:5432,h2:5432"), "{shown}");
}

#[tokio::test]
async fn c17_hosts_that_are_silent_take_the_time_of_one_each() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connector = connector(&[silent.local_addr().unwrap().port(); 3]);
    let started = stanchion_core::clock::now();
    let limit = Duration::from_millis(50);
    let none = connector.connect_as::<PgConnection>(limit, ErrorKind::Unavailable, |options| options).await;
    assert!(matches!(none, Ok(None)), "no host answered");
    let elapsed = started.elapsed();
    assert!(elapsed >= 3 * limit && elapsed < 3 * limit + stanchion_conformance::EPSILON, "{elapsed:?}");
}

#[tokio::test]
async fn c28_a_server_without_room_is_asked_once_by_each_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            client.read_u8().await.unwrap();
            let fields = b"SFATAL\0VFATAL\0C53300\0Mtoo many connections\0\0";
            client.write_u8(b'E').await.unwrap();
            client.write_u32(u32::try_from(fields.len() + 4).unwrap()).await.unwrap();
            client.write_all(fields).await.unwrap();
        }
    });
    let limit = Duration::from_secs(20);
    let refused = [
        connector(&[port]).connect::<PgConnection>(limit).await.map(drop),
        connector(&[port]).connect::<PgListener>(limit).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("no more connections"), "{error}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn causes_of_one_kind_keep_it() {
    let joined =
        |kinds: &[ErrorKind]| together(kinds.iter().map(|kind| Error::new(*kind, "")).collect()).kind();
    assert_eq!(joined(&[ErrorKind::UnsafeStore, ErrorKind::UnsafeStore]), ErrorKind::UnsafeStore);
    assert_eq!(joined(&[ErrorKind::UnsafeStore, ErrorKind::Unauthorized]), ErrorKind::Unavailable);
    assert_eq!(joined(&[ErrorKind::Unauthorized]), ErrorKind::Unauthorized);
}

#[test]
fn the_time_of_each_host_is_that_of_an_attempt() {
    let second = Duration::from_secs(1);
    let (one, two) = (connector(&[1]), connector(&[1, 2]));
    assert_eq!((one.timeout_of_each(second * 8), one.timeout_of_all(second * 8)), (second * 8, second * 8));
    assert_eq!((two.timeout_of_each(second * 8), two.timeout_of_all(second * 8)), (second * 2, second * 16));
    assert_eq!(two.timeout_of_each(second / 2), second / 2);
}

#[test]
fn c19_the_hosts_of_the_builder_are_checked() {
    let builder = || PostgresBuilder::from_options(PgConnectOptions::new().host("h").password("s3cret"));
    let several = builder().hosts([("h1", 5432), ("[::1]", 5433)]);
    assert!(several.check().is_ok());
    assert!(several.connector.must_take_writes());
    assert_eq!(several.connector.address(), "h1:5432,[::1]:5433");
    assert!(!format!("{several:?}").contains("s3cret"));
    let any = several.target_session_attrs(TargetSessionAttrs::Any);
    assert!(!any.connector.must_take_writes());
    let refused = |builder: PostgresBuilder| {
        builder.check().err().map(|error| error.kind()) == Some(ErrorKind::InvalidArgument)
    };
    assert!(refused(builder().hosts::<&str>([])) && refused(builder().hosts([("", 5432)])));
    assert!(refused(builder().hosts(vec![("h", 5432); 17])));
    assert!(!refused(builder().hosts::<&str>([]).hosts([("h", 5432)])), "the last call counts");
    let socket = PgConnectOptions::new().socket("/run/postgresql");
    assert!(refused(PostgresBuilder::from_options(socket).hosts([("h", 5432)])));
}
