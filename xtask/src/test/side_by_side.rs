//! Test programs side by side: most tests wait for leases and servers most of the time, and their waits overlap.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::events::{ALLOWED_BY, ARGUMENTS, Ended, Told, Verdict};
use super::programs::Program;

/// A program that tells nothing for this long is stuck. A case of the suites may take two minutes.
const STUCK: Duration = Duration::from_secs(300);
/// How many tests run at the same time, over all programs. Most of them wait most of the time; with more, two cores are
/// oversubscribed, and the tests wait for each other.
const ROOM: usize = 14;
/// How many lines are kept of what a program prints for nobody.
const KEPT: usize = 200;

/// A program with the tests that it is to run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) program: Program,
    /// The names of the tests.
    pub(crate) tests: Vec<String>,
    /// How many of them run at the same time.
    pub(crate) threads: usize,
    /// Variables of its environment.
    pub(crate) environment: Vec<(String, String)>,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) program: String,
    pub(crate) package: String,
    pub(crate) told: Told,
    /// Why its tests are not all accounted for.
    pub(crate) broken: Option<String>,
    pub(crate) seconds: f64,
}

/// Runs jobs in their order, each as soon as there is room for its threads, and prints what fails at once.
pub(crate) fn run(jobs: &[Job], seed: u64) -> Vec<Done> {
    let room = Room { free: Mutex::new(ROOM), freed: Condvar::new() };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for job in jobs {
            let place = room.take(job.threads);
            threads.push(scope.spawn(move || {
                let done = job.run(seed);
                drop(place);
                done
            }));
        }
        let done = threads.into_iter().zip(jobs).map(|(thread, job)| {
            thread.join().unwrap_or_else(|_| job.broken("its thread panicked".to_owned()))
        });
        done.collect()
    })
}

/// Room for threads of tests.
struct Room {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Room {
    /// Waits until there is room for that many threads, or for as many as there ever are.
    fn take(&self, threads: usize) -> Place<'_> {
        let threads = threads.min(ROOM);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| *free < threads).unwrap_or_else(PoisonError::into_inner);
        *free -= threads;
        Place { room: self, threads }
    }
}

struct Place<'a> {
    room: &'a Room,
    threads: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().unwrap_or_else(PoisonError::into_inner) += self.threads;
        self.room.freed.notify_all();
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

    /// Reads what it tells until it ends or gets stuck.
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
    lines[lines.len().saturating_sub(KEPT)..].join("\n")
}
