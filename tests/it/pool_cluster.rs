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
/// More workers than permits, so that each process could use all permits.
const WORKERS: usize = 6;
/// It outlasts a machine that stands still for seconds.
const TTL: Duration = Duration::from_secs(5);
/// Timeout far above what the test takes, for a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Jobs of each process before the kill: enough for the two processes to compete many times.
const WARM: usize = 40;

/// The arguments for a worker follow this one. The test harness takes them for the exact names of
/// more tests, of which there are none.
const LAST_HARNESS_ARGUMENT: &str = "--nocapture";

/// A file to which all processes append. The system writes one line after the other, so the order
/// of the lines is the order of events: a job's `start` is written once it has its permit, and its
/// `end` while it still has it.
struct Journal(File);

impl Journal {
    fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    fn write(&self, process: u32, what: &str, job: usize) {
        (&self.0).write_all(format!("{process} {what} {job}\n").as_bytes()).unwrap();
    }
}

/// Writes the end of a job to the journal, however the job ends.
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

/// Runs a worker process: its pool never lacks jobs until the standard input ends.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn work(url: &str, journal: &Path) {
    let store = stanchion::connect(url).await.unwrap();
    let pool =
        WorkerPool::builder().workers(WORKERS).queue(WORKERS).cluster_cap(cap(&*store)).build().unwrap();
    let journal = Arc::new(Journal::open(journal).unwrap());
    let (stop, mut stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        drop(stop);
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
            _ = &mut stopped => break,
            submitted = pool.submit(task) => drop(submitted.unwrap()),
        }
    }
    pool.drain().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn available(url: &str) -> usize {
    let store = stanchion::connect(url).await.unwrap();
    let available = cap(&*store).available().await.unwrap();
    store.close().await.unwrap();
    usize::try_from(available).unwrap()
}

/// The state according to the journal.
#[derive(Default)]
struct JournalView {
    running: BTreeSet<(u32, usize)>,
    /// Maximum number of jobs at once, in both processes.
    maximum: usize,
    /// The same maximum since a process was killed.
    maximum_since_death: usize,
    died: bool,
    ended: Vec<u32>,
}

impl JournalView {
    fn of(journal: &Path) -> Self {
        let mut view = Self::default();
        let text = fs::read_to_string(journal).unwrap_or_default();
        // The last line may be incomplete.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            view.read_line(line);
        }
        view
    }

    fn read_line(&mut self, line: &str) {
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
        self.maximum = self.maximum.max(self.running.len());
        if self.died {
            self.maximum_since_death = self.maximum_since_death.max(self.running.len());
        }
    }

    fn running(&self, process: &Process) -> usize {
        self.running.iter().filter(|(running, _)| *running == process.id()).count()
    }

    fn ended(&self, process: &Process) -> usize {
        self.ended.iter().filter(|ended| **ended == process.id()).count()
    }
}

/// Starts a worker: the same program, which runs only the test with this name.
fn start(test: &str, url: &str, journal: &Path) -> Process {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("pool_cluster::{test}"), LAST_HARNESS_ARGUMENT, url])
        .arg(journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    Process::spawn(&mut command).unwrap()
}

fn worker_arguments() -> Option<(String, PathBuf)> {
    let mut arguments = env::args().skip_while(|argument| argument != LAST_HARNESS_ARGUMENT).skip(1);
    Some((arguments.next()?, arguments.next()?.into()))
}

/// Stops the process at a moment at which it has a permit.
fn stop_at_work(process: &mut Process, journal: &Path) {
    let stopped = wait_until(TIMEOUT, || {
        process.stop().unwrap();
        if JournalView::of(journal).running(process) > 0 {
            return Some(());
        }
        process.resume().unwrap();
        None
    });
    stopped.expect("the process never has a permit");
}

fn the_cap_holds(url: &str, test: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut victim = start(test, url, &path);
    let mut survivor = start(test, url, &path);
    let warm = wait_until(TIMEOUT, || {
        let view = JournalView::of(&path);
        (view.ended(&victim) >= WARM && view.ended(&survivor) >= WARM).then_some(())
    });
    warm.expect("the two processes make no progress");

    stop_at_work(&mut victim, &path);
    let (stopped, watch) = (Instant::now(), Stopwatch::start());
    victim.kill().unwrap();
    Journal::open(&path).unwrap().write(victim.id(), "dead", 0);
    // The killed process was waiting too (C5).
    let timeout = TTL + EPSILON + DEAD_IN_FRONT;
    while JournalView::of(&path).maximum_since_death < PERMITS {
        assert!(watch.elapsed() < timeout, "the permits of the dead process do not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    let recovered = stopped.elapsed();
    // Its jobs are far shorter than the lease, so the job in which it was stopped had most of the
    // lease ahead.
    assert!(recovered > TTL / 2, "the permits of the dead process were given away after {recovered:?}");

    let ended = JournalView::of(&path).ended(&survivor);
    let goes_on =
        wait_until(TIMEOUT, || (JournalView::of(&path).ended(&survivor) >= ended + WARM).then_some(()));
    goes_on.expect("the survivor stands still");
    drop(survivor.take_stdin());
    assert!(survivor.wait(TIMEOUT).unwrap().expect("the survivor does not end").success());

    let view = JournalView::of(&path);
    assert_eq!(view.maximum, PERMITS, "jobs at once in both processes");
    assert_eq!(view.maximum_since_death, PERMITS, "jobs at once in the survivor");
    assert!(view.running.is_empty(), "jobs that did not end: {:?}", view.running);
    assert_eq!(available(url), PERMITS);
    println!(
        "{} jobs; all {PERMITS} permits were in use again {recovered:?} after the stop",
        view.ended.len()
    );
}

#[cfg(feature = "redis")]
#[test]
fn s1_s3_the_cap_of_two_pools_on_redis() {
    use stanchion_testbed::servers::{RedisOptions, RedisServer};

    if let Some((url, journal)) = worker_arguments() {
        return work(&url, &journal);
    }
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    the_cap_holds(&server.url(), "s1_s3_the_cap_of_two_pools_on_redis");
}

#[cfg(feature = "postgres")]
#[test]
fn s1_s3_the_cap_of_two_pools_on_postgres() {
    use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

    if let Some((url, journal)) = worker_arguments() {
        return work(&url, &journal);
    }
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    the_cap_holds(&server.url(), "s1_s3_the_cap_of_two_pools_on_postgres");
}
