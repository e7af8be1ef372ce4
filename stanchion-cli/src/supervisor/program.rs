//! The supervisor's loop.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, getppid};

use super::channel::Channel;
use super::clock::{Moment, timespec};
use super::descendants;
use super::ending::Ending;
use super::protocol::{Cause, NotStarted, Order, Report, Status};
use super::timing::Timing;
use super::wake::Wake;

/// Signals that end a command as a rule.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// Signals that a service manager sends to every process of a unit.
const OF_UNITS: [Signal; 2] = [Signal::TERM, Signal::HUP];
/// How long such a signal is kept back, to see whether the manager sends it to this process, too.
const KEPT_BACK: Duration = Duration::from_millis(50);
/// Time for which a manager's signal to this process and one to its client count as one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// The error of a file that is no program for this machine (`ENOEXEC`).
const NOT_A_PROGRAM: rustix::io::Errno = rustix::io::Errno::NOEXEC;

/// The process that keeps the hold, and started this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(Pid);

impl Client {
    /// Returns the client with that number; `None` if it has died.
    pub(crate) fn of(number: i32) -> Option<Self> {
        Pid::from_raw(number).map(Self).filter(|client| client.lives())
    }

    fn lives(self) -> bool {
        getppid() == Some(self.0)
    }
}

/// The command and its supervision.
#[derive(Debug)]
pub(crate) struct Program {
    command: Vec<OsString>,
    client: Client,
    channel: Channel,
    wake: Wake,
    timing: Timing,
    deadline: Option<Moment>,
    stdin: Option<OwnedFd>,
    /// The command's first process, which leads its group.
    main: Option<Pid>,
    status: Option<Status>,
    ending: Option<Ending>,
    is_stopped: bool,
    /// Signals that came before the command was started.
    early: Vec<Signal>,
    /// Signals that are to be passed on, and when.
    kept_back: Vec<(Signal, Moment)>,
    /// Signals of a manager, which the command has got as well, and until when they count.
    of_manager: Vec<(Signal, Moment)>,
}

impl Program {
    pub(crate) fn new(
        command: Vec<OsString>,
        client: Client,
        channel: Channel,
        wake: Wake,
        timing: Timing,
    ) -> Self {
        Self {
            command,
            client,
            channel,
            wake,
            timing,
            deadline: None,
            stdin: None,
            main: None,
            status: None,
            ending: None,
            is_stopped: false,
            early: Vec::new(),
            kept_back: Vec::new(),
            of_manager: Vec::new(),
        }
    }

    /// Returns when no descendant is left.
    pub(crate) fn run(mut self) {
        loop {
            self.listen();
            self.watch_deadline();
            if self.main.is_none() && !self.begin() {
                return;
            }
            if self.main.is_some() && !self.reap() {
                let status = self.status.unwrap_or(Status::Exit(0));
                let cause = self.ending.as_ref().map_or(Cause::Itself, |ending| ending.cause);
                return self.channel.send(Report::Ended { status, cause });
            }
            if let Some(ending) = &mut self.ending {
                for pid in ending.step() {
                    self.channel.send(Report::Stuck(pid.as_raw_nonzero().get()));
                }
            }
            self.sleep();
        }
    }

    /// Follows the client's orders, and ends the command when the client has died.
    fn listen(&mut self) {
        let (wishes, now) = (self.wake.take(), Moment::now());
        for order in self.channel.receive() {
            match order {
                Order::Deadline(at) => self.deadline = Some(at),
                Order::Signal(number) => match Signal::from_named_raw(number) {
                    Some(signal) if self.main.is_some() && OF_UNITS.contains(&signal) => {
                        self.kept_back.push((signal, now.after(KEPT_BACK)));
                    }
                    Some(signal) => self.pass_on(signal),
                    None => {}
                },
                Order::Lost => self.end(Cause::Lost),
            }
        }
        let is_one_unit = self.main.is_some_and(is_of_this_unit);
        let of_manager = wishes.into_iter().filter(|wish| is_one_unit && wish.is_of_a_manager());
        self.of_manager.extend(of_manager.map(|wish| (wish.signal, now.after(ONE_SIGNAL))));
        self.of_manager.retain(|(_, until)| *until > now);
        for (signal, at) in std::mem::take(&mut self.kept_back) {
            if let Some(same) = self.of_manager.iter().position(|(of, _)| *of == signal) {
                self.of_manager.swap_remove(same);
                self.acts_upon(signal);
            } else if at > now {
                self.kept_back.push((signal, at));
            } else {
                self.pass_on(signal);
            }
        }
        self.stdin = self.channel.take_descriptor().or(self.stdin.take());
        if self.channel.is_closed() || !self.client.lives() {
            self.end(Cause::Client);
        }
    }

    fn watch_deadline(&mut self) {
        if self.deadline.is_some_and(|deadline| Moment::now() >= self.timing.term_at(deadline)) {
            self.end(Cause::Deadline);
        }
    }

    /// Begins the end, or hastens an end that has begun. A loss replaces any other cause.
    fn end(&mut self, cause: Cause) {
        let now = Moment::now();
        let kill_at = self.deadline.map_or(now, |deadline| self.timing.kill_at(now, deadline));
        match &mut self.ending {
            Some(ending) if ending.cause == Cause::Itself => ending.hasten(cause, kill_at),
            Some(_) => return,
            None => self.ending = Some(Ending::new(cause, kill_at)),
        }
        self.channel.send(Report::Ending(cause));
    }

    /// Starts the command once its input and the hold's deadline are known. Returns whether it has
    /// still to be waited for.
    fn begin(&mut self) -> bool {
        if let Some(ending) = &self.ending {
            let report = Report::Ended { status: Status::Signal(Signal::TERM.as_raw()), cause: ending.cause };
            self.channel.send(report);
            return false;
        }
        // The command would have been ended by it.
        if let Some(signal) = self.early.iter().find(|signal| ENDING.contains(signal)) {
            self.channel
                .send(Report::Ended { status: Status::Signal(signal.as_raw()), cause: Cause::Itself });
            return false;
        }
        if self.deadline.is_none() || self.stdin.is_none() {
            return true;
        }
        match self.start() {
            Ok(pid) => {
                // What a manager has sent so far may not have reached the command. Rather twice
                // than never.
                let _ = self.wake.take();
                self.of_manager.clear();
                self.main = Some(pid);
                for signal in std::mem::take(&mut self.early) {
                    self.pass_on(signal);
                }
            }
            Err(error) => {
                self.channel.send(Report::NotStarted(why_not_started(&error)));
                return false;
            }
        }
        true
    }

    fn start(&mut self) -> io::Result<Pid> {
        let stdin = self.stdin.take().map_or_else(Stdio::null, Stdio::from);
        let program = self.command.first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(&self.command[1..]).stdin(stdin).process_group(0);
        let child = command.spawn()?;
        Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Collects processes that have ended. Returns whether there are others.
    fn reap(&mut self) -> bool {
        while let Some(ended) = descendants::reap() {
            if ended.is_empty() {
                return true;
            }
            let main = ended.into_iter().find(|(pid, _)| Some(*pid) == self.main);
            if let (Some((_, status)), None) = (main, self.status) {
                self.status = Some(status);
                // The processes that it has left behind must not run when the lock is free.
                match &mut self.ending {
                    None => self.end(Cause::Itself),
                    Some(ending) => ending.ask_again(),
                }
            }
        }
        false
    }

    /// Passes a signal on to the group of the command, as a terminal does.
    fn pass_on(&mut self, signal: Signal) {
        let Some(main) = self.main else { return self.early.push(signal) };
        descendants::signal_group(main, signal);
        self.acts_upon(signal);
    }

    /// Notes what the command does upon a signal that it has got. A stopped process acts upon it
    /// when it goes on.
    fn acts_upon(&mut self, signal: Signal) {
        match signal {
            Signal::TSTP => self.is_stopped = true,
            Signal::CONT => self.is_stopped = false,
            _ if self.is_stopped && ENDING.contains(&signal) => {
                self.is_stopped = false;
                self.main.into_iter().for_each(|main| descendants::signal_group(main, Signal::CONT));
            }
            _ => {}
        }
    }

    /// Waits for the client, for a signal, or until there is something to do.
    fn sleep(&self) {
        let time = match (&self.ending, self.deadline) {
            (Some(ending), _) => Some(ending.interval()),
            (None, Some(deadline)) => Some(self.timing.term_at(deadline).left()),
            (None, None) => None,
        };
        let kept_back = self.kept_back.iter().map(|(_, at)| at.left());
        let time = time.into_iter().chain(kept_back).min().map(timespec);
        let mut events = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if !self.channel.is_closed() {
            events.push(PollFd::new(&self.channel, PollFlags::IN));
        }
        // An interrupted wait is looked into as any other.
        let _ = poll(&mut events, time.as_ref());
    }
}

/// Whether a process is in the control group of this one: a command may have left it.
fn is_of_this_unit(process: Pid) -> bool {
    let group = |process: &str| fs::read(format!("/proc/{process}/cgroup")).ok();
    group(&process.as_raw_nonzero().to_string()).is_some_and(|other| Some(other) == group("self"))
}

fn why_not_started(error: &io::Error) -> NotStarted {
    match error.kind() {
        io::ErrorKind::NotFound => NotStarted::NotFound,
        io::ErrorKind::PermissionDenied => NotStarted::NotExecutable,
        _ if error.raw_os_error() == Some(NOT_A_PROGRAM.raw_os_error()) => NotStarted::NotExecutable,
        _ => NotStarted::Other(error.raw_os_error().unwrap_or_default()),
    }
}
