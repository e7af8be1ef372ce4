//! One request, as the proxy saw it.

use std::fmt;
use std::time::Duration;

use super::action::Action;

const SHOWN_TEXT: usize = 160;

/// A request that the proxy has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Its number among all requests of the proxy, from 1.
    pub sequence: u64,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// Its number on its connection, from 1.
    pub number: u64,
    /// In upper case: a Redis command; the first word of a Postgres statement, or `STARTUP`,
    /// `SSLREQUEST`, `CANCEL`, `CALL`, `CLOSE`, `DESCRIBE`, `SYNC` without a statement.
    pub name: String,
    /// The first elements of a Redis command, 32 at most, or the (first) statement to Postgres: up
    /// to 2000 characters, with single blanks for white space. For logins, it contains no secrets.
    pub text: String,
    /// When the proxy saw it, since the start of the proxy.
    pub at: Duration,
    /// The actions of rules on it or its reply.
    pub actions: Vec<Action>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, connection, number, text, at, actions, .. } = self;
        write!(f, "#{sequence} at {at:.3?}, connection {connection} request {number}: {text:.SHOWN_TEXT$}")?;
        if actions.is_empty() { Ok(()) } else { write!(f, " {actions:?}") }
    }
}
