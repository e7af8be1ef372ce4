//! What can go wrong with a test server.

use std::io;

use thiserror::Error;

/// Why a test server could not be found, installed, started or reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No program of a sufficient version is installed.
    #[error("{program} {version} or later is needed and was not found; install it with: {install}")]
    NotInstalled {
        /// The program looked for.
        program: &'static str,
        /// The oldest version that serves.
        version: &'static str,
        /// The command that installs it.
        install: String,
    },
    /// The installation failed.
    #[error("the servers could not be installed ({status}); the command was: {install}")]
    InstallFailed {
        /// The command that installs them.
        install: String,
        /// How it ended.
        status: String,
    },
    /// Postgres refuses to run as root, and there is no other account to run it as.
    #[error("postgres does not run as root, and there is neither an account `postgres` nor `nobody`")]
    NoAccount,
    /// No server's clock can be shifted here.
    #[error("no clock to shift: {reason}")]
    NoClock {
        /// What is missing.
        reason: &'static str,
    },
    /// The server, or a tool of it, ended instead of starting.
    #[error("{program} ended at its start: {log}")]
    Ended {
        /// The program.
        program: &'static str,
        /// The last lines it has written.
        log: String,
    },
    /// The server runs and does not answer.
    #[error("{program} was started and does not answer: {log}")]
    Silent {
        /// The program.
        program: &'static str,
        /// The last lines it has written.
        log: String,
    },
    /// The operating system refused something.
    #[error("could not {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ServerError {
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// Whether another process took the port between its choice and the server's start.
    pub(super) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Ended { log, .. } if log.contains("Address already in use"))
    }
}
