//! A process whose tasks only wait or only hold, so that its memory and its connections can be
//! measured alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use crate::Failure;
use crate::figure::whole;
use crate::lock::Lock;

/// The first argument of such a process.
pub const ARGUMENT: &str = "--idle";

/// The command for such a process: side, count and server.
#[derive(Clone, Debug)]
pub struct IdleCommand {
    /// The side's name.
    pub side: String,
    /// Number of tasks that wait or hold.
    pub count: usize,
    /// The URL of the server.
    pub url: String,
}

impl IdleCommand {
    /// Reads the command of this process, if it is such a process.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let mut arguments = env::args().skip_while(|argument| argument != ARGUMENT).skip(1);
        let (side, count, url) = (arguments.next()?, arguments.next()?.parse().ok()?, arguments.next()?);
        Some(Self { side, count, url })
    }
}

/// A process of waiting or holding tasks; it ends when this is dropped.
#[derive(Debug)]
pub struct Idle {
    child: Child,
    /// Memory of the process for each task, in bytes.
    pub memory: f64,
}

impl Idle {
    /// Starts the process, and returns when all of its tasks wait or hold.
    ///
    /// # Errors
    /// The errors of the process.
    pub fn start(command: &IdleCommand) -> Result<Self, Failure> {
        let mut child = Command::new(env::current_exe()?)
            .args([ARGUMENT, &command.side, &command.count.to_string(), &command.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let memory = line.trim().strip_prefix("ready ").and_then(|memory| memory.parse().ok());
        let mut idle = Self { child, memory: f64::NAN };
        idle.memory =
            memory.ok_or_else(|| format!("{} of {} did not come to wait", command.count, command.side))?;
        Ok(idle)
    }

    /// Returns the processor time that the process has used so far, in seconds.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn processor(&self) -> Result<f64, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(')').ok_or("a line without a name")?.1;
        let field =
            |index| after_name.split_whitespace().nth(index).and_then(|field| field.parse::<u32>().ok());
        // The fields utime and stime, in hundredths of a second on Linux; see proc(5).
        let (user, system) = (field(11).ok_or("no user time")?, field(12).ok_or("no system time")?);
        Ok(f64::from(user + system) / 100.0)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // Its input ends with the process; it is not asked to give anything back.
        if self.child.kill().and_then(|()| self.child.wait().map(drop)).is_err() {
            eprintln!("a process of those that wait could not be ended");
        }
    }
}

/// Runs in such a process: `count` tasks wait for the one lock, which another process holds. Does
/// not return before the standard input ends.
///
/// # Errors
/// The error of the side, if a task ends.
pub async fn wait<L: Lock>(lock: &L, count: usize, settle: Duration) -> Result<(), Failure> {
    let before = memory()?;
    let waiting: Vec<_> = (0..count)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.lock().await.map(drop) })
        })
        .collect();
    tokio::time::sleep(settle).await;
    for task in waiting {
        if task.is_finished() {
            task.await??;
            return Err("it was granted".into());
        }
    }
    ready(count, before).await
}

/// Runs in such a process: holds each lock. Does not return before the standard input ends.
///
/// # Errors
/// The errors of the side.
pub async fn hold<L: Lock>(locks: Vec<L>, settle: Duration) -> Result<(), Failure> {
    let before = memory()?;
    let count = locks.len();
    let mut held = Vec::with_capacity(count);
    // In batches, because the pool of a peer may be no larger.
    for some in locks.chunks(512) {
        let tasks: Vec<_> =
            some.iter().cloned().map(|lock| tokio::spawn(async move { lock.lock().await })).collect();
        for task in tasks {
            held.push(task.await??);
        }
    }
    tokio::time::sleep(settle).await;
    ready(count, before).await
}

/// Prints that the process is ready, and waits for the end of the input.
async fn ready(count: usize, before: f64) -> Result<(), Failure> {
    println!("ready {}", (memory()? - before) / whole(count.max(1)));
    io::stdout().flush()?;
    let ended = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
    ended.await??;
    Ok(())
}

/// Returns the resident memory of this process, in bytes.
fn memory() -> Result<f64, Failure> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split_whitespace().nth(1).ok_or("no resident pages")?.parse::<u32>()?;
    Ok(f64::from(resident) * whole(rustix::param::page_size()))
}
