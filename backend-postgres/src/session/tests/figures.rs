//! Figures.

use std::time::Instant;

use super::{Process, connect, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures() {
    let server = server().await;
    let a = Process::new(server, "figures");
    let mut connection = connect(server).await;
    let bare = async |connection: &mut sqlx::PgConnection| {
        let started = Instant::now();
        for _ in 0..1000 {
            sqlx::query("SELECT pg_try_advisory_lock(1)").fetch_one(&mut *connection).await.unwrap();
            sqlx::query("SELECT pg_advisory_unlock(1)").fetch_one(&mut *connection).await.unwrap();
        }
        started.elapsed() / 1000
    };
    let mutex = a.mutex("x");
    for _ in 0..3 {
        println!("bare pair: {:?}", bare(&mut connection).await);
        let started = Instant::now();
        for _ in 0..1000 {
            mutex.lock().await.unwrap().release().await.unwrap();
        }
        println!("pair: {:?}", started.elapsed() / 1000);
        let started = Instant::now();
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let mutex = a.mutex(&format!("t{task}"));
                tokio::spawn(async move {
                    for _ in 0..500 {
                        mutex.lock().await.unwrap().release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        println!("pair, 16 tasks: {:?}", started.elapsed() / 8000);
    }
}
