//! Logins that take longer than a request of a short lease may.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::harness::*;
use stanchion_core::engine::steps::{Acquire, Acquired, Cancel};
use stanchion_testbed::servers::RedisOptions;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

const LOGIN: Duration = Duration::from_millis(400);
const EPSILON: Duration = Duration::from_millis(500);

/// A way to a server by which a login takes its time, and nothing else.
struct SlowLogin {
    port: u16,
    logins: Arc<AtomicUsize>,
}

impl SlowLogin {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let logins = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&logins);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                count.fetch_add(1, SeqCst);
                tokio::spawn(async move {
                    sleep(LOGIN).await;
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
                    drop(copy_bidirectional(&mut client, &mut server).await);
                });
            }
        });
        Self { port, logins }
    }
}

#[tokio::test]
async fn c18_a_login_that_takes_longer_than_a_request_is_made_for_the_next() {
    let (server, _bed) = start(RedisOptions::default());
    let way = SlowLogin::to(server.port()).await;
    let process =
        Bed::on(&server.url().replace(&server.port().to_string(), &way.port.to_string())).process().await;
    let before = way.logins.load(SeqCst);
    // The engine's own link, which has not connected yet.
    let request = Acquire { lease: ttl(150), ..ask(&semaphore("s")) };
    let start = Instant::now();
    loop {
        match process.own.acquire(std::slice::from_ref(&request)).await.remove(0) {
            Ok(answer) => {
                assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
                break;
            }
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        assert!(start.elapsed() < LOGIN * 2 + EPSILON, "no connection in {:?}", start.elapsed());
    }
    // One more where the first came so late in a request that no answer did.
    let logins = way.logins.load(SeqCst) - before;
    assert!((1..=2).contains(&logins), "each request began another: {logins}");
}

#[tokio::test]
async fn c4_a_short_lease_cuts_no_others_cancel() {
    let (server, bed) = start(RedisOptions::default());
    let process = bed.process().await;
    let cancel = |name: &str, lease| {
        let request = ask(&semaphore(name));
        Cancel { object: request.object, ticket: request.ticket, lease }
    };
    let batch = [cancel("short", ttl(100)), cancel("long", ttl(3_000))];
    all(process.own.cancel(&batch).await);
    server.pause().unwrap();
    let resumed = async {
        sleep(Duration::from_millis(300)).await;
        server.resume().unwrap();
    };
    // In the time of a request, not of the shortest lease.
    all(tokio::join!(process.own.cancel(&batch), resumed).0);
}

#[tokio::test]
async fn c18_a_caller_that_does_not_poll_keeps_no_other_from_connecting() {
    let (server, _bed) = start(RedisOptions::default());
    let way = SlowLogin::to(server.port()).await;
    let process =
        Bed::on(&server.url().replace(&server.port().to_string(), &way.port.to_string())).process().await;
    let [first, second] = [ask(&semaphore("a")), ask(&semaphore("b"))];
    let mut parked = Box::pin(process.own.acquire(std::slice::from_ref(&first)));
    // It is polled while it connects, and then no more.
    assert!(tokio::time::timeout(LOGIN / 4, &mut parked).await.is_err());
    let start = Instant::now();
    let answer = process.own.acquire(std::slice::from_ref(&second)).await.remove(0);
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    assert!(start.elapsed() < LOGIN + EPSILON, "{:?}", start.elapsed());
    drop(parked);
}

#[test]
fn c18_runtimes_that_take_turns_leave_each_others_attempts_alone() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (here, there) = (runtime(), runtime());
    let (server, _bed) = start(RedisOptions::default());
    let way = here.block_on(SlowLogin::to(server.port()));
    let url = server.url().replace(&server.port().to_string(), &way.port.to_string());
    let process = here.block_on(async { Bed::on(&url).process().await });
    let request = Acquire { lease: ttl(150), ..ask(&semaphore("s")) };
    let granted = |runtime: &tokio::runtime::Runtime| {
        let answer = runtime.block_on(process.own.acquire(std::slice::from_ref(&request))).remove(0);
        matches!(answer, Ok(Acquired::Granted { .. }))
    };
    let start = std::time::Instant::now();
    let mut both = [false, false];
    while both != [true, true] {
        both = [both[0] || granted(&here), both[1] || granted(&there)];
        assert!(start.elapsed() < LOGIN * 2 + EPSILON, "{both:?}");
    }
}
