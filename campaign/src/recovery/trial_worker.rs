//! A worker process of a trial, which does what it is told.

#![expect(clippy::disallowed_methods, reason = "it is used on a thread of its own, outside of any runtime")]

use std::io::Write;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Error;
use crate::history::{Event, What, clock};
use crate::rounds::worker_commands::WorkerCommand;
use crate::rounds::tail::HistoryTail;
use stanchion_testbed::faults::Process;

/// The mutex that the trials are about.
const MUTEX: &str = "mutex";
/// How long anything may take before a trial is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a history.
const GLANCE: Duration = Duration::from_millis(2);

/// A worker. It is killed at the end.
#[derive(Debug)]
pub(super) struct TrialWorker {
    process: Process,
    input: ChildStdin,
    history: PathBuf,
    tail: HistoryTail,
    events: Vec<Event>,
}

/// How a hold was seen to be lost, in µs of the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// When `lost()` resolved.
    pub(super) at: u64,
    /// The deadline, as renewed last.
    pub(super) deadline: u64,
}

impl TrialWorker {
    pub(super) fn new(process: Process, input: ChildStdin, history: PathBuf) -> Self {
        Self { process, input, history, tail: HistoryTail::default(), events: Vec::new() }
    }

    fn tell(&mut self, command: &WorkerCommand) -> Result<(), Error> {
        Ok(writeln!(self.input, "{command}")?)
    }

    /// Has it lock the mutex, or wait for it.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        self.lock_named(MUTEX)
    }

    pub(super) fn lock_named(&mut self, name: &str) -> Result<(), Error> {
        self.tell(&WorkerCommand::Lock(name.to_owned()))
    }

    /// Has it release what it holds. Gives the time before it began to, in µs.
    pub(super) fn release(&mut self) -> Result<u64, Error> {
        self.tell(&WorkerCommand::Release)?;
        self.await_event("release", |event| match event.what {
            What::Releasing { .. } => Some(event.at),
            _ => None,
        })
    }

    /// Kills it. Gives the time before, in µs.
    pub(super) fn kill(&mut self) -> Result<u64, Error> {
        let at = clock::now();
        self.process.kill()?;
        Ok(at)
    }

    /// When it was granted what it waits for, in µs.
    pub(super) fn granted(&mut self) -> Result<u64, Error> {
        self.await_event("be granted the mutex", |event| match event.what {
            What::Granted { .. } => Some(event.at),
            _ => None,
        })
    }

    /// How it lost what it holds.
    pub(super) fn lost(&mut self) -> Result<Loss, Error> {
        let mut last = None;
        self.await_event("lose the mutex", |event| match event.what {
            What::Believed { deadline, .. } => {
                last = deadline;
                None
            }
            What::Lost => last.map(|deadline| Loss { at: event.at, deadline }),
            _ => None,
        })
    }

    /// Waits until so many wait for the mutex, as the store tells it.
    pub(super) fn await_waiters(&mut self, waiters: u64) -> Result<(), Error> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.tell(&WorkerCommand::Count(MUTEX.to_owned()))?;
            let count = self.await_event("count the waiters", |event| match event.what {
                What::Counted { count } => Some(count),
                _ => None,
            })?;
            if count == waiters {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{count} wait for the mutex after {PATIENCE:?}, not {waiters}").into());
            }
            sleep(GLANCE);
        }
    }

    /// Reads on in its history until an event says it.
    fn await_event<T>(&mut self, what: &str, mut says: impl FnMut(&Event) -> Option<T>) -> Result<T, Error> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.events.extend(self.tail.look(&self.history));
            let mut said = None;
            let read = self.events.iter().position(|event| {
                said = says(event);
                said.is_some()
            });
            self.events.drain(..read.map_or(self.events.len(), |at| at + 1));
            if let Some(said) = said {
                return Ok(said);
            }
            if !self.process.is_alive() {
                return Err(format!("a worker was to {what}, and has ended; its own output says why").into());
            }
            if Instant::now() > end {
                return Err(format!("a worker was to {what}, and has not within {PATIENCE:?}").into());
            }
            sleep(GLANCE);
        }
    }
}
