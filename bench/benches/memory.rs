//! The memory store beside its peers.

#![allow(clippy::disallowed_methods, reason = "a benchmark runs tasks of its own")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use stanchion_bench::memory::{KeyedMutex, NAME, keyed_governor, limiter, mutex};
use stanchion_bench::ratio::time;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex as TokioMutex;

fn runtime(threads: usize) -> Runtime {
    let builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let mut builder = builder;
    builder.worker_threads(threads).build().expect("a runtime")
}

fn uncontended(c: &mut Criterion) {
    let runtime = runtime(1);
    let mut group = c.benchmark_group("lock and drop");
    let ours = mutex().expect("a mutex");
    group.bench_function("stanchion", |b| {
        b.iter_custom(|operations| {
            time(|| {
                runtime.block_on(async {
                    for _ in 0..operations {
                        drop(black_box(ours.lock().await));
                    }
                });
            })
        });
    });
    let peer = KeyedMutex::default();
    group.bench_function("dashmap of tokio mutexes", |b| {
        b.iter_custom(|operations| {
            time(|| {
                runtime.block_on(async {
                    for _ in 0..operations {
                        drop(black_box(peer.lock(NAME).await));
                    }
                });
            })
        });
    });
    group.finish();
}

/// One iteration is one acquisition by each of 64 tasks, held over a turn of the others.
fn hand_off(c: &mut Criterion) {
    for threads in [1, 2] {
        let runtime = runtime(threads);
        let mut group = c.benchmark_group(format!("hand-off, 64 tasks, {threads} threads"));
        let ours = mutex().expect("a mutex");
        group.bench_function("stanchion", |b| {
            b.iter_custom(|rounds| {
                let task = || {
                    let mutex = Arc::clone(&ours);
                    async move {
                        for _ in 0..rounds {
                            let guard = mutex.lock().await;
                            tokio::task::yield_now().await;
                            drop(black_box(guard));
                        }
                    }
                };
                time(|| run_tasks(&runtime, task))
            });
        });
        let peer = Arc::new(TokioMutex::new(()));
        group.bench_function("tokio", |b| {
            b.iter_custom(|rounds| {
                let task = || {
                    let mutex = Arc::clone(&peer);
                    async move {
                        for _ in 0..rounds {
                            let guard = mutex.lock().await;
                            tokio::task::yield_now().await;
                            drop(black_box(guard));
                        }
                    }
                };
                time(|| run_tasks(&runtime, task))
            });
        });
        group.finish();
    }
}

fn run_tasks<F: Future<Output = ()> + Send + 'static>(runtime: &Runtime, task: impl Fn() -> F) {
    let tasks: Vec<_> = (0..64).map(|_| runtime.spawn(task())).collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("a task");
        }
    });
}

fn allow(c: &mut Criterion) {
    let runtime = runtime(1);
    let mut group = c.benchmark_group("allow");
    let ours = limiter().expect("a limiter");
    group.bench_function("stanchion", |b| {
        b.iter_custom(|operations| {
            time(|| {
                runtime.block_on(async {
                    for _ in 0..operations {
                        let _ = black_box(ours.allow().await);
                    }
                });
            })
        });
    });
    let (peer, key) = (keyed_governor(), NAME.to_owned());
    group.bench_function("governor, keyed", |b| b.iter(|| peer.check_key(black_box(&key)).is_ok()));
    group.finish();
}

criterion_group!(benches, uncontended, hand_off, allow);
criterion_main!(benches);
