//! The meaning of the client's errors: a request was certainly not executed, or it may have been (C3, C21).
//!
//! A request is a transaction. A request that the server refuses with severity `ERROR` is rolled back, so it was
//! certainly not executed. If the session ends (`FATAL`, `PANIC`), the connection breaks, or no answer arrives, the
//! commit may have come first.
//!
//! | `SQLSTATE` | what happened | what the caller gets |
//! | --- | --- | --- |
//! | `42501` | rolled back: the role lacks a right | `Unauthorized` with the server's message, which names the table or function |
//! | `28…` | not connected: credentials | `Unauthorized` |
//! | `3D000` | not connected: no such database | `InvalidArgument` |
//! | `3F000`, `42P01`, `42883`, `42703`, `42704` | rolled back: the schema is missing or another version's | `ConfigMismatch` that says how to make it |
//! | `25006` | rolled back: the server is a standby now, or takes no writes | `Unavailable`; the connection is replaced |
//! | `57014`, `55P03`, `40001`, `40P01` | rolled back: a timeout, a lock, a conflict | `Unavailable` |
//! | `53…` | not connected, or rolled back: connections, memory or disk are used up | `Unavailable` |
//! | `0A000`, `26000`, `42P05` | not executed: a prepared statement is out of date | `Unavailable`; the connection is replaced |
//! | any other of severity `ERROR` | rolled back | `Unavailable` with its code and message |
//! | `57P03`, any other when connecting | not connected: the server starts or stops | `Unavailable` |
//! | `57P05`, `25P03` | not executed: the session was idle and had ended before | `Unavailable`; the connection is replaced |
//! | `57P01`, `57P02`, any other `FATAL` or `PANIC` | the session ended | `Unknown`; the connection is replaced |
//!
//! A failure to connect is `Unavailable`. A connection that broke, or an answer that did not arrive in time, is
//! `Unknown`. Through a pooler each request is a transaction of several messages, and only its commit can be `Unknown`.
//! A pool that the user closed is `Closed`.

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use stanchion_core::{Error, ErrorKind};

/// Maximum length of the server's message in an error, in characters.
const MAX_MESSAGE: usize = 160;
/// Says how to make the schema.
const MAKE_SCHEMA: &str =
    "run the SQL of `cargo xtask postgres-schema` as an administrator, or connect with migrate=on";

fn of_server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Returns the server's code, if the error comes from the server.
pub(crate) fn code(error: &sqlx::Error) -> Option<&str> {
    of_server(error).map(PgDatabaseError::code)
}

/// Returns whether the connection can be used again, because the server refused the statement and nothing else failed.
pub(crate) fn leaves_connection(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| {
        error.severity() == PgSeverity::Error && !["25006", "0A000", "26000", "42P05"].contains(&error.code())
    })
}

/// Converts the error of a request that was sent.
pub(crate) fn of_request(error: sqlx::Error) -> Error {
    let (kind, detail) = match of_server(&error) {
        Some(told) => of_code(told),
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
    Error::new(kind, detail).with_source(error)
}

fn of_code(error: &PgDatabaseError) -> (ErrorKind, String) {
    let message: String = error.message().chars().take(MAX_MESSAGE).collect();
    let code = error.code();
    let certain = error.severity() == PgSeverity::Error || ["57P05", "25P03"].contains(&code);
    match code {
        "42501" => (ErrorKind::Unauthorized, format!("the role lacks a right: {message}")),
        "3F000" | "42P01" | "42883" | "42703" | "42704" => (
            ErrorKind::ConfigMismatch,
            format!("the schema is missing or another version's: {message}; {MAKE_SCHEMA}"),
        ),
        "25006" => (ErrorKind::Unavailable, format!("the server takes no writes: {message}")),
        _ if code.starts_with("28") => {
            (ErrorKind::Unauthorized, format!("the server refused the credentials: {message}"))
        }
        _ if certain => {
            (ErrorKind::Unavailable, format!("the server refused the statement: {code}: {message}"))
        }
        _ => (ErrorKind::Unknown, format!("the server ended the session: {code}: {message}")),
    }
}

/// Converts the error of a request that changes nothing, or was not committed: it was certainly not executed.
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
    let unavailable = |detail: &str| (ErrorKind::Unavailable, detail.to_owned());
    let (kind, detail) = match of_server(&error) {
        Some(told) if told.code() == "3D000" => {
            (ErrorKind::InvalidArgument, "the server has no database of that name".to_owned())
        }
        Some(told) if told.code() == "53300" => unavailable("the server takes no more connections"),
        Some(told) => match of_code(told) {
            told @ (ErrorKind::Unauthorized, _) => told,
            _ => unavailable(&format!("the server refused the connection: {}", told.message())),
        },
        None => match &error {
            sqlx::Error::PoolClosed => (ErrorKind::Closed, "the pool was closed".to_owned()),
            sqlx::Error::PoolTimedOut => unavailable("the pool had no connection in time"),
            sqlx::Error::Tls(why) => unavailable(&format!("no secure connection was made: {why}")),
            sqlx::Error::Configuration(_) => {
                (ErrorKind::InvalidArgument, "the client library refuses the settings".to_owned())
            }
            _ => unavailable("the server could not be reached"),
        },
    };
    Error::new(kind, format!("{detail}: {address}")).with_source(error)
}

/// Returns whether the server refused start-up parameters, as poolers do.
pub(crate) fn refuses_settings(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<sqlx::Error>());
    source.and_then(of_server).is_some_and(|told| {
        told.code() == "08P01" && told.message().contains("unsupported startup parameter")
    })
}

/// Converts an error of the migration, which is one transaction.
pub(crate) fn of_migration(error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            let lacks = code(&error) == Some("42501");
            let error = certain(of_request(error));
            if !lacks {
                return error;
            }
            let detail = format!(
                "{}: the role may not make the schema; {MAKE_SCHEMA} by a role that may",
                text(&error)
            );
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

/// Returns an error's text without its kind, which is part of the new error's text already.
fn text(error: &Error) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, detail)| detail.to_owned())
}

/// Makes the error for an answer that no function of the schema gives: something else changed the schema. The step was
/// executed.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "the server's answer was not understood")
}
