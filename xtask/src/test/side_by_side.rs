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
/// Maximum number of concurrent tests, over all programs. Most of them mostly wait: a test keeps a
/// processor busy for a tenth of its time on average, so two cores stay below their limit.
const MAXIMUM_THREADS: usize = 12;
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

/// Runs jobs, and prints failures at once. Whenever threads become free, the first job starts that
/// needs no more than these: a job with many threads keeps no others waiting.
pub(crate) fn run(jobs: &[Job], seed: u64) -> Vec<Done> {
    let waiting = Waiting::new(jobs.iter().map(|job| job.threads));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        while let Some(next) = waiting.next() {
            let waiting = &waiting;
            let job = &jobs[next];
            let running = scope.spawn(move || {
                let done = job.run(seed);
                waiting.end(job.threads);
                done
            });
            threads.push((next, running));
        }
        threads.sort_by_key(|(index, _)| *index);
        let done = threads.into_iter().map(|(index, thread)| {
            thread.join().unwrap_or_else(|_| jobs[index].broken("its thread panicked".to_owned()))
        });
        done.collect()
    })
}

/// The jobs that have not begun, and the threads that no job uses.
struct Waiting {
    state: Mutex<WaitingState>,
    freed: Condvar,
}

struct WaitingState {
    /// The index of each job, with the threads that it needs.
    jobs: Vec<(usize, usize)>,
    free: usize,
}

impl Waiting {
    fn new(threads: impl Iterator<Item = usize>) -> Self {
        let jobs = threads.map(|threads| threads.min(MAXIMUM_THREADS)).enumerate().collect();
        let state = Mutex::new(WaitingState { jobs, free: MAXIMUM_THREADS });
        Self { state, freed: Condvar::new() }
    }

    /// Waits until a job can start, and returns it with its threads taken; `None` if there are no
    /// more.
    fn next(&self) -> Option<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.jobs.is_empty() {
                return None;
            }
            let free = state.free;
            if let Some(first) = state.jobs.iter().position(|(_, threads)| *threads <= free) {
                let (job, threads) = state.jobs.remove(first);
                state.free -= threads;
                return Some(job);
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, threads: usize) {
        let threads = threads.min(MAXIMUM_THREADS);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).free += threads;
        self.freed.notify_all();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_with_many_threads_keeps_no_other_waiting() {
        let waiting = Waiting::new([MAXIMUM_THREADS - 1, 2, 1, MAXIMUM_THREADS + 1].into_iter());
        assert_eq!((waiting.next(), waiting.next()), (Some(0), Some(2)));
        waiting.end(MAXIMUM_THREADS - 1);
        assert_eq!(waiting.next(), Some(1));
        waiting.end(1);
        waiting.end(2);
        assert_eq!((waiting.next(), waiting.next()), (Some(3), None));
    }

    #[test]
    fn a_job_waits_for_its_threads() {
        let waiting = Waiting::new([MAXIMUM_THREADS, 1].into_iter());
        assert_eq!(waiting.next(), Some(0));
        thread::scope(|scope| {
            let next = scope.spawn(|| waiting.next());
            waiting.end(MAXIMUM_THREADS);
            assert_eq!(next.join().unwrap(), Some(1));
        });
    }
}
