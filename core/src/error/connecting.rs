//! The errors of connections that were not made, in the same words on every store
//! ([C21](crate::contract#c21)).

use std::io;

use super::{Error, ErrorKind};

/// The beginning of the standard library's text about a host that was not found.
const LOOKUP_FAILED: &str = "failed to lookup address information: ";
/// The beginning of the TLS library's text about an answer that is not TLS.
const NOT_TLS: &str = "received corrupt message";
/// Maximum length of a cause in the text, in characters.
const MAX_CAUSE: usize = 160;

impl Error {
    /// Returns the error of a connection that was not made, for authors of stores. Its text names
    /// the cause. If the server ended the connection or did not answer, the text asks whether it
    /// speaks `protocol` ("TLS", "Postgres").
    #[must_use]
    pub fn unreached(protocol: &str, cause: &io::Error) -> Self {
        let text: String = cause.to_string().chars().take(MAX_CAUSE).collect();
        let detail = match cause.kind() {
            io::ErrorKind::TimedOut => {
                format!(
                    "no answer to a new connection in time: is the server paused or busy? does it speak {protocol}?"
                )
            }
            io::ErrorKind::ConnectionRefused => {
                "the server could not be reached: connection refused".to_owned()
            }
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => {
                format!("the server ended the new connection: does it speak {protocol}?")
            }
            // The TLS library's errors are of this kind.
            io::ErrorKind::InvalidData if text.starts_with(NOT_TLS) => {
                format!("no secure connection was made: {text}: does the server speak TLS?")
            }
            io::ErrorKind::InvalidData => format!("no secure connection was made: {text}"),
            _ => match text.strip_prefix(LOOKUP_FAILED) {
                Some(why) => format!("the server could not be reached: unknown host: {why}"),
                None => format!("the server could not be reached: {text}"),
            },
        };
        Self::new(ErrorKind::Unavailable, detail)
    }

    /// Returns the error of a connection that the server did not answer in time, for authors of
    /// stores.
    #[must_use]
    pub fn unanswered(protocol: &str) -> Self {
        let cause = io::Error::from(io::ErrorKind::TimedOut);
        Self::unreached(protocol, &cause).with_source(cause)
    }

    /// Returns the error of a connection that the server answered in another protocol, for authors
    /// of stores.
    #[must_use]
    pub fn misunderstood(protocol: &str) -> Self {
        let detail = format!("the server's first answer was not understood: does it speak {protocol}?");
        Self::new(ErrorKind::Unavailable, detail)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn c21_the_text_tells_why_there_is_no_connection() {
        let lookup = io::Error::other("failed to lookup address information: Name or service not known");
        let corrupt = "received corrupt message of type InvalidContentType";
        for (cause, words) in [
            (io::ErrorKind::ConnectionRefused.into(), "could not be reached: connection refused"),
            (lookup, "could not be reached: unknown host: Name or service not known"),
            (io::ErrorKind::ConnectionReset.into(), "ended the new connection: does it speak Redis?"),
            (io::ErrorKind::UnexpectedEof.into(), "ended the new connection: does it speak Redis?"),
            (io::ErrorKind::TimedOut.into(), "in time: is the server paused or busy? does it speak Redis?"),
            (io::Error::new(io::ErrorKind::InvalidData, corrupt), "does the server speak TLS?"),
            (io::Error::new(io::ErrorKind::InvalidData, "bad issuer"), "connection was made: bad issuer"),
            (io::Error::other("no route"), "could not be reached: no route"),
        ] {
            let error = Error::unreached("Redis", &cause);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().ends_with(words), "{error}");
        }
        let silent = Error::unanswered("Redis");
        assert!(silent.source().is_some_and(|source| source.is::<io::Error>()), "{silent:?}");
        assert!(Error::misunderstood("Redis").to_string().ends_with("speak Redis?"));
        let long = io::Error::other("x".repeat(1_000));
        assert!(Error::unreached("Redis", &long).to_string().len() < 300);
    }
}
