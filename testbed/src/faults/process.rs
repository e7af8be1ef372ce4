//! Worker processes of a test, which it can kill and stop.

use std::fs;
use std::io::{self, ErrorKind};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::servers::wait_until;

/// Time limit for a process to stop, on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A process that this test has started: often its own program again, with a variable that selects
/// the worker's role.
///
/// Signals go to this process only, not to its children. It needs Linux, for `/proc`.
///
/// # Drop
///
/// Kills the process and waits for its end. A test that is killed itself drops nothing, so a worker
/// should end at the end of its standard input.
///
/// ```no_run
/// use std::process::{Command, Stdio};
/// use stanchion_testbed::faults::Process;
///
/// let mut worker = Process::spawn(Command::new("sleep").arg("60").stdin(Stdio::piped()))?;
/// worker.stop()?;
/// worker.resume()?;
/// worker.kill()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the process, with the command's standard streams.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(|child| Self { child })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the writing end of its standard input, once, if the command has it piped.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Returns the reading end of its standard output, once, if the command has it piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the reading end of its standard error, once, if the command has it piped.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Kills the process (`SIGKILL`), even if it is stopped, and waits for its end. Does nothing if
    /// it has ended.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Stops the process (`SIGSTOP`). Returns when all its threads have stopped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if it has ended; [`ErrorKind::TimedOut`] if it does not stop within
    /// 10 s.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal("STOP")?;
        let pid = self.id();
        let stopped = wait_until(STOP_LIMIT, || all_stopped(pid).then_some(()));
        stopped.ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Resumes the process (`SIGCONT`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if it has ended.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal("CONT")
    }

    /// Waits for its end, for at most `limit`; `None` if it still runs. Blocks the thread.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        wait_until(limit, || self.child.try_wait().transpose()).transpose()
    }

    /// Returns whether the process has not ended. A stopped process is alive.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn signal(&mut self, signal: &str) -> io::Result<()> {
        // The system does not reuse its id before its end was waited for.
        if self.child.try_wait()?.is_some() {
            return Err(ErrorKind::NotFound.into());
        }
        let pid = self.id().to_string();
        let script = "kill -s \"$0\" \"$1\"";
        let status = Command::new("sh").args(["-c", script, signal, &pid]).stdin(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns whether every thread of a process is stopped or has ended.
fn all_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_none_or(|state| state.trim_start().starts_with(['T', 't', 'Z', 'X']))
    })
}
