//! The connections of others, where the server lets no more in.

use super::gone::without_logins;
use super::*;

#[tokio::test]
async fn c28_a_runtime_that_ended_keeps_no_place_at_the_server() {
    let server = server();
    let url = server.role("role", "pw", "ALTER ROLE role CONNECTION LIMIT 1").unwrap();
    let callers = Arc::new(pool(&url));
    let engine = pool(&url).beside(&callers, Sort::Engine);
    number(&engine, PID).await.unwrap();
    let elsewhere = Arc::clone(&callers);
    let elsewhere = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(number(&elsewhere, PID)).unwrap();
    };
    tokio::task::spawn_blocking(elsewhere).await.unwrap();
    number(&engine, PID).await.unwrap();
}

#[tokio::test]
async fn c28_a_connection_that_nobody_uses_is_closed() {
    let server = server();
    let callers = pool(&server.url());
    let engine = pool(&server.url()).beside(&callers, Sort::Engine);
    for _ in 0..2 {
        number(&callers, PID).await.unwrap();
        number(&engine, PID).await.unwrap();
        engine.close_idle(Duration::from_secs(60));
        assert_eq!((callers.open_connections(), engine.open_connections()), (1, 1));
        engine.close_idle(Duration::ZERO);
        assert_eq!((callers.open_connections(), engine.open_connections()), (0, 0));
    }
}

#[tokio::test]
async fn c28_while_logins_take_long_requests_use_the_connections_of_others() {
    let server = server();
    let (_silent, callers) = without_logins(&server);
    let engine = pool(&server.url()).beside(&callers, Sort::Engine);
    let pid = number(&engine, PID).await.unwrap();
    assert_eq!(number(&callers, PID).await.unwrap(), pid);
}
