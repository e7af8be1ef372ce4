//! `cargo run --release -p stanchion-bench --bin memory-ratios`: the memory store beside its peers, as ratios.

#![allow(clippy::disallowed_methods, reason = "a benchmark runs tasks of its own")]

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stanchion_bench::memory::{KeyedMutex, NAME, keyed_governor, limiter, mutex};
use stanchion_bench::ratio::{Ratio, measure, time};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex as TokioMutex;

const ROUNDS: usize = 101;
const TASKS: u32 = 64;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<ExitCode, Failure> {
    let one = Builder::new_current_thread().build()?;
    let two = Builder::new_multi_thread().worker_threads(2).build()?;
    println!("| comparison | ours | peer | ours / peer | at most | |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let within = [
        row("lock + drop / DashMap of tokio mutexes with clean-up", Some(1.0), &uncontended(&one)?),
        row("hand-off, 64 tasks, 1 thread / tokio::sync::Mutex", Some(1.0 / 0.9), &hand_off(&one)?),
        row("hand-off, 64 tasks, 2 threads / tokio::sync::Mutex", Some(1.0 / 0.9), &hand_off(&two)?),
        row("hand-off, 64 tasks, 1 thread / the same DashMap", None, &hand_off_by_name(&one)?),
        row("hand-off, 64 tasks, 2 threads / the same DashMap", None, &hand_off_by_name(&two)?),
        row("allow / governor, keyed", Some(1.5), &allow(&one)?),
    ];
    Ok(if within.iter().all(|within| *within) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(comparison: &str, bound: Option<f64>, ratio: &Ratio) -> bool {
    let Ratio { ours, peer, median } = ratio;
    let within = bound.is_none_or(|bound| *median <= bound);
    let verdict = if within { "ok" } else { "OVER" };
    let bound = bound.map_or("-".to_owned(), |bound| format!("{bound:.2}"));
    println!("| {comparison} | {ours:?} | {peer:?} | {median:.2} | {bound} | {verdict} |");
    within
}

fn uncontended(runtime: &Runtime) -> Result<Ratio, Failure> {
    let (ours, peer) = (mutex()?, KeyedMutex::default());
    let ours = |operations| {
        time(|| {
            runtime.block_on(async {
                for _ in 0..operations {
                    drop(black_box(ours.lock().await));
                }
            });
        })
    };
    let peer = |operations| {
        time(|| {
            runtime.block_on(async {
                for _ in 0..operations {
                    drop(black_box(peer.lock(NAME).await));
                }
            });
        })
    };
    Ok(measure(ROUNDS, 20_000, ours, peer))
}

/// Every task holds the mutex over one turn of the others, so that all of them queue.
fn hand_off(runtime: &Runtime) -> Result<Ratio, Failure> {
    let peer = Arc::new(TokioMutex::new(()));
    hand_off_beside(runtime, |rounds| {
        let mutex = Arc::clone(&peer);
        async move {
            for _ in 0..rounds {
                let guard = mutex.lock().await;
                tokio::task::yield_now().await;
                drop(black_box(guard));
            }
        }
    })
}

fn hand_off_by_name(runtime: &Runtime) -> Result<Ratio, Failure> {
    let peer = Arc::new(KeyedMutex::default());
    hand_off_beside(runtime, |rounds| {
        let keyed = Arc::clone(&peer);
        async move {
            for _ in 0..rounds {
                let guard = keyed.lock(NAME).await;
                tokio::task::yield_now().await;
                drop(black_box(guard));
            }
        }
    })
}

fn hand_off_beside<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    peer: impl Fn(u32) -> F,
) -> Result<Ratio, Failure> {
    let ours = mutex()?;
    let ours = |rounds| {
        let mutex = Arc::clone(&ours);
        async move {
            for _ in 0..rounds {
                let guard = mutex.lock().await;
                tokio::task::yield_now().await;
                drop(black_box(guard));
            }
        }
    };
    let ours = |rounds| time(|| run_tasks(runtime, || ours(rounds)));
    let peer = |rounds| time(|| run_tasks(runtime, || peer(rounds)));
    let ratio = measure(ROUNDS, 200, ours, peer);
    Ok(Ratio { ours: ratio.ours / TASKS, peer: ratio.peer / TASKS, ..ratio })
}

fn run_tasks<F: Future<Output = ()> + Send + 'static>(runtime: &Runtime, task: impl Fn() -> F) {
    let tasks: Vec<_> = (0..TASKS).map(|_| runtime.spawn(task())).collect();
    runtime.block_on(async {
        for task in tasks {
            if task.await.is_err() {
                eprintln!("a task failed");
            }
        }
    });
}

fn allow(runtime: &Runtime) -> Result<Ratio, Failure> {
    let (ours, peer, key) = (limiter()?, keyed_governor(), NAME.to_owned());
    let ours = |operations| {
        time(|| {
            runtime.block_on(async {
                for _ in 0..operations {
                    let _ = black_box(ours.allow().await);
                }
            });
        })
    };
    let peer = |operations| -> Duration {
        time(|| {
            for _ in 0..operations {
                let _ = black_box(peer.check_key(black_box(&key)));
            }
        })
    };
    Ok(measure(ROUNDS, 20_000, ours, peer))
}
