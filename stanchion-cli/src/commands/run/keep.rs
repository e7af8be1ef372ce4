//! Keeps the hold while the command runs.

use std::ffi::OsString;
use std::process;
use std::time::{Duration, Instant};

use stanchion::spi::clock;
use stanchion::{Guard, GuardKind};

use super::child::{Supervisor, tell_stuck};
use super::exit_file::{self, Ended};
use crate::exit::{Exit, Failure};
use crate::output::{flush_messages, message};
use crate::signals::Signals;
use crate::supervisor::clock::Moment;
use crate::supervisor::killing::Interrupted;
use crate::supervisor::protocol::{Cause, NotStarted, Order, Report, Status};
use crate::supervisor::timing::Timing;

/// Maximum and minimum of the interval at which the deadline is read.
const MAX_TICK: Duration = Duration::from_millis(100);
const MIN_TICK: Duration = Duration::from_millis(20);
/// What is said of a program that was not found and has blanks in its name.
const HINT: &str = ": a command with blanks in one word is for a shell: sh -c \"…\"";

/// A command that runs under a hold.
#[derive(Debug)]
pub(crate) struct Keeping {
    supervisor: Supervisor,
    /// The command's first word.
    command: String,
    timing: Timing,
    tick: Duration,
    /// The last deadline that was sent to the supervisor.
    deadline: Option<Instant>,
}

impl Keeping {
    pub(crate) fn start<K: GuardKind>(
        command: &[OsString],
        guard: &Guard<K>,
        lease: Duration,
    ) -> Result<Self, Failure> {
        let supervisor = Supervisor::start(command, guard, lease);
        let supervisor = supervisor.map_err(Failure::system("the supervisor could not be started"))?;
        let tick = (lease / 40).clamp(MIN_TICK, MAX_TICK);
        let command = command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        Ok(Self { supervisor, command, timing: Timing::of_lease(lease), tick, deadline: None })
    }

    /// Sends deadlines and signals to the supervisor until the command and all its descendants are
    /// gone.
    pub(crate) async fn until_ended<K: GuardKind>(
        &mut self,
        guard: &Guard<K>,
        signals: &mut Signals,
    ) -> Ended {
        let (mut is_lost, mut silent_ticks) = (false, 0);
        let mut next_tick = clock::now() + self.tick;
        loop {
            self.tell_deadline(guard);
            tokio::select! {
                biased;
                // First, and by its own time: neither signals nor reports keep it from being seen
                // that the supervisor is late.
                () = clock::sleep(next_tick.saturating_duration_since(clock::now())) => {
                    next_tick = clock::now() + self.tick;
                    silent_ticks = if self.is_late() { silent_ticks + 1 } else { 0 };
                    // The first one can come before a report that was sent in time, where this
                    // process was stopped.
                    if silent_ticks == 2 {
                        return self.take_over("the supervisor does not answer");
                    }
                }
                report = self.supervisor.report() => match report {
                    None => return self.take_over("the supervisor was killed"),
                    Some(report) => if let Some(ended) = told(report, guard.name(), &self.command) {
                        self.supervisor.is_over();
                        return ended;
                    },
                },
                () = guard.lost(), if !is_lost => {
                    is_lost = true;
                    self.supervisor.send(Order::Lost);
                }
                signal = signals.next() => self.supervisor.send(Order::Signal(signal.as_raw())),
            }
        }
    }

    fn tell_deadline<K: GuardKind>(&mut self, guard: &Guard<K>) {
        let deadline = guard.deadline().filter(|_| guard.is_held());
        if deadline.is_some() && deadline != self.deadline {
            self.deadline = deadline;
        } else if self.deadline.is_some() {
            return;
        }
        // A hold that was lost at once has none: the command is not started.
        let at = self.deadline.map_or_else(Moment::now, Moment::of);
        self.supervisor.send(Order::Deadline(at));
    }

    /// Returns whether the supervisor, which was stopped for instance, has not ended the command
    /// when it should have.
    fn is_late(&self) -> bool {
        let last = self.deadline.map(|at| at.checked_sub(self.timing.kill * 3 / 4).unwrap_or(at));
        last.is_some_and(|last| clock::real().into_std() >= last)
    }

    /// Takes the place of a supervisor that is gone. The command's status is not known then.
    fn take_over(&mut self, why: &str) -> Ended {
        if let Some(signal) = self.supervisor.was_ended_early() {
            return Ended::Here(Exit::signal(signal));
        }
        message(format_args!("{why}: the command is killed"));
        if let Err(Interrupted) = self.supervisor.kill_all() {
            message("the command has not ended: its lock is free at the end of the lease");
            exit_file::write(Ended::Here(Exit::LOST));
            flush_messages();
            // Any other end of this program would release the hold.
            process::exit(Exit::LOST.code().into());
        }
        Ended::Here(Exit::LOST)
    }
}

/// Shows a report, and returns the end that follows from the last one.
fn told(report: Report, name: &str, command: &str) -> Option<Ended> {
    match report {
        Report::NotStarted(NotStarted::NotFound) => {
            let hint = if command.contains(char::is_whitespace) { HINT } else { "" };
            message(format_args!("{command:?} was not found{hint}"));
            Some(Ended::Here(Exit::NOT_FOUND))
        }
        Report::NotStarted(NotStarted::NotExecutable) => {
            message(format_args!("{command:?} is not executable"));
            Some(Ended::Here(Exit::NOT_EXECUTABLE))
        }
        Report::NotStarted(NotStarted::Other(code)) => {
            let cause = std::io::Error::from_raw_os_error(code);
            message(format_args!("{command:?} could not be started: {cause}"));
            Some(Ended::Here(Exit::NOT_EXECUTABLE))
        }
        Report::Ending(Cause::Itself) => None,
        Report::Ending(cause) => {
            message(format_args!("the command is ended: {}", reason(cause, name)));
            None
        }
        Report::Stuck(pid) => {
            tell_stuck(pid);
            None
        }
        Report::Ended { cause: Cause::Deadline | Cause::Lost, .. } => Some(Ended::Here(Exit::LOST)),
        Report::Ended { status: Status::Signal(signal), .. } => Some(Ended::Command(Exit::signal(signal))),
        Report::Ended { status: Status::Exit(code), .. } => {
            Some(Ended::Command(Exit::of(u8::try_from(code).unwrap_or(u8::MAX))))
        }
    }
}

fn reason(cause: Cause, name: &str) -> String {
    match cause {
        Cause::Itself => "it has ended".to_owned(),
        Cause::Deadline => format!("the hold of {name:?} could not be renewed"),
        Cause::Lost => format!("the hold of {name:?} is lost"),
        Cause::Client => "its client has died".to_owned(),
    }
}
