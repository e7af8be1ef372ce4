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
    #[error("what is missing could not be installed ({status}); the command was: {install}")]
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
    /// There is no container to be had.
    #[cfg(feature = "containers")]
    #[error("could not {action}")]
    Container {
        /// What was tried.
        action: &'static str,
        /// What the Docker daemon or its client said.
        source: Box<dyn std::error::Error + Send + Sync>,
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

    #[cfg(feature = "containers")]
    pub(super) fn container<E>(action: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Self::Container { action, source: source.into() }
    }

    /// Whether another process took the port between its choice and the server's start.
    pub(super) fn is_port_taken(&self) -> bool {
        match self {
            Self::Ended { log, .. } => log.contains("Address already in use"),
            // As the daemon says it, of a port that it has given to another container or could not take.
            #[cfg(feature = "containers")]
            Self::Container { source, .. } => {
                let said = source.to_string();
                said.contains("port is already allocated") || said.contains("address already in use")
            }
            _ => false,
        }
    }
}
