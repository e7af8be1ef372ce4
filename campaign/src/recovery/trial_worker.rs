//! A worker process of a trial, controlled by commands.

#![expect(clippy::disallowed_methods, reason = "it is used on a thread of its own, outside of any runtime")]

use std::io::Write;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Error;
use crate::history::{Event, What, clock};
use crate::rounds::tail::HistoryTail;
use crate::rounds::worker_commands::WorkerCommand;
use stanchion_testbed::faults::Process;

/// The mutex of the trials.
const MUTEX: &str = "mutex";
/// The time limit for each wait of a trial.
const WAIT_LIMIT: Duration = Duration::from_secs(20);
/// The interval between two reads of a history.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A worker process. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct TrialWorker {
    process: Process,
    input: ChildStdin,
    history: PathBuf,
    tail: HistoryTail,
    events: Vec<Event>,
}

/// The loss of a hold, in µs of the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// The time at which `lost()` resolved.
    pub(super) at: u64,
    /// The last renewed deadline.
    pub(super) deadline: u64,
}

impl TrialWorker {
    pub(super) fn new(process: Process, input: ChildStdin, history: PathBuf) -> Self {
        Self { process, input, history, tail: HistoryTail::default(), events: Vec::new() }
    }

    fn send(&mut self, command: &WorkerCommand) -> Result<(), Error> {
        Ok(writeln!(self.input, "{command}")?)
    }

    /// Sends the command to lock the mutex.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        self.lock_named(MUTEX)
    }

    pub(super) fn lock_named(&mut self, name: &str) -> Result<(), Error> {
        self.send(&WorkerCommand::Lock(name.to_owned()))
    }

    /// Makes the worker release its hold. Returns the time just before the release, in µs.
    pub(super) fn release(&mut self) -> Result<u64, Error> {
        self.send(&WorkerCommand::Release)?;
        self.await_event("release", |event| match event.what {
            What::Releasing { .. } => Some(event.at),
            _ => None,
        })
    }

    /// Kills the worker. Returns the time just before, in µs.
    pub(super) fn kill(&mut self) -> Result<u64, Error> {
        let at = clock::now();
        self.process.kill()?;
        Ok(at)
    }

    /// Waits for the worker's grant. Returns its time, in µs.
    pub(super) fn granted(&mut self) -> Result<u64, Error> {
        self.await_event("be granted the mutex", |event| match event.what {
            What::Granted { .. } => Some(event.at),
            _ => None,
        })
    }

    /// Waits until the worker loses its hold.
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

    /// Returns whether the worker has lost its hold by now.
    fn has_lost(&mut self) -> bool {
        self.events.extend(self.tail.look(&self.history));
        self.events.iter().any(|event| matches!(event.what, What::Lost))
    }

    /// Waits until the store reports this number of waiters for the mutex. Returns `false` if
    /// `holder` loses it before.
    pub(super) fn await_waiters(&mut self, waiters: u64, holder: &mut Self) -> Result<bool, Error> {
        let end = Instant::now() + WAIT_LIMIT;
        loop {
            self.send(&WorkerCommand::Count(MUTEX.to_owned()))?;
            let count = self.await_event("count the waiters", |event| match event.what {
                What::Counted { count } => Some(count),
                _ => None,
            })?;
            if count == waiters {
                return Ok(true);
            }
            if holder.has_lost() {
                return Ok(false);
            }
            if Instant::now() > end {
                return Err(
                    format!("{count} waiters for the mutex after {WAIT_LIMIT:?}, not {waiters}").into()
                );
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Reads the worker's history until `says` accepts an event.
    fn await_event<T>(&mut self, what: &str, mut says: impl FnMut(&Event) -> Option<T>) -> Result<T, Error> {
        let end = Instant::now() + WAIT_LIMIT;
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
                return Err(format!("a worker was to {what}, and has not within {WAIT_LIMIT:?}").into());
            }
            sleep(POLL_INTERVAL);
        }
    }
}
