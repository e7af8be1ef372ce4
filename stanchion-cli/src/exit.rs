//! Exit codes, and the failures that lead to them.

use std::io;
use std::process::ExitCode;

use stanchion::ErrorKind;

use crate::errors;

/// The end of this program, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const DONE: Self = Self(0);
    /// The answer is no: not admitted, nothing to free, members lost.
    pub(crate) const NO: Self = Self(1);
    pub(crate) const USAGE: Self = Self(64);
    pub(crate) const UNAVAILABLE: Self = Self(69);
    pub(crate) const INTERNAL: Self = Self(70);
    pub(crate) const SKIPPED: Self = Self(75);
    pub(crate) const UNAUTHORIZED: Self = Self(77);
    pub(crate) const CONFIGURATION: Self = Self(78);
    pub(crate) const TIME_OVER: Self = Self(124);
    pub(crate) const LOST: Self = Self(125);
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    pub(crate) const NOT_FOUND: Self = Self(127);
    /// The status that a shell reports of a program that a closed pipe ends.
    pub(crate) const CLOSED_PIPE: Self = Self(128 + 13);

    /// Returns the status that a shell reports of a process that a signal ended.
    pub(crate) fn signal(number: i32) -> Self {
        Self(u8::try_from(128 + (number & 0x7f)).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// A reason why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{}", errors::text(.0))]
    Store(#[from] stanchion::Error),
    /// A command that only looks does not make or update the schema.
    #[error(
        "{}. This command only looks, and leaves the schema as it is; `run` and others that write bring it up to date",
        errors::text(.0)
    )]
    NotMigrated(stanchion::Error),
    #[error("the output could not be written: {0}")]
    Output(io::Error),
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: io::Error },
    #[error("the file of the {what} could not be read: {path:?}: {cause}")]
    File { what: &'static str, path: String, cause: io::Error },
    #[error(
        "sessions keep the mutexes of this namespace: a client that dies frees its mutex before its command has ended. \
         Use --semaphore 1, which leases keep"
    )]
    Sessions,
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::File { .. } => Exit::USAGE,
            Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Exit::CLOSED_PIPE,
            Self::Sessions => Exit::CONFIGURATION,
            Self::Output(_) | Self::System { .. } => Exit::INTERNAL,
            Self::Store(error) | Self::NotMigrated(error) => of_kind(error.kind()),
        }
    }

    /// Returns a function that says what failed, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }
}

/// Returns the code for an error of the library.
pub(crate) fn of_kind(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::InvalidArgument => Exit::USAGE,
        ErrorKind::Unauthorized => Exit::UNAUTHORIZED,
        ErrorKind::ConfigMismatch
        | ErrorKind::UnsafeStore
        | ErrorKind::StateLost
        | ErrorKind::Unsupported => Exit::CONFIGURATION,
        ErrorKind::Lost => Exit::LOST,
        ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Unknown
        | ErrorKind::Overloaded
        | ErrorKind::Closed => Exit::UNAVAILABLE,
        _ => Exit::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_reported_as_shells_do() {
        assert_eq!(
            [Exit::signal(2), Exit::signal(9), Exit::signal(13)],
            [Exit(130), Exit(137), Exit::CLOSED_PIPE]
        );
    }

    #[test]
    fn a_closed_pipe_is_no_internal_failure() {
        let closed = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(closed.exit(), Exit::CLOSED_PIPE);
        assert_eq!(Failure::Output(io::ErrorKind::StorageFull.into()).exit(), Exit::INTERNAL);
    }
}
