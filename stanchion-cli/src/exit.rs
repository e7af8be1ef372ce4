//! Exit codes, and the failures that lead to them.

use std::io;
use std::process::{self, ExitCode};

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};
use signal_hook::low_level::emulate_default_handler;
use stanchion::ErrorKind;

use crate::errors;
use crate::supervisor::ignored::Ignored;

/// Signals that end whole jobs: a shell asks what ended a command, to know whether it is to go on
/// with the next one.
const OF_JOBS: [Signal; 5] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP, Signal::PIPE];

/// The end of this program, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    code: u8,
    /// The signal that ends this program, in the place of the code.
    signal: Option<Signal>,
}

impl Exit {
    pub(crate) const DONE: Self = Self::of(0);
    /// The answer is no: not admitted, nothing to free, members lost.
    pub(crate) const NO: Self = Self::of(1);
    pub(crate) const USAGE: Self = Self::of(64);
    pub(crate) const UNAVAILABLE: Self = Self::of(69);
    pub(crate) const INTERNAL: Self = Self::of(70);
    pub(crate) const SKIPPED: Self = Self::of(75);
    pub(crate) const UNAUTHORIZED: Self = Self::of(77);
    pub(crate) const CONFIGURATION: Self = Self::of(78);
    pub(crate) const TIME_OVER: Self = Self::of(124);
    pub(crate) const LOST: Self = Self::of(125);
    pub(crate) const NOT_EXECUTABLE: Self = Self::of(126);
    pub(crate) const NOT_FOUND: Self = Self::of(127);
    /// The status that a shell reports of a program that a closed pipe ends.
    pub(crate) const CLOSED_PIPE: Self = Self::of(128 + 13);

    pub(crate) const fn of(code: u8) -> Self {
        Self { code, signal: None }
    }

    /// Ends this program as a signal has ended its command, or its wait: by the same signal where
    /// that is one that ends jobs, else with the status that a shell reports of it.
    pub(crate) fn signal(number: i32) -> Self {
        let code = u8::try_from(128 + (number & 0x7f)).unwrap_or(u8::MAX);
        Self { code, signal: OF_JOBS.into_iter().find(|signal| signal.as_raw() == number) }
    }

    /// Returns the code that a shell shows.
    pub(crate) fn code(self) -> u8 {
        self.code
    }

    /// Returns the same code, without a signal.
    pub(crate) fn as_code(self) -> Self {
        Self::of(self.code)
    }

    /// Ends this program by the signal, if it is one; else returns the code to end with.
    ///
    /// The kernel lets no signal end the first process of a container, and the caller may have
    /// wanted the signal ignored.
    pub(crate) fn end(self) -> ExitCode {
        // The standard library lets this program ignore PIPE.
        let is_ignored = |signal| signal != Signal::PIPE && Ignored::read().contains(signal);
        let deadly = |signal: &Signal| process::id() != 1 && !is_ignored(*signal);
        if let Some(signal) = self.signal.filter(deadly) {
            // No core is written for a command's end, nor given to a program that collects them.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _ = emulate_default_handler(signal.as_raw());
        }
        ExitCode::from(self.code)
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
        assert_eq!([2, 9, 13, 127].map(|number| Exit::signal(number).code()), [130, 137, 141, 255]);
        assert_eq!(Exit::signal(9), Exit::of(137), "nobody asks to be killed");
        assert_eq!(Exit::signal(13).as_code(), Exit::CLOSED_PIPE);
        assert_ne!(Exit::signal(2), Exit::of(130));
    }

    #[test]
    fn a_closed_pipe_is_no_internal_failure() {
        let closed = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(closed.exit(), Exit::CLOSED_PIPE);
        assert_eq!(Failure::Output(io::ErrorKind::StorageFull.into()).exit(), Exit::INTERNAL);
    }
}
