//! The shell between a test process and its server: it ends the server with the process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::account::Account;
use super::error::ServerError;

const SCRIPT: &str = include_str!("supervisor.sh");
const LOG_LINES: usize = 6;

/// One server, its folder, and the shell that supervises both.
///
/// The shell reads a pipe whose other end only this process holds. The kernel closes that end
/// however the process ends, and the shell then kills the server and removes the folder. A thread
/// of this process could not do it, and the parent-death signal is tied to a thread and forgotten
/// when the user changes.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    state: Mutex<State>,
    // Last, so that it is removed after the server is gone.
    folder: TempDir,
}

#[derive(Debug)]
struct State {
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pid: Option<u32>,
}

impl Supervisor {
    /// Creates a supervisor of `folder`. [`start`](Self::start) runs `command`, as `account` or as
    /// the caller.
    pub(crate) fn new(
        folder: TempDir,
        account: Option<Account>,
        command: &[OsString],
    ) -> Result<Self, ServerError> {
        let mut shell = Command::new("sh");
        shell
            .args([OsStr::new("-c"), OsStr::new(SCRIPT), OsStr::new("supervisor"), folder.path().as_os_str()])
            .args(command)
            .current_dir(folder.path())
            .env("LC_ALL", "C")
            // A Ctrl-C in the terminal is for the test process; the shell acts when the process has
            // ended.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(account) = account {
            shell.uid(account.uid).gid(account.gid);
        }
        let mut shell = shell.spawn().map_err(ServerError::io("start the supervising `sh`"))?;
        let (Some(orders), Some(answers)) = (shell.stdin.take(), shell.stdout.take()) else {
            return Err(ServerError::io("open the supervisor's pipes")(io::ErrorKind::BrokenPipe.into()));
        };
        let state = State { orders: Some(orders), answers: BufReader::new(answers), pid: None };
        Ok(Self { shell, state: Mutex::new(state), folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the server's process id; `None` before the first start and after a kill.
    pub(super) fn pid(&self) -> Option<u32> {
        self.state().pid
    }

    /// Starts the server. Kills it first if it still runs.
    pub(super) fn start(&self) -> Result<u32, ServerError> {
        self.kill()?;
        let mut state = self.state();
        let answer = state.order("start").map_err(ServerError::io("start the server"))?;
        let pid = answer
            .parse()
            .map_err(|_| ServerError::io("read the server's pid")(io::ErrorKind::InvalidData.into()))?;
        state.pid = Some(pid);
        Ok(pid)
    }

    /// Kills the server and its child processes; returns when all of them are gone.
    pub(super) fn kill(&self) -> Result<(), ServerError> {
        let mut state = self.state();
        state.order("kill").map_err(ServerError::io("kill the server"))?;
        state.pid = None;
        Ok(())
    }

    /// Pauses the server and its child processes.
    pub(super) fn pause(&self) -> Result<(), ServerError> {
        self.state().order("pause").map(drop).map_err(ServerError::io("pause the server"))
    }

    /// Resumes a paused server.
    pub(super) fn resume(&self) -> Result<(), ServerError> {
        self.state().order("resume").map(drop).map_err(ServerError::io("resume the server"))
    }

    /// Returns the last lines of the server's log, as one line.
    pub(super) fn log(&self) -> String {
        let text = fs::read(self.folder().join("server.log")).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&text))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn order(&mut self, order: &str) -> io::Result<String> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(format!("{order}\n").as_bytes())?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer.trim_end().to_owned()),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).orders = None;
        let _ = self.shell.wait();
    }
}

/// Joins the last lines of a program's output into one, for an error message.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
}
