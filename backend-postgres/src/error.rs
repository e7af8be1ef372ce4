//! What the client's errors mean: whether a request was certainly not executed, or may have been (C3, C21).

use sqlx::postgres::{PgDatabaseError, PgSeverity};
use stanchion_core::{Error, ErrorKind};

fn of_server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Whether the connection is as good as before: the server refused the statement, and nothing else.
pub(crate) fn leaves_connection(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| error.severity() == PgSeverity::Error)
}

/// An error of a request that was sent.
pub(crate) fn of_request(error: sqlx::Error) -> Error {
    let told =
        of_server(&error).map(|told| (told.severity(), told.code().to_owned(), told.message().to_owned()));
    let (kind, detail) = match told {
        Some((PgSeverity::Error, code, message)) if code == "42501" => {
            (ErrorKind::Unauthorized, format!("the role lacks a right: {message}"))
        }
        Some((PgSeverity::Error, code, message)) => {
            (ErrorKind::Unavailable, format!("the server refused the statement: {code}: {message}"))
        }
        _ => (ErrorKind::Unknown, "the connection broke before the answer came".to_owned()),
    };
    Error::new(kind, detail).with_source(error)
}

/// An error of a connection that was not made: nothing was sent.
pub(crate) fn of_connect(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the server could not be reached").with_source(error)
}

/// An answer that no function gives: something else changed the schema. The step was executed.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "the server's answer was not understood")
}
