//! The common interface of all test servers.

use std::fmt;
use std::io;
use std::path::Path;

use super::error::ServerError;
use super::launch;
use super::supervisor::Supervisor;

/// Returns whether the process with this id answers on our port; another server may have taken the
/// port first.
type Probe = Box<dyn Fn(u32) -> io::Result<bool> + Send + Sync>;

/// A running private server of this process: the common part of [`RedisServer`](super::RedisServer)
/// and [`PostgresServer`](super::PostgresServer).
///
/// # Drop
///
/// Kills the server, waits for its end and removes its folder.
pub struct Server {
    program: &'static str,
    supervisor: Supervisor,
    port: u16,
    probe: Probe,
}

impl Server {
    /// Starts the server, and waits until it answers.
    pub(super) fn start(
        program: &'static str,
        supervisor: Supervisor,
        port: u16,
        probe: Probe,
    ) -> Result<Self, ServerError> {
        let server = Self { program, supervisor, port, probe };
        server.restart()?;
        Ok(server)
    }

    /// Returns the port on 127.0.0.1; a restart keeps it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the server's (main) process id; `None` after [`kill`](Self::kill). A restart changes
    /// it.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// Returns the folder with its data, its configuration and its `server.log`.
    pub fn dir(&self) -> &Path {
        self.supervisor.folder()
    }

    /// Returns whether a client can log in and gets answers now. Takes at most 2 s a message.
    pub fn answers(&self) -> bool {
        self.pid().is_some_and(|pid| (self.probe)(pid).unwrap_or(false))
    }

    /// Kills the server and all its processes (`SIGKILL`); returns when they are gone.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the supervising shell is gone.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.supervisor.kill()
    }

    /// Pauses the server and all its processes (`SIGSTOP`): connections stay open, and no request
    /// is answered.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the supervising shell is gone.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.supervisor.pause()
    }

    /// Resumes a paused server (`SIGCONT`).
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the supervising shell is gone.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.supervisor.resume()
    }

    /// Kills the server if it runs, and restarts it on the same port and data; returns when it
    /// answers.
    ///
    /// # Errors
    ///
    /// The reason why it did not start.
    pub fn restart(&self) -> Result<(), ServerError> {
        launch::start(self.program, &self.supervisor, |pid| (self.probe)(pid))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("program", &self.program)
            .field("port", &self.port)
            .field("supervisor", &self.supervisor)
            .finish_non_exhaustive()
    }
}
