//! The end of a command: every descendant is asked to end, and then killed.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::clock::Moment;
use super::descendants::{self, Process, Ticks};
use super::killing::Killing;
use super::protocol::Cause;

/// An end that has begun. It is not taken back.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    kill_at: Moment,
    /// Processes that had begun then are asked.
    begun_by: Ticks,
    /// They were looked for since. What begins in the same tick, later, is told from them by that
    /// alone.
    has_looked: bool,
    /// By what stays the same when a parent dies.
    asked: HashSet<(Pid, Option<Ticks>)>,
    killing: Killing,
}

impl Ending {
    pub(crate) fn new(cause: Cause, kill_at: Moment) -> Self {
        Self {
            cause,
            kill_at,
            begun_by: Ticks::now(),
            has_looked: false,
            asked: HashSet::new(),
            killing: Killing::new(),
        }
    }

    /// Ends no later than at `kill_at`, for this cause.
    pub(crate) fn hasten(&mut self, cause: Cause, kill_at: Moment) {
        self.cause = cause;
        self.kill_at = self.kill_at.min(kill_at);
    }

    /// Asks the processes, too, that began meanwhile: the first process of the command has ended,
    /// and nobody waits for them any more.
    pub(crate) fn ask_again(&mut self) {
        self.begun_by = Ticks::now();
        self.has_looked = false;
    }

    /// Asks the descendants that live when the end begins to end, and kills all that are left
    /// later. Returns the ones that cannot be signalled, once each.
    ///
    /// A process that was asked may need others to clean up, such as `sleep` in the trap of a
    /// shell: those are left alone until they are killed. To be called until no descendant is left.
    pub(crate) fn step(&mut self) -> Vec<Pid> {
        let descendants = descendants::all();
        if Moment::now() >= self.kill_at {
            return self.killing.step(&descendants);
        }
        let mut stuck = Vec::new();
        let (then, has_looked) = (self.begun_by, mem::replace(&mut self.has_looked, true));
        for process in descendants {
            let is_meant =
                if has_looked { process.has_begun_before(then) } else { process.has_begun_by(then) };
            if !is_meant {
                continue;
            }
            if self.ask(process).is_err() && self.killing.is_newly_stuck(process.pid) {
                stuck.push(process.pid);
            }
        }
        stuck
    }

    /// Returns when to do the next step.
    pub(crate) fn interval(&self) -> Duration {
        self.killing.interval()
    }

    /// Asks a process to end, once. A stopped one goes on, so that it can.
    fn ask(&mut self, process: Process) -> io::Result<()> {
        if !self.asked.insert(process.identity()) {
            return Ok(());
        }
        process.signal(Signal::TERM)?;
        process.signal(Signal::CONT)
    }
}
