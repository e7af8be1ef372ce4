//! `cargo run --release -p stanchion-bench --bin redis-limiter`: one hot limiter on Redis beside the same arithmetic in a
//! script that is called once for each decision, over the same kind of connection. Fails below five times its rate.

#![allow(clippy::disallowed_methods, reason = "a benchmark runs tasks of its own and measures real time")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Script;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::servers::{RedisOptions, RedisServer};
use stanchion_core::{Limiter, LimiterOptions, Quota, Store};
use stanchion_redis::RedisStore;
use tokio::runtime::Builder;

const TASKS: usize = 256;
const ROUNDS: usize = 11;
const SLICE: Duration = Duration::from_millis(700);
/// Ten tokens in a microsecond: more than anybody takes.
const RATE: u64 = 10_000_000;
const AT_LEAST: f64 = 5.0;

type Failure = Box<dyn Error + Send + Sync>;

/// Decisions of a slice, and how long it was.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    admitted: u64,
    refused: u64,
    seconds: f64,
}

impl Tally {
    fn rate(self) -> f64 {
        u32::try_from(self.admitted).map_or(f64::NAN, f64::from) / self.seconds
    }
}

fn main() -> Result<ExitCode, Failure> {
    let server = RedisServer::start(RedisOptions::default())?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&server.url()))
}

async fn run(url: &str) -> Result<ExitCode, Failure> {
    let store = RedisStore::connect(url).await?;
    let quota = Quota::per_second(RATE);
    let limiter = store.limiter("hot", LimiterOptions::new(quota).refusal_cache(false))?;
    let mut clock = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let script = Arc::new(Script::new(include_str!("../lua/bucket.lua")));
    script.prepare_invoke().load_async(&mut clock).await?;
    let start = server_time(&mut clock).await?;
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    slice(|| allow(&limiter)).await?;
    for round in 0..ROUNDS {
        for side in 0..2 {
            if (round + side) % 2 == 0 {
                ours.push(slice(|| allow(&limiter)).await?);
            } else {
                peers.push(slice(|| call(&script, &connection)).await?);
            }
        }
    }
    let elapsed = server_time(&mut clock).await? - start;
    let within_rate = report_rate(&ours, u128::from(elapsed));
    let exact = tight(&store, &mut clock).await?;
    let ratio = report(&ours, &peers);
    let admitted: u64 = ours.iter().map(|tally| tally.admitted).sum();
    let refused: u64 = ours.iter().map(|tally| tally.refused).sum();
    println!("{admitted} admitted, {refused} refused");
    let fine = ratio >= AT_LEAST && within_rate && exact && refused * 9 <= admitted;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(ours: &[Tally], peers: &[Tally]) -> f64 {
    let middle = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let rates = |tallies: &[Tally]| tallies.iter().map(|tally| tally.rate()).collect::<Vec<_>>();
    let ratios = ours.iter().zip(peers).map(|(ours, peer)| ours.rate() / peer.rate()).collect::<Vec<_>>();
    let ratio = middle(ratios);
    println!(
        "| admitted per second, one name, {TASKS} tasks | ours | one script call each | ratio | at least | |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let verdict = if ratio >= AT_LEAST { "ok" } else { "UNDER" };
    let (ours, peer) = (middle(rates(ours)), middle(rates(peers)));
    println!(
        "| median of {ROUNDS} slices | {ours:.0} | {peer:.0} | {ratio:.2} | {AT_LEAST:.2} | {verdict} |"
    );
    ratio
}

/// L1 over the whole run, the slice that warms up left out, which makes the bound smaller only.
fn report_rate(ours: &[Tally], elapsed: u128) -> bool {
    let admitted: u64 = ours.iter().map(|tally| tally.admitted).sum();
    let bound = u128::from(RATE) + u128::from(RATE) * elapsed / 1_000_000;
    println!("L1: {admitted} admitted in {elapsed} µs of the server's clock, at most {bound}");
    u128::from(admitted) <= bound
}

/// The same with a quota that refuses most: the bound is met exactly, and nearly used up.
async fn tight(store: &RedisStore, clock: &mut MultiplexedConnection) -> Result<bool, Failure> {
    let (rate, burst) = (7_000, 100);
    let options = LimiterOptions::new(Quota::per_second(rate).burst(burst)).refusal_cache(false);
    let limiter = store.limiter("tight", options)?;
    let start = server_time(clock).await?;
    let Tally { admitted, refused, .. } = slice(|| allow(&limiter)).await?;
    let elapsed = server_time(clock).await? - start;
    let bound = burst + rate * elapsed / 1_000_000;
    println!(
        "L1: {admitted} admitted of {} in {elapsed} µs of the server's clock, at most {bound}",
        admitted + refused
    );
    Ok(admitted <= bound)
}

/// Calls of many tasks for a while.
async fn slice<F>(call: impl Fn() -> F) -> Result<Tally, Failure>
where
    F: Caller,
{
    let begin = Instant::now();
    let end = begin + SLICE;
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(call().until(end))).collect();
    let mut tally = Tally::default();
    for task in tasks {
        let (admitted, refused) = task.await??;
        tally.admitted += admitted;
        tally.refused += refused;
    }
    tally.seconds = begin.elapsed().as_secs_f64();
    Ok(tally)
}

/// One task: calls until the end, and tells how many were admitted and refused.
trait Caller {
    fn until(self, end: Instant) -> impl Future<Output = Result<(u64, u64), Failure>> + Send + 'static;
}

struct Ours(Arc<dyn Limiter>);

struct Peer(Arc<Script>, MultiplexedConnection);

fn allow(limiter: &Arc<dyn Limiter>) -> Ours {
    Ours(Arc::clone(limiter))
}

fn call(script: &Arc<Script>, connection: &MultiplexedConnection) -> Peer {
    Peer(Arc::clone(script), connection.clone())
}

impl Caller for Ours {
    async fn until(self, end: Instant) -> Result<(u64, u64), Failure> {
        let (mut admitted, mut refused) = (0, 0);
        while Instant::now() < end {
            if self.0.allow().await?.allowed { admitted += 1 } else { refused += 1 }
        }
        Ok((admitted, refused))
    }
}

impl Caller for Peer {
    async fn until(mut self, end: Instant) -> Result<(u64, u64), Failure> {
        let (mut admitted, mut refused) = (0, 0);
        while Instant::now() < end {
            // By the hash alone, as a client with a script of its own would.
            let mut command = redis::cmd("EVALSHA");
            command.arg(self.0.get_hash()).arg(1).arg("{hot}:bucket").arg(10).arg(1).arg(RATE).arg(1);
            let (allowed, _, _, _): (u8, u64, i64, u64) = command.query_async(&mut self.1).await?;
            if allowed == 1 { admitted += 1 } else { refused += 1 }
        }
        Ok((admitted, refused))
    }
}

async fn server_time(connection: &mut MultiplexedConnection) -> Result<u64, Failure> {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await?;
    Ok(seconds * 1_000_000 + micros)
}
