//! Memory depends on the length of the queue, not on the number of jobs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::fs;

use stanchion_pool::WorkerPool;

const PAGE: u64 = 4096;
const JOBS: u64 = 200_000;
/// Bytes that each job carries. All jobs at once would take 200 MB.
const LOAD: usize = 1_000;

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

async fn push(pool: &WorkerPool, jobs: u64) -> u64 {
    let before = pool.stats().done;
    for _ in 0..jobs {
        let load = vec![1_u8; LOAD];
        let job = async move {
            tokio::task::yield_now().await;
            load.len()
        };
        drop(pool.submit(job).await.unwrap());
    }
    while pool.stats().done < before + jobs {
        tokio::task::yield_now().await;
    }
    pool.stats().done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_the_number_of_jobs() {
    let pool = WorkerPool::builder().workers(4).queue(1_000).build().unwrap();
    push(&pool, JOBS / 10).await;
    let before = resident();
    assert_eq!(push(&pool, JOBS).await, JOBS / 10 + JOBS);
    let grown = resident().saturating_sub(before);
    // A hundredth of what all jobs would take.
    assert!(grown < 2 << 20, "{grown} bytes more after {JOBS} jobs");
}
