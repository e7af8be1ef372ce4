//! The meaning of the client's errors: a request was certainly not executed, or it may have been
//! (C3, C21).
//!
//! A request is a transaction. A request that the server refuses with severity `ERROR` is rolled
//! back, so it was certainly not executed. If the session ends (`FATAL`, `PANIC`), the connection
//! breaks, or no answer arrives, the commit may have come first.
//!
//! | `SQLSTATE` | what happened | what the caller gets |
//! | --- | --- | --- |
//! | `42501` | rolled back: the role lacks a right | `Unauthorized` with the server's message, which names the table or function |
//! | `28…` | not connected: credentials | `Unauthorized` |
//! | `3D000` | not connected: no such database | `InvalidArgument` |
//! | `3F000`, `42P01`, `42883`, `42703`, `42704` | rolled back: the schema is missing or another version's | `ConfigMismatch` that says how to make it |
//! | `25006` | rolled back: the server is a standby now, or takes no writes | `Unavailable`; the connection is replaced |
//! | `57014`, `40001`, `40P01` | rolled back: a timeout, a conflict | `Unavailable` |
//! | `55P03` | rolled back: somebody else has a row locked | `Unavailable`; the rest of its batch is sent again |
//! | `STM01` | rolled back: more has ended at a name than one step removes | it is removed, and the request sent again; `Unavailable` if there is no time for that |
//! | `53…` | not connected, or rolled back: connections, memory or disk are used up | `Unavailable` |
//! | `0A000`, `26000`, `42P05` | not executed: a prepared statement is out of date | `Unavailable`; the connection is replaced |
//! | any other of severity `ERROR` | rolled back | `Unavailable` with its code and message |
//! | `57P03`, any other when connecting | not connected: the server starts or stops | `Unavailable` |
//! | `57P05`, `25P03` | not executed: the session was idle and had ended before | `Unavailable`; the connection is replaced |
//! | `57P01`, `57P02`, any other `FATAL` or `PANIC` | the session ended | `Unknown`; the connection is replaced |
//!
//! A failure to connect is `Unavailable`, with its cause and the address. A connection that broke,
//! or an answer that did not arrive in time, is `Unknown`. Through a pooler each request is a
//! transaction of several messages, and only its commit can be `Unknown`.

use std::error::Error as StdError;
use std::{io, iter};

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use stanchion_core::{Error, ErrorKind};

/// The protocol that servers should speak, as errors name it.
pub(crate) const PROTOCOL: &str = "Postgres";
/// Maximum length of the server's message in an error, in characters.
const MAX_MESSAGE: usize = 160;
/// Says how to make the schema.
const MAKE_SCHEMA: &str = "run the SQL of `stanchion::postgres::schema_sql()` as an administrator (see \
                           `stanchion::guide::operating_postgres`), or connect with migrate=on";
/// Says how to get a right.
const GRANT_RIGHT: &str = "the SQL of `stanchion::postgres::schema_sql()` grants it to the role it is made for (see \
                           `stanchion::guide::operating_postgres`)";
/// The server's code for a right that is missing.
const NO_RIGHT: &str = "42501";
/// The server's code for a row that was locked for too long.
const LOCKED: &str = "55P03";
/// The code of our functions for a name at which more has ended than one step removes.
const UNTIDY: &str = "STM01";

/// The server's codes for a table, a column, another object or a function that is there already.
const ALREADY_THERE: [&str; 4] = ["42P07", "42701", "42710", "42723"];
/// What PgBouncer says of a transaction in its statement mode, which it does not begin.
const OF_STATEMENTS: &str = "statement pooling mode";

fn of_server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Returns the server's code, if the error comes from the server.
pub(crate) fn code(error: &sqlx::Error) -> Option<&str> {
    of_server(error).map(PgDatabaseError::code)
}

/// Returns whether the connection can be used again, because the server refused the statement and
/// nothing else failed.
pub(crate) fn leaves_connection(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| {
        error.severity() == PgSeverity::Error
            && !["25006", "25P02", "0A000", "26000", "42P05"].contains(&error.code())
    })
}

/// Returns whether a statement was given up because somebody else has locked what it needs.
pub(crate) fn is_held_up(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(LOCKED | "57014"))
}

/// Returns whether a request waited for a row in vain. Nothing of it was executed.
pub(crate) fn is_locked(error: &Error) -> bool {
    has_code(error, LOCKED)
}

/// Returns whether a request could not be decided before more is tidied up at one of its names.
/// Nothing of it was executed.
pub(crate) fn is_untidy(error: &Error) -> bool {
    has_code(error, UNTIDY)
}

/// Returns whether a server has as many connections as it, the role or the database may have. The
/// client library's listener only says that it got none in time.
pub(crate) fn is_full(error: &Error) -> bool {
    let is_late = |error: &sqlx::Error| matches!(error, sqlx::Error::PoolTimedOut);
    of_chain(error).any(is_late) || refusals(error).any(|refusal| refusal.code() == "53300")
}

/// Returns whether the server is there, and refused or gave up a statement.
pub(crate) fn is_refusal(error: &Error) -> bool {
    of_client_error(error).and_then(of_server).is_some_and(|error| error.severity() == PgSeverity::Error)
}

fn has_code(error: &Error, wanted: &str) -> bool {
    of_client_error(error).and_then(code) == Some(wanted)
}

fn of_client_error(error: &Error) -> Option<&sqlx::Error> {
    error.source()?.downcast_ref()
}

/// Converts the error of a request that was sent.
pub(crate) fn of_request(error: sqlx::Error) -> Error {
    let (kind, detail) = match of_server(&error) {
        Some(error) => of_code(error),
        None => match &error {
            sqlx::Error::PoolClosed => (ErrorKind::Closed, "the pool was closed".to_owned()),
            sqlx::Error::PoolTimedOut => {
                (ErrorKind::Unavailable, "the pool had no connection in time".to_owned())
            }
            sqlx::Error::Encode(_) => {
                (ErrorKind::InvalidArgument, "an argument cannot be sent to the server".to_owned())
            }
            _ => (ErrorKind::Unknown, "the connection broke before the answer came".to_owned()),
        },
    };
    let answers = matches!(code(&error), Some(LOCKED | UNTIDY));
    let made = Error::new(kind, detail).with_source(error);
    if answers { made.of_a_store_that_answers() } else { made }
}

fn of_code(error: &PgDatabaseError) -> (ErrorKind, String) {
    let (code, message) = (error.code(), message(error));
    let certain = error.severity() == PgSeverity::Error || ["57P05", "25P03"].contains(&code);
    if error.message().contains(OF_STATEMENTS) {
        let detail = "the pooler before the server is in statement mode, which has no transactions: use pool_mode=transaction";
        return (ErrorKind::Unsupported, detail.to_owned());
    }
    match code {
        NO_RIGHT => (ErrorKind::Unauthorized, format!("the role lacks a right: {message}; {GRANT_RIGHT}")),
        "3F000" | "42P01" | "42883" | "42703" | "42704" => (
            ErrorKind::ConfigMismatch,
            format!("the schema is missing or another version's: {message}; {MAKE_SCHEMA}"),
        ),
        "25006" => (ErrorKind::Unavailable, format!("the server takes no writes: {message}")),
        LOCKED => {
            (ErrorKind::Unavailable, format!("another transaction has a row of ours locked: {message}"))
        }
        UNTIDY => (ErrorKind::Unavailable, message),
        _ if code.starts_with("28") => {
            (ErrorKind::Unauthorized, format!("the server refused the credentials: {message}"))
        }
        _ if certain => {
            (ErrorKind::Unavailable, format!("the server refused the statement: {code}: {message}"))
        }
        _ => (ErrorKind::Unknown, format!("the server ended the session: {code}: {message}")),
    }
}

/// Converts the error of a request that changes nothing, or was not committed: it was certainly not
/// executed.
pub(crate) fn certain(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => {
            Error::new(ErrorKind::Unavailable, "the server did not answer as expected").with_source(error)
        }
        _ => error,
    }
}

/// Converts the error of a failure to connect to `address`. Nothing was sent.
pub(crate) fn of_connect(error: sqlx::Error, address: &str) -> Error {
    let made = match of_server(&error) {
        Some(error) => of_refusal(error),
        None => of_client(&error, address),
    };
    made.at(address).with_source(error)
}

/// Converts a refusal to connect.
fn of_refusal(error: &PgDatabaseError) -> Error {
    match (error.code(), of_code(error)) {
        ("3D000", _) => Error::invalid_argument("the server has no database of that name"),
        ("53300", _) => Error::new(ErrorKind::Unavailable, "the server takes no more connections"),
        // It is not a right that the schema's SQL grants.
        (NO_RIGHT, _) => {
            Error::new(ErrorKind::Unauthorized, format!("the role lacks a right: {}", message(error)))
        }
        (_, (kind @ ErrorKind::Unauthorized, detail)) => Error::new(kind, detail),
        _ => {
            let detail = format!("the server refused the connection: {}", message(error));
            Error::new(ErrorKind::Unavailable, detail)
        }
    }
}

/// Converts the client library's own error about a connection.
fn of_client(error: &sqlx::Error, address: &str) -> Error {
    let unavailable = |detail: String| Error::new(ErrorKind::Unavailable, detail);
    match error {
        sqlx::Error::PoolClosed => Error::new(ErrorKind::Closed, "the pool was closed"),
        sqlx::Error::PoolTimedOut => unavailable("the pool had no connection in time".to_owned()),
        sqlx::Error::Tls(why) => unavailable(format!("no secure connection was made: {why}")),
        sqlx::Error::Configuration(_) => Error::invalid_argument("the client library refuses the settings"),
        // A host is not looked for among the files: it is a file of the TLS settings that is
        // missing.
        sqlx::Error::Io(cause) if cause.kind() == io::ErrorKind::NotFound && !address.starts_with('/') => {
            unavailable(format!("a file of sslrootcert, sslcert or sslkey cannot be read: {cause}"))
        }
        sqlx::Error::Io(cause) => Error::unreached(PROTOCOL, cause),
        sqlx::Error::Protocol(_) => Error::misunderstood(PROTOCOL),
        _ => unavailable("the server could not be reached".to_owned()),
    }
}

/// Returns the server's refusals that led to an error. That of several hosts has another one
/// between it and the client library's.
fn refusals(error: &Error) -> impl Iterator<Item = &PgDatabaseError> {
    of_chain(error).filter_map(of_server)
}

/// Returns the client library's errors that led to an error.
fn of_chain(error: &Error) -> impl Iterator<Item = &sqlx::Error> {
    let sources = iter::successors(StdError::source(error), |&source| source.source());
    sources.filter_map(|source| source.downcast_ref::<sqlx::Error>())
}

/// Returns whether the server may have refused start-up parameters, as poolers and proxies do, each
/// with an error of its own. A refusal for lack of rights, of the database or of room is none.
pub(crate) fn refuses_settings(error: &Error) -> bool {
    let is_other = |code: &str| ["28", "53", "57"].iter().any(|class| code.starts_with(class));
    refusals(error).any(|error| !is_other(error.code()) && !["3D000", NO_RIGHT].contains(&error.code()))
}

/// Returns whether a server refused a connection for this setting.
pub(crate) fn refuses_setting(error: &Error, setting: &str) -> bool {
    refuses_settings(error) && refusals(error).any(|refusal| refusal.message().contains(setting))
}

/// Converts an error of the migration, which is one transaction.
pub(crate) fn of_migration(error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            if code(&error).is_some_and(|code| ALREADY_THERE.contains(&code)) {
                let detail = "the schema has what its table of migrations does not know of: restore its rows, or use another \
                              schema";
                return Error::new(ErrorKind::ConfigMismatch, detail).with_source(error);
            }
            let Some(refusal) = of_server(&error).filter(|error| error.code() == NO_RIGHT) else {
                return certain(of_request(error));
            };
            let message = message(refusal);
            let detail =
                format!("the role may not make the schema: {message}; {MAKE_SCHEMA} by a role that may");
            Error::new(ErrorKind::Unauthorized, detail).with_source(error)
        }
        other => Error::new(ErrorKind::ConfigMismatch, "the schema cannot be brought up to date")
            .with_source(other),
    }
}

/// Makes the error for a schema that is missing, or that is not the schema of this version.
pub(crate) fn of_schema(state: &str) -> Error {
    Error::new(ErrorKind::ConfigMismatch, format!("{state}: {MAKE_SCHEMA}"))
}

/// Returns the beginning of the server's message.
fn message(error: &PgDatabaseError) -> String {
    error.message().chars().take(MAX_MESSAGE).collect()
}

/// Makes the error for an answer that no function of the schema gives: something else changed the
/// schema. The step was executed.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "the server's answer was not understood")
}
