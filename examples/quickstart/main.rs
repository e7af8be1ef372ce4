//! A small fleet of workers shares a ledger, three slots and a quota of calls.
//!
//! In this process, with nothing to install:
//!
//! ```text
//! cargo run --example quickstart
//! ```
//!
//! Started twice against one Redis, the two processes share the slots and the ledger, which is then
//! a file: in the temporary folder, named after the namespace, or at the path of `--ledger FILE`.
//!
//! ```text
//! cargo run --example quickstart --features redis -- 'redis://127.0.0.1/?namespace=quickstart'
//! ```
#![expect(clippy::disallowed_methods, reason = "a program reads the clock and sleeps; the library does not")]

mod records;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use records::Records;
use stanchion::{
    Limiter, LimiterOptions, Mutex, MutexOptions, Outcome, Quota, Semaphore, SemaphoreOptions, Store,
    WaitGroup, WaitGroupOptions,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

const WORKERS: u32 = 6;
const JOBS: u32 = 5;
const SLOTS: u32 = 3;
/// Calls per second.
const RATE: u32 = 50;
const BURST: u32 = 5;
/// Time for which a killed process keeps its locks and slots.
const TTL: Duration = Duration::from_secs(5);

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the fleet, and returns whether every promise was kept.
async fn run() -> Result<bool> {
    let (url, file) = arguments();
    let store = stanchion::connect(&url).await?;
    let file = file.or_else(|| store.capabilities().shared.then(|| default_ledger(&url)));
    let fleet = Arc::new(Fleet::new(&*store, file)?);

    // A former holder of the mutex, which will write much too late.
    let past = fleet.mutex.lock().await?;
    let (late_token, late_ticket) = (past.fencing_token(), past.ticket());
    past.release().await?;

    let (called, outcome) = send_out(&fleet).await?;

    // Another process may still be at work; while this one holds the mutex, it does not write.
    let guard = fleet.mutex.lock().await?;
    let tally = fleet.records.tally()?;
    let late = fleet.records.write_ledger(late_token, late_ticket, Vec::new());
    guard.release().await?;
    store.close().await?;

    let mut checks = Checks { held: true };
    if let Some(outcome) = outcome {
        let what = format!("every worker reported back: {} finished", outcome.finished);
        checks.check(outcome.is_success() && outcome.finished >= WORKERS.into(), &what);
    }
    if fleet.calls.is_some() {
        let what = format!("never faster than {RATE} calls a second after the first {BURST}");
        checks.check(within_quota(called), &what);
    }
    let what = format!("never more than {SLOTS} slots at once: at most {} were taken", tally.most_slots);
    checks.check(tally.most_slots <= SLOTS as usize, &what);
    let what = format!("nothing lost: {} entries in the ledger, {} missing", tally.entries, tally.missing);
    checks.check(tally.missing == 0 && tally.entries >= (WORKERS * JOBS) as usize, &what);
    checks.check(late.is_err(), "the ledger refused a holder that came too late");
    Ok(checks.held)
}

/// Runs all workers. Returns the times at which the limiter admitted the calls, and how the workers
/// ended.
async fn send_out(fleet: &Arc<Fleet>) -> Result<(Vec<Duration>, Option<Outcome>)> {
    let mut members = Vec::new();
    if let Some(group) = &fleet.group {
        members = group.add_many(WORKERS).await?;
    }
    let mut workers = JoinSet::<Result<Vec<Duration>>>::new();
    for worker in 1..=WORKERS {
        let (fleet, member) = (Arc::clone(fleet), members.pop());
        workers.spawn(async move {
            let called = fleet.work(worker).await?;
            if let Some(member) = member {
                member.done().await?; // only dropped, it would count as abandoned
            }
            Ok(called)
        });
    }
    let mut outcome = None;
    if let Some(group) = &fleet.group {
        outcome = Some(group.wait().await?);
    }
    let mut called = Vec::new();
    while let Some(worker) = workers.join_next().await {
        called.extend(worker??);
    }
    Ok((called, outcome))
}

/// The state that the workers share.
struct Fleet {
    mutex: Arc<dyn Mutex>,
    slots: Arc<dyn Semaphore>,
    calls: Option<Arc<dyn Limiter>>,
    group: Option<Arc<dyn WaitGroup>>,
    records: Records,
    start: Instant,
}

impl Fleet {
    fn new(store: &dyn Store, file: Option<PathBuf>) -> Result<Self> {
        let able = store.capabilities();
        println!("{} store: {WORKERS} workers with {JOBS} jobs each", able.store);
        if let Some(file) = &file {
            println!("the ledger is {}", file.display());
        }
        let (mut calls, mut group) = (None, None);
        if able.limiters {
            let quota = Quota::per_second(RATE.into()).burst(BURST.into());
            calls = Some(store.limiter("quickstart/calls", LimiterOptions::new(quota))?);
        } else {
            println!("left out: this store has no limiters yet, so nothing paces the calls");
        }
        if able.wait_groups {
            group = Some(store.wait_group("quickstart/fleet", WaitGroupOptions::default().ttl(TTL))?);
        } else {
            println!("left out: this store has no wait groups yet, so no worker reports back through it");
        }
        let mutex = store.mutex("quickstart/ledger", MutexOptions::default().ttl(TTL))?;
        let slots = store.semaphore("quickstart/slots", SemaphoreOptions::new(SLOTS).ttl(TTL))?;
        Ok(Self { mutex, slots, calls, group, records: Records::new(file), start: Instant::now() })
    }

    /// Does one worker's jobs, and returns the times at which the limiter admitted its calls.
    async fn work(&self, worker: u32) -> Result<Vec<Duration>> {
        let mut called = Vec::new();
        for job in 1..=JOBS {
            if let Some(calls) = &self.calls {
                calls.wait().await?;
                called.push(self.start.elapsed());
            }

            let slot = self.slots.acquire().await?;
            self.records.enter(slot.ticket())?;
            self.say(&format!("worker {worker} has a slot for job {job}"));
            sleep(Duration::from_millis(30)).await;
            self.records.leave(slot.ticket())?;
            slot.release().await?;

            // Read, think, write: without the mutex, workers would overwrite each other's entries.
            let guard = self.mutex.lock().await?;
            let (token, ticket) = (guard.fencing_token(), guard.ticket());
            let booking = async {
                let mut ledger = self.records.read_ledger()?;
                sleep(Duration::from_millis(2)).await;
                ledger.push(format!("{token} {ticket}"));
                self.records.write_ledger(token, ticket, ledger)?;
                self.records.booked(token, ticket)
            };
            guard.run(booking).await??; // stopped should the lease be lost
            self.say(&format!("worker {worker} booked job {job} with token {token}"));
            guard.release().await?;
        }
        Ok(called)
    }

    fn say(&self, what: &str) {
        println!("{:7.3} s  {what}", self.start.elapsed().as_secs_f64());
    }
}

struct Checks {
    held: bool,
}

impl Checks {
    fn check(&mut self, holds: bool, what: &str) {
        println!("{}: {what}", if holds { "ok" } else { "FAILED" });
        self.held &= holds;
    }
}

/// Returns whether at every moment at most as many calls were made as the quota allowed until then.
fn within_quota(mut called: Vec<Duration>) -> bool {
    called.sort();
    let given = |at: &Duration| f64::from(BURST) + f64::from(RATE) * at.as_secs_f64();
    (1..).zip(&called).all(|(calls, at)| f64::from(calls) <= given(at))
}

/// Reads the arguments `[URL] [--ledger FILE]`.
fn arguments() -> (String, Option<PathBuf>) {
    let (mut url, mut ledger) = ("memory:".to_owned(), None);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--ledger" => ledger = arguments.next().map(PathBuf::from),
            _ => url = argument,
        }
    }
    (url, ledger)
}

fn default_ledger(url: &str) -> PathBuf {
    let namespace =
        url.split(['?', '&']).find_map(|part| part.strip_prefix("namespace=")).unwrap_or("stanchion");
    let namespace =
        namespace.replace(|letter: char| !letter.is_alphanumeric() && !"._-".contains(letter), "_");
    env::temp_dir().join(format!("quickstart-{namespace}.ledger"))
}
