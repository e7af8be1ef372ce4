//! The leftovers of callers that went away: connections whose answer was not read yet, and attempts
//! to connect.

use stanchion_testbed::faults::{Direction, Proxy};

use super::*;

/// A third of a short lease.
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);

/// A pool through a proxy that lets no login pass.
pub(super) fn without_logins(server: &PostgresServer) -> (Proxy, Pool) {
    let proxy = Proxy::to(&server.url()).unwrap();
    proxy.black_hole(Direction::Both);
    let pool = pool_within(&proxy.url(&server.url()), LONG_TIMEOUT);
    (proxy, pool)
}

async fn briefly(pool: &Pool) -> Result<i64> {
    let end = now() + SHORT_TIMEOUT;
    Ok(pool.rows_by(&statement(PID), PgArguments::default(), end).await?[0].get(0))
}

#[tokio::test]
async fn c18_a_login_that_takes_longer_than_a_request_is_made_for_the_next() {
    let server = server();
    let (proxy, pool) = without_logins(&server);
    for _ in 0..5 {
        let refused = briefly(&pool).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    }
    proxy.heal();
    number(&pool, PID).await.unwrap();
    assert_eq!(proxy.connections().len(), 1, "each request began another attempt: {}", proxy.report());
}

#[tokio::test]
async fn c18_an_attempt_that_nobody_waits_for_leaves_an_idle_connection() {
    let server = server();
    let (proxy, pool) = without_logins(&server);
    assert_eq!(briefly(&pool).await.unwrap_err().kind(), ErrorKind::Unavailable);
    proxy.heal();
    let count =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stanchion' AND state = 'idle'";
    comes_true(RECOVERY_TIMEOUT, "it logs in by itself", || async {
        server.sql(count).unwrap().trim() == "1"
    })
    .await;
    number(&pool, PID).await.unwrap();
    assert_eq!(proxy.connections().len(), 1, "{}", proxy.report());
}

#[tokio::test]
async fn c15_attempts_that_nobody_waits_for_count_as_connections() {
    let server = server();
    let (proxy, pool) = without_logins(&server);
    for _ in 0..4 {
        let both = tokio::join!(briefly(&pool), briefly(&pool));
        assert!(both.0.is_err() && both.1.is_err(), "{both:?}");
    }
    // The kernel accepts connections for the proxy, which may notice them a moment later.
    comes_true(RECOVERY_TIMEOUT, "both are begun", || async { proxy.connections().len() >= 2 }).await;
    proxy.heal();
    let both = tokio::join!(number(&pool, PID), number(&pool, PID));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    assert_eq!(proxy.connections().len(), 2, "{}", proxy.report());
}

#[tokio::test]
async fn c18_why_an_attempt_failed_is_told_to_nobody_who_comes_later() {
    let server = server();
    let (proxy, pool) = without_logins(&server);
    assert_eq!(briefly(&pool).await.unwrap_err().kind(), ErrorKind::Unavailable);
    comes_true(RECOVERY_TIMEOUT, "it is begun", || async { proxy.connections().len() == 1 }).await;
    proxy.heal_by_reset();
    assert!(number(&pool, PID).await.is_ok(), "it is the answer of another attempt");
    assert_eq!(proxy.connections().len(), 2, "{}", proxy.report());
}

/// Another one is made instead: whoever asks for another name has little time.
#[tokio::test]
async fn c27_a_connection_whose_answer_is_to_come_is_not_waited_for() {
    let server = server();
    let pool = Pool::new(connector(&server.url(), Route::Direct, LONG_TIMEOUT), 1, LONG_TIMEOUT);
    let pid = number(&pool, PID).await.unwrap();
    let mut left = Box::pin(run(&pool, "SELECT pg_sleep(15)"));
    assert!(timeout(SHORT_TIMEOUT, &mut left).await.is_err());
    drop(left);
    let other = within(EPSILON * 2, "another connection", number(&pool, PID)).await.unwrap();
    assert_ne!(other, pid);
}

#[tokio::test]
async fn c4_a_connection_whose_answer_is_to_come_is_used_last() {
    let server = server();
    let pool = pool_within(&server.url(), LONG_TIMEOUT);
    let both = tokio::join!(run(&pool, "SELECT pg_sleep(0.1)"), run(&pool, "SELECT pg_sleep(0.1)"));
    assert!(both.0.is_ok() && both.1.is_ok());
    let busy =
        "SELECT pid::bigint FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(10)' AND state = 'active'";
    let pid = || server.sql(busy).unwrap().trim().to_owned();
    let mut left = Box::pin(run(&pool, "SELECT pg_sleep(10)"));
    tokio::select! {
        _ = &mut left => panic!("it takes its time"),
        () = comes_true(RECOVERY_TIMEOUT, "it is under way", || async { !pid().is_empty() }) => {}
    }
    drop(left);
    let busy: i64 = pid().parse().unwrap();
    let pids = "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity
        WHERE application_name = 'stanchion'";
    let before = server.sql(pids).unwrap();
    for _ in 0..10 {
        // A caller that waited for the answer to another caller's request would get that
        // connection, or a new one.
        assert_ne!(number(&pool, PID).await.unwrap(), busy);
    }
    assert_eq!(server.sql(pids).unwrap(), before, "connections were made anew");
}
