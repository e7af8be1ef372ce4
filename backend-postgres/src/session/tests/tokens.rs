//! Fencing tokens over crashes of the server.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::Connection;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use super::{Process, connect, start};
use crate::session::lock_in;

/// No era: who opens a session does not raise the sequence.
const PLANTED: &str = "CREATE OR REPLACE FUNCTION stanchion.session_join(for_session boolean) RETURNS void
    LANGUAGE plpgsql AS $$ BEGIN END $$";

/// Draws tokens from several processes at once; two of them share a name.
async fn draw(server: &PostgresServer, count: usize) -> Vec<u64> {
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let process = Process::new(server, "m2");
            tokio::spawn(async move {
                let mut tokens = Vec::new();
                for index in 0..count {
                    let name = if index % 3 == 0 { "x".to_owned() } else { format!("own {task}") };
                    let guard = process.mutex(&name).lock().await.unwrap();
                    tokens.push(guard.fencing_token().get());
                    guard.release().await.unwrap();
                }
                tokens
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.extend(task.await.unwrap());
    }
    tokens
}

/// Crashes a server again and again after tokens that it has not written down; gives back the first that comes twice or
/// is not past those of the rounds before.
async fn crashes(server: &PostgresServer, rounds: usize) -> Option<u64> {
    let (mut last, mut seen) = (0, HashSet::new());
    for round in 0..rounds {
        let mut tokens = Vec::new();
        if round % 2 == 1 {
            // A transaction comes first.
            let process = Process::new(server, "m2");
            let mut connection = connect(server).await;
            let mut transaction = connection.begin().await.unwrap();
            tokens.push(lock_in(&process.context, &mut transaction, "x").await.unwrap().get());
            transaction.commit().await.unwrap();
        }
        tokens.extend(draw(server, 10).await);
        // The sequence is written down as it is now, ahead of the clock; what is drawn from here on is lost.
        sqlx::raw_sql("CHECKPOINT").execute(&mut connect(server).await).await.unwrap();
        tokens.extend(draw(server, 30).await);
        server.kill().unwrap();
        server.restart().unwrap();
        let wrong = tokens.iter().find(|token| **token <= last || !seen.insert(**token));
        if wrong.is_some() {
            return wrong.copied();
        }
        last = tokens.into_iter().max().unwrap();
    }
    None
}

fn forgetful() -> PostgresOptions {
    PostgresOptions::default().setting("wal_writer_delay", "10000").setting("checkpoint_timeout", "3600")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_tokens_grow_over_crashes_that_lose_what_was_not_written() {
    let server = start(forgetful()).await;
    assert_eq!(crashes(&server, 8).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_the_crashes_find_a_sequence_that_is_not_raised() {
    let server = start(forgetful()).await;
    sqlx::raw_sql(PLANTED).execute(&mut connect(&server).await).await.unwrap();
    assert!(crashes(&server, 8).await.is_some());
}

/// Tokens are drawn in an era only, so that nobody raises the sequence for a new one at the same time.
#[tokio::test]
async fn m2_whoever_draws_tokens_is_seen_by_those_who_come() {
    let server = start(PostgresOptions::default()).await;
    let eras = "SELECT count(DISTINCT pid) FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
        AND (classid::bigint << 32) | objid::bigint = stanchion.session_mark('era')";
    let eras =
        async || sqlx::query_scalar::<_, i64>(eras).fetch_one(&mut connect(&server).await).await.unwrap();
    assert_eq!(eras().await, 0);
    let mut connection = connect(&server).await;
    let process = Process::new(&server, "m2");
    let mut transaction = connection.begin().await.unwrap();
    lock_in(&process.context, &mut transaction, "x").await.unwrap();
    assert_eq!((eras().await, process.sessions(&server).await), (1, 0), "the transaction");
    transaction.commit().await.unwrap();
    assert_eq!(eras().await, 0);
    let guard = process.mutex("x").lock().await.unwrap();
    assert_eq!((eras().await, process.sessions(&server).await), (1, 1), "the session");
    drop(guard);
}

#[tokio::test]
async fn m3_tokens_pass_the_clock_also_after_the_data_was_lost() {
    let server = start(PostgresOptions::default()).await;
    let a = Process::new(&server, "m3");
    let before = a.mutex("x").lock().await.unwrap().fencing_token().get();
    a.engine.close().await.unwrap();
    drop(a);
    let mut connection = connect(&server).await;
    sqlx::raw_sql("DROP SCHEMA stanchion CASCADE").execute(&mut connection).await.unwrap();
    super::migrate(&server).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let after = Process::new(&server, "m3").mutex("x").lock().await.unwrap().fencing_token().get();
    assert!(after > before, "{after} {before}");
}
