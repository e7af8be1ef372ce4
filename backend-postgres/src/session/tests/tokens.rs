//! Fencing tokens over crashes of the server.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::Connection;
use stanchion_conformance::servers::PostgresOptions;

use super::{Process, connect, start};
use crate::session::lock_in;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_tokens_grow_over_crashes_that_lose_what_was_not_written() {
    // Nothing is written between a raise and the crash.
    let settings = PostgresOptions::default().setting("wal_writer_delay", "10000");
    let server = start(settings.setting("checkpoint_timeout", "3600")).await;
    let mut last = 0;
    let mut seen = HashSet::new();
    for round in 0..8 {
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let process = Process::new(&server, "m2");
                tokio::spawn(async move {
                    let mut tokens = Vec::new();
                    for index in 0..30 {
                        let mutex = process.mutex(
                            if index % 3 == 0 { "x".to_owned() } else { format!("own {task}") }.as_str(),
                        );
                        let guard = mutex.lock().await.unwrap();
                        tokens.push(guard.fencing_token().get());
                        guard.release().await.unwrap();
                    }
                    tokens
                })
            })
            .collect();
        let mut most = 0;
        for task in tasks {
            for token in task.await.unwrap() {
                assert!(token > last, "round {round}: {token} is not past {last}");
                assert!(seen.insert(token), "round {round}: {token} came twice");
                most = most.max(token);
            }
        }
        last = most;
        server.kill().unwrap();
        server.restart().unwrap();
        if round % 2 == 0 {
            // In some rounds a transaction comes first.
            let process = Process::new(&server, "m2");
            let mut connection = connect(&server).await;
            let mut transaction = connection.begin().await.unwrap();
            let token = lock_in(&process.context, &mut transaction, "x").await.unwrap().get();
            assert!(token > last && seen.insert(token), "{token} {last}");
            last = token;
            transaction.commit().await.unwrap();
        }
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
