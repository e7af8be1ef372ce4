//! Answers that are late, over connections that live and over dead ones.

use stanchion_core::connect::LATE_ANSWER;
use stanchion_testbed::faults::{Direction, Proxy, Scope};

use super::*;

/// Returns a pool with one connection, and the process of its session.
async fn through_proxy(server: &PostgresServer) -> (Proxy, Pool, i64) {
    let proxy = Proxy::to(&server.url()).unwrap();
    let pool = pool(&proxy.url(&server.url()));
    let pid = number(&pool, PID).await.unwrap();
    (proxy, pool, pid)
}

/// It waits for a lock, or takes its time.
#[tokio::test]
async fn c28_a_statement_that_takes_long_is_waited_for() {
    let server = server();
    let (proxy, pool, pid) = through_proxy(&server).await;
    let slow = "SELECT pg_backend_pid()::bigint FROM pg_sleep(2.3)";
    assert_eq!(number(&pool, slow).await.unwrap(), pid);
    assert_eq!(proxy.connections().len(), 2, "the server was asked over one other connection");
}

#[tokio::test]
async fn c28_a_request_over_a_dead_connection_ends_once_the_server_knows_nothing_of_it() {
    let server = server();
    let (proxy, pool, pid) = through_proxy(&server).await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.black_hole_for(Scope::Existing, direction);
        let asked = tokio::time::Instant::now();
        assert_eq!(kind(&pool, PID).await, ErrorKind::Unknown);
        let took = asked.elapsed();
        assert!(took >= LATE_ANSWER && took < LONG_TIMEOUT / 4, "{took:?}");
        assert_ne!(number(&pool, PID).await.unwrap(), pid);
    }
}
