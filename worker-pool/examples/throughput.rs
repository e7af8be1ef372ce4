//! Runs a million small jobs through a queue of a thousand places. Compares their cost with spawned
//! tasks behind a semaphore of the same width, and prints the memory before and after. Then runs a
//! million jobs of which every tenth panics, and counts the others.
//!
//! ```text
//! cargo run --release -p stanchion-pool --example throughput
//! ```
//!
//! Both sides alternate in short slices, so that they see the same load on the machine. One
//! submitter feeds both, each side waits for room before it makes a task, and both run the same
//! job.
#![expect(clippy::disallowed_methods, reason = "a program reads the clock and spawns; the library does not")]

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion_pool::{JobError, WorkerPool};
use tokio::sync::Semaphore;

const JOBS: u32 = 1_000_000;
const QUEUE: usize = 1_000;
const SLICES: u32 = 20;
const PAGE: u64 = 4096;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Does a little work and yields once, as a job that waits for a server does.
async fn job(number: u64) -> u64 {
    tokio::task::yield_now().await;
    (0..64).fold(number, |sum, step| black_box(sum.wrapping_mul(31).wrapping_add(step)))
}

async fn through_pool(pool: &WorkerPool, jobs: u32) -> Result<Duration> {
    let start = Instant::now();
    let target = pool.stats().done + u64::from(jobs);
    let mut last = None;
    for number in 0..jobs {
        last = Some(pool.submit(job(number.into())).await?);
    }
    if let Some(last) = last {
        black_box(last.await?);
    }
    while pool.stats().done < target {
        tokio::task::yield_now().await;
    }
    Ok(start.elapsed())
}

async fn through_tasks(places: &Arc<Semaphore>, width: u32, jobs: u32) -> Result<Duration> {
    let start = Instant::now();
    for number in 0..jobs {
        let permit = Arc::clone(places).acquire_owned().await?;
        drop(tokio::spawn(async move {
            black_box(job(number.into()).await);
            drop(permit);
        }));
    }
    drop(places.acquire_many(width).await?);
    Ok(start.elapsed())
}

/// Returns the resident memory of this process in kilobytes, if the system reports it.
fn resident() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE / 1024)
}

fn rate(jobs: u32, time: Duration) -> f64 {
    f64::from(jobs) / time.as_secs_f64()
}

#[tokio::main]
async fn main() -> Result<()> {
    let jobs = env::args().nth(1).map_or(Ok(JOBS), |jobs| jobs.parse())?;
    let workers = std::thread::available_parallelism()?.get() * 2;
    for width in [workers, 64, QUEUE] {
        compare(jobs, width).await?;
    }
    survive(jobs).await
}

/// Runs `jobs` jobs, every tenth of which panics, and counts how they end.
async fn survive(jobs: u32) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let pool = WorkerPool::builder().workers(64).queue(QUEUE).build()?;
    let mut handles = Vec::new();
    for number in 0..u64::from(jobs) {
        let job = async move {
            let output = job(number).await;
            assert!(number % 10 != 9, "this one has had enough");
            (number, output)
        };
        handles.push(pool.submit(job).await?);
    }
    let (mut well, mut panicked, mut wrong) = (0, 0, 0);
    for (number, handle) in (0..).zip(handles) {
        match handle.await {
            Ok(output) if output == (number, job(number).await) => well += 1,
            Err(JobError::Panicked(_)) if number % 10 == 9 => panicked += 1,
            _ => wrong += 1,
        }
    }
    println!(
        "{jobs} jobs, a panic in every tenth: {well} gave their output, {panicked} panicked, {wrong} were lost"
    );
    println!(
        "  workers {}, done {}, panicked {}",
        pool.stats().workers,
        pool.stats().done,
        pool.stats().panicked
    );
    Ok(())
}

/// Runs `jobs` jobs through each side, at most `width` at once.
async fn compare(jobs: u32, width: usize) -> Result<()> {
    let pool = WorkerPool::builder().workers(width).queue(QUEUE).build()?;
    let places = Arc::new(Semaphore::new(width));
    let permits = u32::try_from(width)?;
    let slice = jobs / SLICES;
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    let mut ratios = Vec::new();
    through_pool(&pool, slice).await?;
    through_tasks(&places, permits, slice).await?;
    let before = resident();
    for _ in 0..SLICES {
        let pooled = through_pool(&pool, slice).await?;
        let spawned = through_tasks(&places, permits, slice).await?;
        ratios.push(spawned.as_secs_f64() / pooled.as_secs_f64());
        ours += pooled;
        theirs += spawned;
    }
    let after = resident();
    let done = slice * SLICES;
    ratios.sort_by(f64::total_cmp);
    println!("{done} jobs, {width} at once, a queue of {QUEUE}:");
    println!("  pool            {:>9.0} jobs/s", rate(done, ours));
    println!("  spawn+semaphore {:>9.0} jobs/s", rate(done, theirs));
    println!(
        "  ratio, median of {SLICES} slices: {:.2} (least {:.2}, most {:.2})",
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1]
    );
    if let (Some(before), Some(after)) = (before, after) {
        println!("  resident memory {before} kB before, {after} kB after");
    }
    println!(
        "  done {}, queued {}, running {}",
        pool.stats().done,
        pool.stats().queued,
        pool.stats().running
    );
    Ok(())
}
