//! What the client's errors mean: whether a request was certainly not executed, or may have been (C3, C21).

use redis::{ConnectionAddr, ErrorKind as RedisKind, RedisError, ServerErrorKind};
use stanchion_core::{Error, ErrorKind};

/// Refusals that come before a command is executed, or at a script's first write: nothing was changed.
const REFUSALS: [&str; 9] =
    ["LOADING", "READONLY", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"];

/// An error of a request that was sent.
pub(crate) fn of_request(error: RedisError) -> Error {
    let (kind, detail) = match error.kind() {
        RedisKind::Io | RedisKind::Parse => {
            (ErrorKind::Unknown, "the connection broke before the answer came")
        }
        _ => of_server(&error).unwrap_or((ErrorKind::Unknown, "the server answered with an error")),
    };
    Error::new(kind, detail).with_source(error)
}

/// An error of a connection to `address` that was not made: nothing was sent.
pub(crate) fn of_connect(error: RedisError, address: &ConnectionAddr) -> Error {
    let (kind, detail) = match error.kind() {
        RedisKind::AuthenticationFailed => (ErrorKind::Unauthorized, "the server refused the credentials"),
        RedisKind::RESP3NotSupported => (ErrorKind::Unsupported, "Redis 6.2 or later is needed"),
        RedisKind::Io | RedisKind::Parse => (ErrorKind::Unavailable, "the server could not be reached"),
        _ if says(&error, "DB index is out of range") => {
            (ErrorKind::InvalidArgument, "the server has no database of that number")
        }
        _ => of_server(&error).unwrap_or((ErrorKind::Unavailable, "the server refused the connection")),
    };
    Error::new(kind, format!("{detail}: {address}")).with_source(error)
}

/// An error of the source of wake-ups, which is asked again.
pub(crate) fn of_wake(error: RedisError) -> Error {
    let error = of_request(error);
    match error.kind() {
        ErrorKind::Unknown => {
            Error::new(ErrorKind::Unavailable, "the connection for wake-ups broke").with_source(error)
        }
        _ => error,
    }
}

fn of_server(error: &RedisError) -> Option<(ErrorKind, &'static str)> {
    match error.kind() {
        RedisKind::AuthenticationFailed => {
            return Some((ErrorKind::Unauthorized, "the server refused the credentials"));
        }
        RedisKind::Server(ServerErrorKind::NoPerm) => return Some(NO_RIGHT),
        RedisKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot) => {
            return Some((
                ErrorKind::Unsupported,
                "the server is a cluster, which this store does not offer yet",
            ));
        }
        _ => {}
    }
    let code = error.code().unwrap_or_default();
    if ["NOAUTH", "WRONGPASS"].contains(&code) || says(error, "AUTH <password> called without") {
        return Some((ErrorKind::Unauthorized, "the server refused the credentials"));
    }
    // A right that a script lacks is reported without a code of its own.
    if code == "NOPERM" || says(error, "The user executing the script can't") {
        return Some(NO_RIGHT);
    }
    // Redis 6.2 wraps what stopped a script into one more error.
    if REFUSALS.iter().any(|refusal| code == *refusal || says(error, &format!(" -{refusal} "))) {
        return Some((ErrorKind::Unavailable, "the server refuses requests for now"));
    }
    says(error, "unknown command").then_some((ErrorKind::Unsupported, "the server lacks a command"))
}

const NO_RIGHT: (ErrorKind, &str) =
    (ErrorKind::Unauthorized, "the user lacks the right to a command or a key");

fn says(error: &RedisError, text: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(text))
}

/// An answer that no step gives: something else changed the data or the scripts. The step was executed.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "the server's answer was not understood")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> ErrorKind {
        let error =
            redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap().extract_error().unwrap_err();
        of_request(error).kind()
    }

    #[test]
    fn c3_refusals_are_certain_and_the_rest_is_not() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "BUSY Redis is busy running a script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots",
            "NOREPLICAS Not enough good replicas to write.",
            "MASTERDOWN Link with MASTER is down",
            "CLUSTERDOWN The cluster is down",
            "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed",
        ] {
            assert_eq!(kind(line), ErrorKind::Unavailable, "{line}");
        }
        assert_eq!(kind("ERR something new"), ErrorKind::Unknown);
        assert_eq!(
            of_request(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()).kind(),
            ErrorKind::Unknown
        );
    }

    #[test]
    fn c21_missing_rights_are_told() {
        for line in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "ERR The user executing the script can't run this command or subcommand script: x",
        ] {
            assert_eq!(kind(line), ErrorKind::Unauthorized, "{line}");
        }
        assert_eq!(kind("MOVED 1 127.0.0.1:7001"), ErrorKind::Unsupported);
    }
}
