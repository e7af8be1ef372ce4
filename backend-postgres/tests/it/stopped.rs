//! A client that is stopped half way through a request of several messages, behind a pooler.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{lease, server};
use stanchion_core::engine::steps::{Acquire, Acquired, LimitCheck, Object, PermitSteps};
use stanchion_core::{Kind, Name, Ticket, Ttl};
use stanchion_testbed::servers::PgBouncer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// A link that loses its client once that sends a commit, if it is told to.
struct Commits {
    port: u16,
    lose: watch::Sender<bool>,
    lost: Arc<Notify>,
}

impl Commits {
    async fn to(pooler: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (lose, losing) = watch::channel(false);
        let lost = Arc::new(Notify::new());
        let tell = Arc::clone(&lost);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) =
                    TcpStream::connect(("127.0.0.1", pooler)).await.unwrap().into_split();
                tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
                let (losing, tell) = (losing.clone(), Arc::clone(&tell));
                tokio::spawn(async move {
                    let mut bytes = vec![0; 16 * 1024];
                    while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                        let sent = &bytes[..length];
                        if *losing.borrow() && sent.windows(7).any(|word| word == b"COMMIT\0") {
                            tell.notify_one();
                            // As of a stopped process: silent, and open.
                            std::future::pending::<()>().await;
                        }
                        if to_server.write_all(sent).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, lose, lost }
    }
}

fn ask() -> Acquire {
    Acquire {
        object: Object { kind: Kind::Semaphore, name: Name::new("s").unwrap() },
        ticket: Ticket::random(),
        weight: 1,
        lease: Ttl::DEFAULT,
        limit: 5,
        check: LimitCheck::Follow,
        queue: false,
        max_waiters: None,
        label: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_client_that_is_stopped_before_its_commit_frees_the_rows_within_half_a_second() {
    let server = server();
    let pooler = PgBouncer::start(&server, 3, &[]).unwrap();
    let link = Commits::to(pooler.port()).await;
    let url = pooler.url().replace(&format!(":{}/", pooler.port()), &format!(":{}/", link.port));
    let stopped = lease(&url).steps().await.unwrap();
    let other = lease(&server.url()).steps().await.unwrap();
    assert!(!stopped.capabilities.wake_ups, "it goes through the pooler");
    link.lose.send_replace(true);
    let request = tokio::spawn(async move { stopped.callers.acquire(&[ask()]).await });
    timeout(Duration::from_secs(2), link.lost.notified()).await.expect("a commit");
    let start = Instant::now();
    let answer = other.callers.acquire(&[ask()]).await.remove(0);
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    assert!(start.elapsed() < Duration::from_millis(1_000), "it kept the row for {:?}", start.elapsed());
    let held = server.sql("SELECT count(*) FROM stanchion.holds").unwrap();
    assert_eq!(held.trim(), "1", "what was not committed is rolled back");
    request.abort();
}
