//! Fencing tokens over crashes of the server.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::Connection;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use super::{Process, connect, start};

/// A bare sequence.
const PLANTED: &str = "CREATE OR REPLACE FUNCTION stanchion.session_token() RETURNS bigint
    LANGUAGE sql AS $$ SELECT nextval('stanchion.session_tokens') $$";

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

/// Crashes a server again and again after tokens that it has not written down; gives back the first
/// that comes twice or is not past those of the rounds before.
async fn crashes(server: &PostgresServer, rounds: usize) -> Option<u64> {
    let (mut last, mut seen) = (0, HashSet::new());
    for round in 0..rounds {
        let mut tokens = Vec::new();
        if round % 2 == 1 {
            // A transaction comes first.
            let process = Process::new(server, "m2");
            let mut connection = connect(server).await;
            let mut transaction = connection.begin().await.unwrap();
            tokens.push(process.lock_in(&mut transaction, "x").await.unwrap().fencing_token().get());
            transaction.commit().await.unwrap();
        }
        tokens.extend(draw(server, 10).await);
        // The sequence is written down as it is now; what is drawn from here on is lost.
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

/// A statement may draw tokens for very many names: nobody waits for its end.
#[tokio::test]
async fn c27_tokens_are_drawn_while_a_statement_that_drew_goes_on() {
    let server = start(PostgresOptions::default()).await;
    let (mut long, mut short) = (connect(&server).await, connect(&server).await);
    let raised = "BEGIN; SELECT pg_sleep(0.01), stanchion.session_raise()";
    sqlx::raw_sql(raised).execute(&mut long).await.unwrap();
    let draw = "SET lock_timeout = '1s'; SELECT pg_sleep(0.01), stanchion.session_raise()";
    sqlx::raw_sql(draw).execute(&mut short).await.unwrap();
}

/// A resource that moves to another store, with tokens by the same clock, refuses no holder there.
#[tokio::test]
async fn m3_tokens_are_hardly_ahead_of_the_clock() {
    let server = start(PostgresOptions::default()).await;
    let process = Process::new(&server, "m3");
    let mut connection = connect(&server).await;
    for _ in 0..200 {
        let guard = process.mutex("x").lock().await.unwrap();
        let clock: i64 =
            sqlx::query_scalar("SELECT stanchion.now()").fetch_one(&mut connection).await.unwrap();
        let ahead = i128::from(guard.fencing_token().get()) - i128::from(clock);
        assert!(ahead <= 2_000, "{ahead} µs");
        guard.release().await.unwrap();
    }
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
