//! Runs test programs concurrently: most tests wait for leases and servers most of the time, and
//! their waits overlap.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::events::{ALLOWED_BY, ARGUMENTS, Ended, Told, Verdict};
use super::programs::Program;

/// Timeout of a program without output: after that it counts as stuck. A case of the suites may
/// take two minutes.
const STUCK: Duration = Duration::from_secs(300);
/// Maximum number of concurrent tests, over all programs. Most of them mostly wait. With 14, two
/// cores had 30 threads that were ready to run, the run took as long, and the tests waited for each
/// other.
const MAXIMUM_THREADS: usize = 8;
/// Maximum number of lines that are kept of a program's standard error.
const KEPT_LINES: usize = 200;

/// A program with its tests to run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) program: Program,
    /// The names of the tests.
    pub(crate) tests: Vec<String>,
    /// The number of concurrent tests.
    pub(crate) threads: usize,
    /// Variables of its environment.
    pub(crate) environment: Vec<(String, String)>,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) program: String,
    pub(crate) package: String,
    pub(crate) told: Told,
    /// The reason why not all of its tests have a result.
    pub(crate) broken: Option<String>,
    pub(crate) seconds: f64,
}

/// Runs jobs in their order, each as soon as its threads are free, and prints failures at once.
pub(crate) fn run(jobs: &[Job], seed: u64) -> Vec<Done> {
    let limit = ThreadLimit { free: Mutex::new(MAXIMUM_THREADS), freed: Condvar::new() };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for job in jobs {
            let slots = limit.take(job.threads);
            threads.push(scope.spawn(move || {
                let done = job.run(seed);
                drop(slots);
                done
            }));
        }
        let done = threads.into_iter().zip(jobs).map(|(thread, job)| {
            thread.join().unwrap_or_else(|_| job.broken("its thread panicked".to_owned()))
        });
        done.collect()
    })
}

/// A semaphore for the threads of tests.
struct ThreadLimit {
    free: Mutex<usize>,
    freed: Condvar,
}

impl ThreadLimit {
    /// Waits until this number of threads is free, at most the maximum number.
    fn take(&self, threads: usize) -> ThreadSlots<'_> {
        let threads = threads.min(MAXIMUM_THREADS);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| *free < threads).unwrap_or_else(PoisonError::into_inner);
        *free -= threads;
        ThreadSlots { limit: self, threads }
    }
}

struct ThreadSlots<'a> {
    limit: &'a ThreadLimit,
    threads: usize,
}

impl Drop for ThreadSlots<'_> {
    fn drop(&mut self) {
        *self.limit.free.lock().unwrap_or_else(PoisonError::into_inner) += self.threads;
        self.limit.freed.notify_all();
    }
}

impl Job {
    #[expect(
        clippy::disallowed_methods,
        reason = "a stopwatch for humans: no clock of the library is involved"
    )]
    fn run(&self, seed: u64) -> Done {
        let start = Instant::now();
        let mut done = self.watched(seed).unwrap_or_else(|error| self.broken(error.to_string()));
        done.seconds = start.elapsed().as_secs_f64();
        println!("{:>7.1} s  {:>5} tests  {}", done.seconds, done.told.ended.len(), done.program);
        done
    }

    fn broken(&self, reason: String) -> Done {
        Done {
            program: self.program.name(),
            package: self.program.package.clone(),
            told: Told::default(),
            broken: Some(reason),
            seconds: 0.0,
        }
    }

    fn watched(&self, seed: u64) -> io::Result<Done> {
        let mut command = self.program.command();
        command.arg("--exact").args(&self.tests).args(ARGUMENTS).env(ALLOWED_BY, "1");
        command.arg(format!("--test-threads={}", self.threads));
        command.env(crate::cli::SEED_VARIABLE, seed.to_string()).envs(self.environment.clone());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let errors = child.stderr.take().map(|stderr| thread::spawn(move || last_lines(stderr)));
        let mut done = self.broken(String::new());
        done.broken = self.listen(&mut child, &mut done.told)?;
        let status = child.wait()?;
        let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        if done.broken.is_none() && !done.told.is_complete {
            done.broken = Some(format!("{status} while {:?} ran", done.told.running));
        }
        if let Some(broken) = &mut done.broken {
            broken.push('\n');
            broken.push_str(&errors);
        }
        Ok(done)
    }

    /// Reads the program's output until it ends or gets stuck.
    fn listen(&self, child: &mut Child, told: &mut Told) -> io::Result<Option<String>> {
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().map(BufReader::new);
        let reader = thread::spawn(move || {
            for line in stdout.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        loop {
            match lines.recv_timeout(STUCK) {
                Ok(line) => {
                    if let Some(Ended { name, verdict: Verdict::Failed(output), .. }) = told.read(&line) {
                        println!("FAILED: {} {name}\n{output}", self.program.name());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = reader.join();
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    return Ok(Some(format!("stuck: {:?} ran for {STUCK:?}", told.running)));
                }
            }
        }
    }
}

fn last_lines(stderr: impl Read) -> String {
    let lines: Vec<String> = BufReader::new(stderr).lines().map_while(Result::ok).collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n")
}
