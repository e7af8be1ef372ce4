//! The client's side of its supervisor.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::{CommandExt, ExitStatusExt as _};
use std::process::{self, Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, set_child_subreaper};
use rustix::termios::tcgetpgrp;
use stanchion::{Guard, GuardKind};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use super::orders::Orders;
use crate::output::message;
use crate::supervisor::descendants::Inherited;
use crate::supervisor::killing::{Interrupted, Told, kill_until_gone};
use crate::supervisor::protocol::{Order, Report};
use crate::supervisor::send_descriptor;
use crate::supervisor::wake::Wake;

/// This program itself, also after another version was installed.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Signals that a supervisor catches, once it can.
const EARLY: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// The environment of the command.
const TOKEN: &str = "STANCHION_TOKEN";
const TICKET: &str = "STANCHION_TICKET";
const NAME: &str = "STANCHION_NAME";

/// Whether this is a terminal at which another job is in the foreground: what is typed there is for
/// that one. The kernel keeps a job of the terminal's session from reading it, but the command is
/// in another session.
fn is_in_background(input: impl AsFd) -> bool {
    tcgetpgrp(input).is_ok_and(|foreground| foreground != getpgrp())
}

/// A supervisor that runs.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Child,
    orders: Orders,
    reports: Lines<BufReader<OwnedReadHalf>>,
    inherited: Inherited,
    is_over: bool,
}

impl Supervisor {
    /// Starts a supervisor, which waits for the first deadline. Must be called on the main thread:
    /// the kernel tells the supervisor when the thread that started it ends.
    pub(crate) fn start<K: GuardKind>(
        command: &[OsString],
        guard: &Guard<K>,
        lease: Duration,
    ) -> io::Result<Self> {
        // Where the supervisor alone is killed, its descendants become this process's. Any number
        // but 0 turns it on.
        set_child_subreaper(Pid::from_raw(1))?;
        let (own, other) = Socket::pair()?;
        let inherited = Inherited::now();
        let process = Command::new(THIS_PROGRAM)
            .arg0("stanchion")
            .arg(crate::SUPERVISE)
            .arg(format!("--parent={}", process::id()))
            .arg(format!("--lease={}", lease.as_millis()))
            .arg("--")
            .args(command)
            .env(TOKEN, guard.fencing_token().to_string())
            .env(TICKET, guard.ticket().to_string())
            .env(NAME, guard.name())
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(other)))
            .spawn()?;
        let sent = match is_in_background(io::stdin()) {
            true => send_descriptor(&own, File::open("/dev/null")?.as_fd()),
            false => send_descriptor(&own, io::stdin().as_fd()),
        };
        // That it has ended already shows when its reports are read.
        sent.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
        own.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(own)?.into_split();
        let orders = Orders::new(orders);
        Ok(Self { process, orders, reports: BufReader::new(reports).lines(), inherited, is_over: false })
    }

    /// Sends an order, now or while [`report`](Self::report) waits. A supervisor that has ended
    /// takes none; its reports show that.
    pub(crate) fn send(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// Returns the next report; `None` if the supervisor is gone, or answers in other words.
    ///
    /// # Cancel safety
    /// A dropped call loses no report and no order.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        loop {
            tokio::select! {
                line = self.reports.next_line() => return line.ok().flatten()?.parse().ok(),
                () = self.orders.can_go_on() => {}
            }
        }
    }

    /// Notes that the command and all its descendants are gone.
    pub(crate) fn is_over(&mut self) {
        self.is_over = true;
    }

    /// Returns the signal that has ended the supervisor before it caught signals, and so before the
    /// command was begun: Ctrl-C reaches it until it has a session of its own.
    pub(crate) fn was_ended_early(&mut self) -> Option<i32> {
        let signal = self.process.try_wait().ok().flatten()?.signal();
        let ended = signal.filter(|signal| EARLY.iter().any(|early| early.as_raw() == *signal))?;
        self.is_over = true;
        Some(ended)
    }

    /// Kills the supervisor, the command and all its descendants, and returns when they are gone.
    /// Children that this process had before the supervisor are left alone.
    ///
    /// It blocks the thread: nothing else is left to be done, and the engine has a thread of its
    /// own.
    ///
    /// # Errors
    /// `Interrupted` if this program was asked twice to end meanwhile, by signals: a process lives
    /// on.
    pub(crate) fn kill_all(&mut self) -> Result<(), Interrupted> {
        self.is_over = true;
        // Before anything ends, so that its end is reported.
        let mut wake = Wake::new();
        // Until it has a session of its own it would count as inherited.
        let _ = self.process.kill();
        let _ = self.process.wait();
        kill_until_gone(
            wake.as_mut().ok(),
            || self.inherited.others(),
            |told| match told {
                Told::Stuck(pid) => tell_stuck(pid.as_raw_nonzero().get()),
                Told::Asked => message("the command has not ended yet: another signal ends the wait for it"),
            },
        )
    }
}

/// Says that a process is another user's.
pub(crate) fn tell_stuck(pid: i32) {
    message(format_args!("process {pid} is another user's and cannot be ended: waiting for its end"));
}

impl Drop for Supervisor {
    /// No command goes on without its hold, also where this program panics.
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.kill_all();
        }
    }
}
