//! The kinds of errors.

use std::fmt;

/// The kind of an error, so that a caller can decide without reading text ([C21]).
///
/// [C21]: crate::contract#c21
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A drain or probe did not finish within its time limit, or a transaction's `lock_timeout` was
    /// over before it had the mutex. No outcome is unknown because of it.
    Timeout,
    /// The hold is not the caller's any more: it expired, was released by force, released before,
    /// or taken over.
    Lost,
    /// The store could not be reached. The request was certainly not executed.
    Unavailable,
    /// The request was sent and no answer arrived: it may or may not have been executed ([C3]).
    ///
    /// [C3]: crate::contract#c3
    Unknown,
    /// An argument outside its range. It is found before any I/O ([C19]), or a changed parameter
    /// made it impossible ([C20]).
    ///
    /// [C19]: crate::contract#c19
    /// [C20]: crate::contract#c20
    InvalidArgument,
    /// A parameter differs from the one the store holds ([C20]), or a layout from the one this
    /// version writes.
    ///
    /// [C20]: crate::contract#c20
    ConfigMismatch,
    /// Wrong credentials, or a right that is missing.
    Unauthorized,
    /// The store is configured so that it could break exclusion ([C22]).
    ///
    /// [C22]: crate::contract#c22
    UnsafeStore,
    /// A record that was seen live is gone: the store lost data ([W6]).
    ///
    /// [W6]: crate::contract#w6
    StateLost,
    /// The store does not offer this operation; see [`Capabilities`](crate::Capabilities).
    Unsupported,
    /// There is no room: the queue has `max_waiters` waiters ([C26]), the limiter no more tokens to
    /// reserve, or the process no memory for an export.
    ///
    /// [C26]: crate::contract#c26
    Overloaded,
    /// The store object was closed by [`Store::close`](crate::Store::close).
    Closed,
}

impl ErrorKind {
    /// Returns whether a call that ended so can succeed later without a change by the caller;
    /// [`Error::is_retryable`](crate::Error::is_retryable) says whether it should be repeated.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Timeout | Self::Unavailable | Self::Unknown | Self::Overloaded)
    }

    /// Returns whether this ends even a call without a time limit ([C17]), since waiting cannot
    /// resolve it.
    ///
    /// [C17]: crate::contract#c17
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Timeout | Self::Unavailable | Self::Unknown)
    }

    /// Returns the kind as one word, `invalid_argument` for instance, as logs have it in
    /// `error.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::ConfigMismatch => "config_mismatch",
            Self::Unauthorized => "unauthorized",
            Self::UnsafeStore => "unsafe_store",
            Self::StateLost => "state_lost",
            Self::Unsupported => "unsupported",
            Self::Overloaded => "overloaded",
            Self::Closed => "closed",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Timeout => "timed out",
            Self::Lost => "hold lost",
            Self::Unavailable => "store unavailable",
            Self::Unknown => "outcome unknown",
            Self::InvalidArgument => "invalid argument",
            Self::ConfigMismatch => "configuration mismatch",
            Self::Unauthorized => "unauthorized",
            Self::UnsafeStore => "unsafe store",
            Self::StateLost => "state lost",
            Self::Unsupported => "unsupported",
            Self::Overloaded => "overloaded",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
