//! The server under load: a child of this process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;

/// Timeout for the server to start, and for it to end after `SIGTERM`.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The program `ingest`, on a free port.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pid: u32,
    address: SocketAddr,
    output: Lines<BufReader<ChildStdout>>,
}

impl Server {
    pub(crate) async fn start(program: &Path, folder: &Path, options: &[String]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--store"])
            .arg(folder)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let pid = child.id().ok_or("the server ended at once")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let line = timeout(TIMEOUT, output.next_line()).await??.ok_or("the server did not start")?;
        let address = line.strip_prefix("listening on ").ok_or("the server does not say where it listens")?;
        Ok(Self { child, pid, address: address.parse()?, output })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends `SIGTERM`.
    pub(crate) fn terminate(&self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid)?).ok_or("no process")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits for the server to end, and returns its summary.
    pub(crate) async fn end(&mut self) -> Result<String> {
        let summary = timeout(TIMEOUT, self.output.next_line()).await??.unwrap_or_default();
        let status = timeout(TIMEOUT, self.child.wait()).await??;
        if status.success() {
            Ok(summary)
        } else {
            Err(format!("the server ended with {status}: {summary}").into())
        }
    }
}
