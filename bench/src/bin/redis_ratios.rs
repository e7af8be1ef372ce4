//! `cargo run --release -p stanchion-bench --bin redis-ratios`: the Redis store beside what people write by hand, as
//! ratios of one run. It starts a server of its own.

#![allow(clippy::disallowed_methods, reason = "a benchmark runs tasks of its own")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use stanchion_bench::ratio::{Ratio, measure, time};
use stanchion_bench::redis::{BareLock, Failure, TokenQueue};
use stanchion_conformance::servers::{RedisOptions, RedisServer};
use stanchion_core::{Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ROUNDS: usize = 21;
/// Pairs of one slice, over all tasks.
const PAIRS: u32 = 4096;
const WAITERS: u32 = 16;
const MANY: u64 = 256;
const FAIRNESS: Duration = Duration::from_secs(8);
const HOLD: Duration = Duration::from_millis(2);

struct Bed {
    runtime: Runtime,
    client: Client,
    store: Arc<dyn Store>,
}

fn main() -> Result<ExitCode, Failure> {
    let server = RedisServer::start(RedisOptions::default())?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let client = Client::open(server.url())?;
    let store: Arc<dyn Store> = Arc::new(runtime.block_on(RedisStore::connect(&server.url()))?);
    let bed = Bed { runtime, client, store };
    println!("| comparison | ours, each | peer, each | peer's time / ours | at least | |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut within = true;
    for (tasks, bound) in [(1, 0.85), (16, 1.0), (256, 1.5)] {
        let comparison = format!("lock + release, {tasks} tasks / SET NX PX + compare-and-delete");
        within &= row(&comparison, bound, &bed.uncontended(tasks)?);
    }
    within &= row("16 waiters, hold 2 ms / BLPOP token queue", 0.9, &bed.contended()?);
    within &= bed.fairness()?;
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(comparison: &str, bound: f64, ratio: &Ratio) -> bool {
    let Ratio { ours, peer, median } = ratio;
    let rate = 1.0 / median;
    let verdict = if rate >= bound { "ok" } else { "MISSED" };
    println!("| {comparison} | {ours:?} | {peer:?} | {rate:.2} | {bound:.2} | {verdict} |");
    rate >= bound
}

impl Bed {
    fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(self.runtime.block_on(self.client.get_multiplexed_async_connection_with_config(&config))?)
    }

    fn mutex(&self, name: &str) -> Result<Arc<dyn Mutex>, Failure> {
        Ok(self.store.mutex(name, MutexOptions::default())?)
    }

    /// Every task locks and releases a name of its own.
    fn uncontended(&self, tasks: u32) -> Result<Ratio, Failure> {
        let names = || (0..tasks).map(|task| format!("uncontended/{tasks}/{task}"));
        let mutexes = names().map(|name| self.mutex(&name)).collect::<Result<Vec<_>, _>>()?;
        let bare = BareLock::new(self.connection()?);
        let ours = |pairs: u32| {
            self.all(mutexes.iter().cloned().map(|mutex| async move {
                for _ in 0..pairs / tasks {
                    mutex.lock().await?.release().await?;
                }
                Ok(())
            }))
        };
        let peer = |pairs: u32| {
            self.all(names().map(|name| {
                let mut bare = bare.clone();
                async move {
                    for _ in 0..pairs / tasks {
                        bare.pair(&name, "0123456789abcdef0123456789abcdef").await?;
                    }
                    Ok(())
                }
            }))
        };
        Ok(measure(ROUNDS, if tasks == 1 { PAIRS / 4 } else { PAIRS }, ours, peer))
    }

    /// All of them want one name, and hold it for 2 ms.
    fn contended(&self) -> Result<Ratio, Failure> {
        let mutex = self.mutex("contended")?;
        let queues = (0..WAITERS)
            .map(|_| Ok(TokenQueue::new(self.connection()?, "tokens")))
            .collect::<Result<Vec<_>, Failure>>()?;
        self.runtime.block_on(queues[0].clone().give())?;
        let ours = |holds: u32| {
            self.all((0..WAITERS).map(|_| {
                let mutex = Arc::clone(&mutex);
                async move {
                    for _ in 0..holds / WAITERS {
                        let guard = mutex.lock().await?;
                        sleep(HOLD).await;
                        guard.release().await?;
                    }
                    Ok(())
                }
            }))
        };
        let peer = |holds: u32| {
            self.all(queues.iter().cloned().map(|mut queue| async move {
                for _ in 0..holds / WAITERS {
                    queue.take().await?;
                    sleep(HOLD).await;
                    queue.give().await?;
                }
                Ok(())
            }))
        };
        Ok(measure(11, WAITERS * 8, ours, peer))
    }

    /// Many want one name and do nothing with it: how far the longest waits are from the usual one.
    fn fairness(&self) -> Result<bool, Failure> {
        let mutex = self.mutex("fair")?;
        let mut waits = self.runtime.block_on(async {
            let first = mutex.lock().await?;
            let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
            for _ in 0..MANY {
                let (mutex, stop) = (Arc::clone(&mutex), Arc::clone(&stop));
                tasks.spawn(async move {
                    let mut waits = Vec::new();
                    // The first wait is for the start.
                    mutex.lock().await?.release().await?;
                    while !stop.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        let guard = mutex.lock().await?;
                        if !stop.load(Ordering::Relaxed) {
                            waits.push(began.elapsed());
                        }
                        guard.release().await?;
                    }
                    Ok::<_, Failure>(waits)
                });
            }
            while mutex.inspect().await?.waiters < MANY {
                sleep(Duration::from_millis(1)).await;
            }
            first.release().await?;
            sleep(FAIRNESS).await;
            stop.store(true, Ordering::Relaxed);
            let mut all = Vec::new();
            while let Some(waits) = tasks.join_next().await {
                all.extend(waits??);
            }
            Ok::<_, Failure>(all)
        })?;
        waits.sort_unstable();
        let count = u32::try_from(waits.len())?;
        let mean = waits.iter().sum::<Duration>() / count.max(1);
        let late = waits.get(waits.len() * 999 / 1000).copied().unwrap_or_default();
        let ratio = late.as_secs_f64() / mean.as_secs_f64();
        let verdict = if ratio <= 1.5 { "ok" } else { "MISSED" };
        println!(
            "| {MANY} waiters, hold 0: p99.9 / mean of {count} waits | {late:?} | {mean:?} | {ratio:.2} | at most 1.50 | {verdict} |"
        );
        Ok(ratio <= 1.5)
    }

    /// The time until all tasks have ended.
    fn all<F: Future<Output = Result<(), Failure>> + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = F>,
    ) -> Duration {
        time(|| {
            let tasks: Vec<_> = tasks.map(|task| self.runtime.spawn(task)).collect();
            self.runtime.block_on(async {
                for task in tasks {
                    match task.await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => eprintln!("a task failed: {error}"),
                        Err(error) => eprintln!("a task failed: {error}"),
                    }
                }
            });
        })
    }
}
