//! The one error type of all stores.

mod connecting;
mod kind;
mod refusals;
mod shown;
mod url;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use self::kind::ErrorKind;
use self::shown::{Shown, ShownAddress};
use crate::{FencingToken, Name};

/// The operations that do more when they are executed twice than once. All others are idempotent,
/// or undo an unknown outcome before they return the error.
const ADD_UP: [&str; 6] = ["allow", "allow_n", "insert", "insert_many", "force_unlock", "force_release"];

/// An error of any store: kind, operation, store, name, address and source ([C21]).
///
/// `Display` is one line without the source. `Debug` is the same line with all causes, as a `main`
/// prints it that returns the error. Neither holds a password, nor more than 64 bytes of a value
/// that a caller passed in. Not getting a lock is not an error but a value (`None`).
///
/// [C21]: crate::contract#c21
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    detail: Cow<'static, str>,
    operation: Option<&'static str>,
    store: Option<&'static str>,
    name: Option<String>,
    address: Option<String>,
    /// Shared by the errors that [`Error::replicate`] makes.
    source: Option<Arc<dyn StdError + Send + Sync>>,
    is_answer: bool,
}

impl Error {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed, as named in the trait (`lock`, `release`, …).
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the store: `memory`, `redis`, `postgres`.
    #[must_use]
    pub fn store(&self) -> Option<&'static str> {
        self.0.store
    }

    /// Returns the object's name, if the operation had one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns the address of the server that was asked, if it is known.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.0.address.as_deref()
    }

    /// Returns whether it makes sense to make the same call again, without a change by the caller.
    /// A call whose outcome is `Unknown` is repeated only if a second execution has no further
    /// effect. Not repeated are a decision, which may have been charged for, an insert, whose retry
    /// would find its own items, and a release by force, whose retry could free a later holder.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let adds_up = || self.operation().is_some_and(|operation| ADD_UP.contains(&operation));
        self.kind().is_retryable() && !(self.kind() == ErrorKind::Unknown && adds_up())
    }
}

/// For authors of stores.
impl Error {
    /// Makes an error without context; the engine adds operation, store and name.
    pub fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            detail: detail.into(),
            operation: None,
            store: None,
            name: None,
            address: None,
            source: None,
            is_answer: false,
        }))
    }

    /// Makes an [`ErrorKind::InvalidArgument`] with the bound that was exceeded.
    pub fn invalid_argument(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, detail)
    }

    /// Makes an [`ErrorKind::Lost`].
    #[must_use]
    pub fn lost() -> Self {
        Self::new(ErrorKind::Lost, "the hold is no longer the caller's")
    }

    /// Makes an [`ErrorKind::Lost`] of a fence that refuses a token, since it has seen a larger
    /// one, or the same one of another hold; `None` if the fence does not show which.
    #[must_use]
    pub fn fenced_off(token: FencingToken, seen: Option<FencingToken>) -> Self {
        let detail = match seen {
            Some(seen) if seen == token => {
                format!("token {token} may not write any more: another hold with it has")
            }
            Some(seen) => format!("token {token} may not write any more: token {seen} has"),
            None => format!("token {token} may not write any more: a newer holder has"),
        };
        Self::new(ErrorKind::Lost, detail)
    }

    /// Makes an [`ErrorKind::Closed`].
    #[must_use]
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the store object was closed")
    }

    /// Adds the cause. [`source`](StdError::source) returns it; `Display` does not print it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source: Box<dyn StdError + Send + Sync> = source.into();
        self.0.source = Some(Arc::from(source));
        self
    }

    /// Marks an error of this request alone: the store is there, but a row is locked by another
    /// transaction, for instance. Without the mark, an [`ErrorKind::Unavailable`] or
    /// [`ErrorKind::Unknown`] can be the beginning of an outage ([C29]).
    ///
    /// [C29]: crate::contract#c29
    #[must_use]
    pub fn of_a_store_that_answers(mut self) -> Self {
        self.0.is_answer = true;
        self
    }

    /// Adds operation, store and name, each if it is not set yet.
    #[must_use]
    pub fn context(mut self, operation: &'static str, store: &'static str, name: &str) -> Self {
        self.0.operation.get_or_insert(operation);
        self.0.store.get_or_insert(store);
        // A longer one is not legal, and could be of any length.
        if self.0.name.is_none() && (1..=Name::MAX_BYTES).contains(&name.len()) {
            self.0.name = Some(name.to_owned());
        }
        self
    }

    /// Sets the operation, where one call of the user's makes another one.
    #[must_use]
    pub fn in_operation(mut self, operation: &'static str) -> Self {
        self.0.operation = Some(operation);
        self
    }

    /// Adds the address of the server that was asked, if it is not set yet: `HOST:PORT`, or the
    /// path of a socket.
    #[must_use]
    pub fn at(mut self, address: &str) -> Self {
        self.0.address.get_or_insert_with(|| address.to_owned());
        self
    }

    /// Makes a second error of the same kind, text and source, for another caller of the same
    /// request.
    #[must_use]
    pub fn replicate(&self) -> Self {
        let inner = &self.0;
        Self(Box::new(Inner {
            kind: inner.kind,
            detail: inner.detail.clone(),
            operation: inner.operation,
            store: inner.store,
            name: inner.name.clone(),
            address: inner.address.clone(),
            source: inner.source.clone(),
            is_answer: inner.is_answer,
        }))
    }

    pub(crate) fn is_answer(&self) -> bool {
        self.0.is_answer
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        write!(f, "{}", inner.kind)?;
        if let Some(operation) = inner.operation {
            write!(f, " in `{operation}`")?;
        }
        if let Some(name) = &inner.name {
            write!(f, " of {}", Shown(name))?;
        }
        if let Some(store) = inner.store {
            write!(f, " on {store}")?;
        }
        if let Some(address) = &inner.address {
            write!(f, " at {}", ShownAddress(address))?;
        }
        write!(f, ": {}", inner.detail)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors end with the text of their own cause, and that of a system call has its
            // number behind it.
            let words = text.split_once(" (os error").map_or(&*text, |(words, _)| words);
            if !line.to_lowercase().ends_with(&words.to_lowercase()) {
                line.push_str(": ");
                line.push_str(&text);
            }
            source = cause.source();
        }
        f.write_str(&line)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// `Result` with the library's [`struct@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn c21_long_and_odd_names_are_shown_in_one_short_line() {
        let error = |name: &str| Error::closed().context("lock", "redis", name);
        assert_eq!(
            error("a\n\"b").to_string(),
            r#"closed in `lock` of "a\n\"b" on redis: the store object was closed"#
        );
        let legal = "é".repeat(256);
        assert_eq!(error(&legal).name(), Some(&*legal), "a legal name is kept whole");
        assert!(error(&legal).to_string().ends_with("… (512 bytes) on redis: the store object was closed"));
        assert_eq!(error(&"x".repeat(513)).name(), None);
    }

    #[test]
    fn c21_debug_is_the_line_with_its_causes() {
        let source = Error::new(ErrorKind::Unavailable, "refused").with_source(fmt::Error);
        let error = Error::new(ErrorKind::Unavailable, "no connection").with_source(source);
        let line = format!("{error:?}");
        assert!(line.starts_with("store unavailable: no connection: store unavailable: refused: "), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn c21_debug_tells_no_cause_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("no answer: {0}")]
        struct Outer(#[source] io::Error);

        let error = Error::new(ErrorKind::Unknown, "sent").with_source(Outer(io::Error::other("reset")));
        assert_eq!(format!("{error:?}"), "outcome unknown: sent: no answer: reset");
        let refused = Error::new(ErrorKind::Unavailable, "not reached: connection refused");
        // ECONNREFUSED.
        let refused = refused.with_source(io::Error::from_raw_os_error(111));
        assert_eq!(format!("{refused:?}"), "store unavailable: not reached: connection refused");
    }

    #[test]
    fn c21_each_caller_of_a_request_gets_the_address_and_the_source() {
        let first = Error::new(ErrorKind::Unavailable, "refused").at("h:1").with_source(fmt::Error);
        let second = first.replicate().at("h:2").context("connect", "redis", "");
        assert_eq!(second.address(), Some("h:1"), "the first address is kept");
        assert_eq!(second.to_string(), "store unavailable in `connect` on redis at h:1: refused");
        assert!(second.source().is_some_and(|source| source.is::<fmt::Error>()));
    }

    #[test]
    fn c21_what_adds_up_is_not_repeated_when_its_outcome_is_unknown() {
        for (operation, repeats) in
            [("try_lock", true), ("release", true), ("allow", false), ("insert_many", false)]
        {
            let error = |kind| Error::new(kind, "").context(operation, "redis", "x");
            assert_eq!(error(ErrorKind::Unknown).is_retryable(), repeats, "{operation}");
            assert!(error(ErrorKind::Unavailable).is_retryable() && !error(ErrorKind::Lost).is_retryable());
        }
    }
}
