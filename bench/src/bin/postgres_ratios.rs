//! `cargo run --release -p stanchion-bench --bin postgres-ratios`: the Postgres store beside what people write by hand, as
//! ratios of one run. It starts a server of its own, with `fsync` and `synchronous_commit` on.

#![allow(clippy::disallowed_methods, reason = "a benchmark runs tasks of its own and measures real time")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection};
use stanchion_bench::postgres::{BareLock, Counter, Failure, statements};
use stanchion_bench::ratio::{Ratio, measure, time};
use stanchion_conformance::servers::{PostgresOptions, PostgresServer};
use stanchion_core::{LimiterOptions, Mutex, MutexMode, MutexOptions, Quota, SemaphoreOptions, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const ROUNDS: usize = 21;
/// Pairs of one slice, over all tasks.
const PAIRS: u32 = 2048;
const HOT: u32 = 64;
const HAND_OFFS: usize = 400;
const WAITERS: u64 = 100;
const WATCHED: Duration = Duration::from_secs(10);

struct Bed {
    runtime: Runtime,
    url: String,
    within: bool,
}

fn main() -> Result<ExitCode, Failure> {
    let options = PostgresOptions::default()
        .fsync(true)
        .setting("synchronous_commit", "on")
        .setting("shared_preload_libraries", "pg_stat_statements");
    let server = PostgresServer::start(options)?;
    server.sql("CREATE EXTENSION pg_stat_statements")?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut bed = Bed { runtime, url: server.url(), within: true };
    println!("| comparison | ours, each | peer, each | ratio | bound | |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (tasks, bound) in [(1, 0.8), (16, 1.5)] {
        let ratio = bed.uncontended(tasks)?;
        bed.faster(
            &format!("session: lock + release, {tasks} tasks / advisory lock + unlock"),
            bound,
            &ratio,
        );
    }
    for mode in [MutexMode::Session, MutexMode::Lease] {
        bed.hand_off(mode)?;
    }
    bed.hot()?;
    for mode in [MutexMode::Session, MutexMode::Lease] {
        bed.idle(mode)?;
    }
    Ok(if bed.within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Bed {
    fn line(&mut self, text: &str, ours: Duration, peer: Duration, ratio: f64, bound: &str, well: bool) {
        let verdict = if well { "ok" } else { "MISSED" };
        println!("| {text} | {ours:?} | {peer:?} | {ratio:.2} | {bound} | {verdict} |");
        self.within &= well;
    }

    /// Ours does at least so many times what the peer does.
    fn faster(&mut self, text: &str, bound: f64, ratio: &Ratio) {
        let rate = 1.0 / ratio.median;
        self.line(text, ratio.ours, ratio.peer, rate, &format!("at least {bound:.2}"), rate >= bound);
    }

    fn store(&self, mode: MutexMode) -> Result<Arc<dyn Store>, Failure> {
        let namespace = if mode == MutexMode::Session { "session" } else { "lease" };
        let builder = PostgresStore::builder(&self.url)?.namespace(namespace).mutex(mode);
        Ok(Arc::new(self.runtime.block_on(builder.connect())?))
    }

    /// Every task locks and releases a name of its own; the peer has one connection.
    fn uncontended(&self, tasks: u32) -> Result<Ratio, Failure> {
        let store = self.store(MutexMode::Session)?;
        let name = |task| format!("uncontended/{tasks}/{task}");
        let mutexes = (0..tasks).map(|task| store.mutex(&name(task), MutexOptions::default()));
        let mutexes = mutexes.collect::<Result<Vec<_>, _>>()?;
        let mut bare = self.runtime.block_on(BareLock::connect(&self.url))?;
        let ours = |pairs: u32| {
            self.all(mutexes.iter().cloned().map(|mutex| async move {
                for _ in 0..pairs / tasks {
                    mutex.lock().await?.release().await?;
                }
                Ok(())
            }))
        };
        let peer = |pairs: u32| {
            time(|| {
                let work = async {
                    for key in 0..pairs {
                        bare.pair(i64::from(key % tasks)).await?;
                    }
                    Ok::<_, Failure>(())
                };
                report(self.runtime.block_on(work));
            })
        };
        Ok(measure(ROUNDS, if tasks == 1 { PAIRS / 4 } else { PAIRS }, ours, peer))
    }

    /// From the release in one process to the grant in another, beside a round trip; in turn.
    fn hand_off(&mut self, mode: MutexMode) -> Result<(), Failure> {
        let stores = [self.store(mode)?, self.store(mode)?];
        let [mine, theirs] = stores.each_ref().map(|store| store.mutex("hand-off", MutexOptions::default()));
        let (mine, theirs): (Arc<dyn Mutex>, Arc<dyn Mutex>) = (mine?, theirs?);
        let url = self.url.clone();
        let (mut hand_offs, mut trips) = self.runtime.block_on(async {
            let mut bare = BareLock::connect(&url).await?;
            let (mut hand_offs, mut trips) = (Vec::new(), Vec::new());
            for round in 0..HAND_OFFS {
                let (holder, next) = if round % 2 == 0 { (&mine, &theirs) } else { (&theirs, &mine) };
                let (guard, next) = (holder.lock().await?, Arc::clone(next));
                let waiting = tokio::spawn(async move {
                    let guard = next.lock().await?;
                    Ok::<_, Failure>((guard, Instant::now()))
                });
                while holder.inspect().await?.waiters == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
                trips.push(bare.round_trip().await?);
                let released = Instant::now();
                guard.release().await?;
                let (guard, granted) = waiting.await??;
                hand_offs.push(granted.saturating_duration_since(released));
                guard.release().await?;
            }
            Ok::<_, Failure>((hand_offs, trips))
        })?;
        let (ours, trip) = (median(&mut hand_offs), median(&mut trips));
        let ratio = ours.as_secs_f64() / trip.as_secs_f64();
        let text = format!("{mode:?}: hand-off p50 / round trip");
        self.line(&text, ours, trip, ratio, "at most 3.00", ratio <= 3.0);
        Ok(())
    }

    /// One hot name and 64 tasks of one process, over the pool that the peer has.
    fn hot(&mut self) -> Result<(), Failure> {
        let url = self.url.clone();
        let pool = PgPoolOptions::new().max_connections(10).test_before_acquire(false);
        let pool = self.runtime.block_on(pool.connect(&url))?;
        let counter = self.runtime.block_on(Counter::new(pool.clone()))?;
        let builder = PostgresBuilder::from_pool(pool).namespace("lease").mutex(MutexMode::Lease);
        let store = self.runtime.block_on(builder.connect())?;
        let semaphore = store.semaphore("hot", SemaphoreOptions::new(HOT))?;
        // It never refuses at the speed of this machine.
        let limiter = store.limiter("hot", LimiterOptions::new(Quota::per_second(10_000_000)))?;
        let bumps = |operations: u32| {
            self.all((0..HOT).map(|_| {
                let counter = counter.clone();
                async move {
                    for _ in 0..operations / HOT {
                        counter.bump().await?;
                    }
                    Ok(())
                }
            }))
        };
        // An acquisition and a release are two operations.
        let permits = |operations: u32| {
            self.all((0..HOT).map(|_| {
                let semaphore = Arc::clone(&semaphore);
                async move {
                    for _ in 0..operations / HOT / 2 {
                        semaphore.acquire().await?.release().await?;
                    }
                    Ok(())
                }
            }))
        };
        let decisions = |operations: u32| {
            self.all((0..HOT).map(|_| {
                let limiter = Arc::clone(&limiter);
                async move {
                    for _ in 0..operations / HOT {
                        if !limiter.allow().await?.allowed {
                            return Err("it was refused".into());
                        }
                    }
                    Ok(())
                }
            }))
        };
        let permits = measure(ROUNDS, HOT * 16, permits, bumps);
        let decisions = measure(ROUNDS, HOT * 16, decisions, bumps);
        self.faster("semaphore: acquire or release, 64 tasks / UPDATE of a row", 5.0, &permits);
        self.faster("limiter: admitted decision, 64 tasks / UPDATE of a row", 5.0, &decisions);
        Ok(())
    }

    /// What waiting costs the server.
    fn idle(&mut self, mode: MutexMode) -> Result<(), Failure> {
        let (holder, waiting) = (self.store(mode)?, self.store(mode)?);
        let held = holder.mutex("idle", MutexOptions::default())?;
        let mutex = waiting.mutex("idle", MutexOptions::default())?;
        let url = self.url.clone();
        let rate = self.runtime.block_on(async {
            let mut watcher = PgConnection::connect(&url).await?;
            let guard = held.lock().await?;
            let waiters: Vec<_> = (0..WAITERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    tokio::spawn(async move { mutex.lock().await?.release().await })
                })
                .collect();
            while mutex.inspect().await?.waiters < WAITERS {
                sleep(Duration::from_millis(20)).await;
            }
            sleep(Duration::from_secs(2)).await;
            let before = statements(&mut watcher).await?;
            sleep(WATCHED).await;
            let after = statements(&mut watcher).await?;
            guard.release().await?;
            for waiter in waiters {
                waiter.await??;
            }
            let count = f64::from(u32::try_from(after - before)?);
            Ok::<_, Failure>(count / WATCHED.as_secs_f64())
        })?;
        let well = rate <= 10.0;
        let verdict = if well { "ok" } else { "MISSED" };
        println!(
            "| {mode:?}: statements a second of {WAITERS} idle waiters and the holder | | | {rate:.1} | at most 10.0 | {verdict} |"
        );
        self.within &= well;
        Ok(())
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
                    report(task.await.map_err(Failure::from).flatten());
                }
            });
        })
    }
}

fn report(outcome: Result<(), Failure>) {
    if let Err(error) = outcome {
        eprintln!("a task failed: {error}");
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
