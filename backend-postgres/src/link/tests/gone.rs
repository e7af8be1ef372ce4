//! What callers leave that went away: connections whose answer is still to come, and attempts to connect.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A third of a short lease.
const BRIEF: Duration = Duration::from_millis(50);
const LOGIN: Duration = Duration::from_millis(400);

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

    fn link(&self, server: &PostgresServer) -> Link {
        link(&server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", self.port)))
    }
}

async fn briefly(link: &Link) -> Result<i64> {
    let end = now() + BRIEF;
    Ok(link.rows_by(&statement(PID), PgArguments::default(), end).await?[0].get(0))
}

#[tokio::test]
async fn c18_a_login_that_takes_longer_than_a_request_is_made_for_the_next() {
    let server = server();
    let way = SlowLogin::to(server.port()).await;
    let link = way.link(&server);
    let start = Instant::now();
    while let Err(error) = briefly(&link).await {
        assert!(error.is_retryable(), "{error:?}");
        assert!(start.elapsed() < LOGIN * 2 + EPSILON, "no connection in {:?}", start.elapsed());
    }
    // One more where the first came so late in a request that no answer did.
    let logins = way.logins.load(SeqCst);
    assert!((1..=2).contains(&logins), "each request began another: {logins}");
}

#[tokio::test]
async fn c18_an_attempt_that_nobody_waits_for_leaves_an_idle_connection() {
    let server = server();
    let way = SlowLogin::to(server.port()).await;
    let link = way.link(&server);
    assert_eq!(briefly(&link).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let count =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion' AND state = 'idle'";
    let logged_in = async {
        while server.sql(count).unwrap().trim() != "1" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LOGIN + EPSILON * 2, logged_in).await.expect("it logs in by itself");
    number(&link, PID).await.unwrap();
    assert_eq!(way.logins.load(SeqCst), 1);
}

#[tokio::test]
async fn c15_attempts_that_nobody_waits_for_count_as_connections() {
    let server = server();
    let way = SlowLogin::to(server.port()).await;
    let link = way.link(&server);
    for _ in 0..4 {
        let both = tokio::join!(briefly(&link), briefly(&link));
        assert!(both.0.is_err() && both.1.is_err(), "{both:?}");
    }
    assert_eq!(way.logins.load(SeqCst), 2);
}

#[tokio::test]
async fn c18_why_an_attempt_failed_is_told_to_nobody_who_comes_later() {
    let server = server();
    let way = SlowLogin::to(server.port()).await;
    let link = way.link(&server);
    server.kill().unwrap();
    assert_eq!(briefly(&link).await.unwrap_err().kind(), ErrorKind::Unavailable);
    sleep(LOGIN * 2).await;
    server.restart().unwrap();
    assert!(number(&link, PID).await.is_ok(), "of another attempt");
}

#[tokio::test]
async fn c4_a_connection_whose_answer_is_to_come_is_used_last() {
    let server = server();
    let link = link(&server.url());
    let both = tokio::join!(run(&link, "SELECT pg_sleep(0.1)"), run(&link, "SELECT pg_sleep(0.1)"));
    assert!(both.0.is_ok() && both.1.is_ok());
    assert!(timeout(BRIEF, run(&link, "SELECT pg_sleep(0.4)")).await.is_err());
    let busy = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(0.4)' AND state = 'active'";
    let busy: i64 = server.sql(busy).unwrap().trim().parse().unwrap();
    let pids = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE application_name = 'stanchion'";
    let before = server.sql(pids).unwrap();
    for _ in 0..10 {
        let start = Instant::now();
        assert_ne!(number(&link, PID).await.unwrap(), busy);
        assert!(start.elapsed() < LIMIT / 4, "it waited for the answer to another's request");
    }
    assert_eq!(server.sql(pids).unwrap(), before, "connections were made anew");
}
