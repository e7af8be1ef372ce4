//! The errors of test servers.

use std::io;

use thiserror::Error;

/// The reason why a test server could not be found, installed, started or reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No program of a sufficient version is installed.
    #[error("{program} {version} or later is needed and was not found; install it with: {install}")]
    NotInstalled {
        /// The program looked for.
        program: &'static str,
        /// The oldest sufficient version.
        version: &'static str,
        /// The command that installs it.
        install: String,
    },
    /// The installation failed.
    #[error("what is missing could not be installed ({status}); the command was: {install}")]
    InstallFailed {
        /// The command that installs the programs.
        install: String,
        /// The exit status.
        status: String,
    },
    /// Postgres refuses to run as root, and there is no other account to run it as.
    #[error("postgres does not run as root, and there is neither an account `postgres` nor `nobody`")]
    NoAccount,
    /// A server's clock cannot be shifted here.
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
        /// The last lines of its log.
        log: String,
    },
    /// The server runs, but does not answer.
    #[error("{program} was started and does not answer: {log}")]
    Silent {
        /// The program.
        program: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// A container could not be used.
    #[cfg(feature = "containers")]
    #[error("could not {action}")]
    Container {
        /// The attempted action.
        action: &'static str,
        /// The error of the Docker daemon or its client.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system refused an action.
    #[error("could not {action}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The system's error.
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

    /// Returns whether another process took the port after it was chosen and before the server
    /// started.
    pub(super) fn is_port_taken(&self) -> bool {
        match self {
            Self::Ended { log, .. } => log.contains("Address already in use"),
            // The daemon's messages for a port of another container, or a port that it could not
            // take.
            #[cfg(feature = "containers")]
            Self::Container { source, .. } => {
                let said = source.to_string();
                said.contains("port is already allocated") || said.contains("address already in use")
            }
            _ => false,
        }
    }
}
