//! The pools of two processes share one cap, also when one of them is killed.

#![cfg(any(feature = "redis", feature = "postgres"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime and fails by a panic"
)]

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::{Semaphore, SemaphoreOptions, Store};
use stanchion_conformance::stopwatch::{EPSILON, Stopwatch};
use stanchion_conformance::support::DEAD_IN_FRONT;
use stanchion_pool::WorkerPool;
use stanchion_testbed::faults::Process;
use stanchion_testbed::servers::wait_until;
use tokio::sync::oneshot;
use tokio::time::sleep;

const PERMITS: usize = 4;
/// More than there are permits, so that each process could use all of them.
const WORKERS: usize = 6;
const TTL: Duration = Duration::from_secs(1);
/// Far more than it takes, for a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(60);
/// Enough for the two processes to be in each other's way many times.
const WARM: usize = 40;

/// What a worker is told follows this among the arguments of the test program. The test harness takes it for the exact
/// names of more tests, of which there are none.
const LAST: &str = "--nocapture";

/// A file to which all processes append. The system puts one line behind the other, so that their order is that in
/// which things happened: a job's `start` is written once it has its permit, and its `end` while it has it still.
struct Journal(File);

impl Journal {
    fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    fn write(&self, process: u32, what: &str, job: usize) {
        (&self.0).write_all(format!("{process} {what} {job}\n").as_bytes()).unwrap();
    }
}

/// Ends in the journal however the job ends.
struct Running {
    journal: Arc<Journal>,
    job: usize,
}

impl Running {
    fn start(journal: Arc<Journal>, job: usize) -> Self {
        journal.write(std::process::id(), "start", job);
        Self { journal, job }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.journal.write(std::process::id(), "end", self.job);
    }
}

fn cap(store: &dyn Store) -> Arc<dyn Semaphore> {
    let permits = u32::try_from(PERMITS).unwrap();
    store.semaphore("jobs of both pools", SemaphoreOptions::new(permits).ttl(TTL)).unwrap()
}

/// A process with a pool that never lacks jobs, until its standard input ends.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn work(url: &str, journal: &Path) {
    let store = stanchion::connect(url).await.unwrap();
    let pool =
        WorkerPool::builder().workers(WORKERS).queue(WORKERS).cluster_cap(cap(&*store)).build().unwrap();
    let journal = Arc::new(Journal::open(journal).unwrap());
    let (enough, mut told) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        drop(enough);
    });
    for job in 0.. {
        let journal = Arc::clone(&journal);
        let length = Duration::from_millis(5 + u64::try_from(job % 5).unwrap() * 5);
        let task = async move {
            let _running = Running::start(journal, job);
            sleep(length).await;
        };
        tokio::select! {
            biased;
            _ = &mut told => break,
            submitted = pool.submit(task) => drop(submitted.unwrap()),
        }
    }
    pool.drain().await;
    store.close().await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn available(url: &str) -> usize {
    let store = stanchion::connect(url).await.unwrap();
    let available = cap(&*store).available().await.unwrap();
    store.close().await.unwrap();
    usize::try_from(available).unwrap()
}

/// What the journal says.
#[derive(Default)]
struct Sight {
    running: BTreeSet<(u32, usize)>,
    /// The most jobs at once, in both processes.
    most: usize,
    /// The same since a process was killed.
    most_since_death: usize,
    died: bool,
    ended: Vec<u32>,
}

impl Sight {
    fn of(journal: &Path) -> Self {
        let mut sight = Self::default();
        let text = fs::read_to_string(journal).unwrap_or_default();
        // The last line may be half written.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            sight.see(line);
        }
        sight
    }

    fn see(&mut self, line: &str) {
        let fields: Vec<&str> = line.split(' ').collect();
        let (process, job) = (fields[0].parse().unwrap(), fields[2].parse().unwrap());
        match fields[1] {
            "start" => assert!(self.running.insert((process, job)), "{line}: it runs already"),
            "end" => {
                assert!(self.running.remove(&(process, job)), "{line}: it does not run");
                self.ended.push(process);
            }
            "dead" => {
                self.running.retain(|(running, _)| *running != process);
                self.died = true;
            }
            _ => panic!("{line}"),
        }
        self.most = self.most.max(self.running.len());
        if self.died {
            self.most_since_death = self.most_since_death.max(self.running.len());
        }
    }

    fn running(&self, process: &Process) -> usize {
        self.running.iter().filter(|(running, _)| *running == process.id()).count()
    }

    fn ended(&self, process: &Process) -> usize {
        self.ended.iter().filter(|ended| **ended == process.id()).count()
    }
}

/// A worker is the same program again, told to run the test of that name alone.
fn start(test: &str, url: &str, journal: &Path) -> Process {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("pool_cluster::{test}"), LAST, url])
        .arg(journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    Process::spawn(&mut command).unwrap()
}

fn told() -> Option<(String, PathBuf)> {
    let mut arguments = env::args().skip_while(|argument| argument != LAST).skip(1);
    Some((arguments.next()?, arguments.next()?.into()))
}

/// Stops it where it has a permit.
fn stop_at_work(process: &mut Process, journal: &Path) {
    let stopped = wait_until(LIMIT, || {
        process.stop().unwrap();
        if Sight::of(journal).running(process) > 0 {
            return Some(());
        }
        process.resume().unwrap();
        None
    });
    stopped.expect("it never has a permit");
}

fn the_cap_holds(url: &str, test: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut victim = start(test, url, &path);
    let mut survivor = start(test, url, &path);
    let warm = wait_until(LIMIT, || {
        let sight = Sight::of(&path);
        (sight.ended(&victim) >= WARM && sight.ended(&survivor) >= WARM).then_some(())
    });
    warm.expect("the two processes do not get on");

    stop_at_work(&mut victim, &path);
    let (stopped, watch) = (Instant::now(), Stopwatch::start());
    victim.kill().unwrap();
    Journal::open(&path).unwrap().write(victim.id(), "dead", 0);
    // The killed process was waiting too (C5).
    let limit = TTL + EPSILON + DEAD_IN_FRONT;
    while Sight::of(&path).most_since_death < PERMITS {
        assert!(watch.elapsed() < limit, "the permits of the dead process do not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    let recovered = stopped.elapsed();
    // Its jobs are far shorter than the lease, so the one that it was stopped in had most of that ahead.
    assert!(recovered > TTL / 2, "the permits of the dead process were given away after {recovered:?}");

    let ended = Sight::of(&path).ended(&survivor);
    let goes_on = wait_until(LIMIT, || (Sight::of(&path).ended(&survivor) >= ended + WARM).then_some(()));
    goes_on.expect("the survivor stands still");
    drop(survivor.take_stdin());
    assert!(survivor.wait(LIMIT).unwrap().expect("the survivor does not end").success());

    let sight = Sight::of(&path);
    assert_eq!(sight.most, PERMITS, "jobs at once in both processes");
    assert_eq!(sight.most_since_death, PERMITS, "jobs at once in the survivor");
    assert!(sight.running.is_empty(), "jobs that did not end: {:?}", sight.running);
    assert_eq!(available(url), PERMITS);
    println!(
        "{} jobs; all {PERMITS} permits were in use again {recovered:?} after the stop",
        sight.ended.len()
    );
}

#[cfg(feature = "redis")]
#[test]
fn s1_s3_the_cap_of_two_pools_on_redis() {
    use stanchion_testbed::servers::{RedisOptions, RedisServer};

    if let Some((url, journal)) = told() {
        return work(&url, &journal);
    }
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    the_cap_holds(&server.url(), "s1_s3_the_cap_of_two_pools_on_redis");
}

#[cfg(feature = "postgres")]
#[test]
fn s1_s3_the_cap_of_two_pools_on_postgres() {
    use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

    if let Some((url, journal)) = told() {
        return work(&url, &journal);
    }
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    the_cap_holds(&server.url(), "s1_s3_the_cap_of_two_pools_on_postgres");
}
