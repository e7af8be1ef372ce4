//! Maps errors of the client library: was a request certainly not executed, or may it have been
//! (C3, C21)?
//!
//! | the server says | what happened | what the caller gets |
//! | --- | --- | --- |
//! | `NOSCRIPT` | not executed | no error: the text of the script is sent |
//! | `LOADING` | not executed: the server reads its data | `Unavailable` |
//! | `BUSY` | not executed: another script runs | `Unavailable` |
//! | `READONLY` | stopped at the first write: the server is a replica now | `Unavailable`; a new connection is made, to the primary that the sentinels announce |
//! | `MASTERDOWN` | not executed: the server is a replica without its primary | `Unavailable`; a new connection is made |
//! | `OOM` | stopped at the first write: `maxmemory` | `Unavailable`; releases and cancels are not stopped |
//! | `MISCONF` | stopped at the first write: the server cannot save | `Unavailable` |
//! | `NOREPLICAS` | stopped at the first write: `min-replicas-to-write` | `Unavailable` |
//! | `UNBLOCKED` | the wait for wake-ups was ended | no error: the wait begins again, meanwhile the poll floor serves |
//! | `MOVED`, `ASK` | not executed: another node has the slot | no error: that node is asked; `Unsupported` if the URL does not say that the server is a cluster |
//! | `TRYAGAIN` | not executed: the slot is being moved | no error: the request is sent again; `Unavailable` at the time limit |
//! | `CLUSTERDOWN` | not executed: no node has the slot | as for `TRYAGAIN` |
//! | `NOAUTH`, `WRONGPASS` | not executed | `Unauthorized`; a new connection is made, with the credentials |
//! | `NOPERM`, or the error that a script returns instead | the command was not executed | `Unauthorized` with the text of the server, which names the command and in later versions the key; if the refusal of a script does not name the command, the server is asked for it |
//! | `max number of clients reached` | not connected | `Unavailable` |
//! | anything else | the request may have been executed | `Unknown` |
//!
//! A connection that was not made is `Unavailable`. A connection that broke is `Unknown`, and so is
//! a reply that came too late. A server that is not of the kind that the URL names is
//! `InvalidArgument`.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind as RedisKind, RedisError, ServerErrorKind};
use stanchion_core::{Error, ErrorKind};

/// Refusals that come before a command is executed, or at the first write of a script, so that
/// nothing was changed.
const REFUSALS: [&str; 10] = [
    "LOADING",
    "READONLY",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "MASTERDOWN",
    "UNBLOCKED",
    "CLUSTERDOWN",
    "TRYAGAIN",
];

/// Text of a server before 7.2 about a command in a script that the user may not run.
const UNNAMED: &str = "can't run this command";

/// Says that the server lacks a command that a script calls.
const LACKS: &str = "the server lacks a command of a script";

/// Maximum length of the server's text in an error, in characters.
const MAX_TEXT: usize = 160;

/// Maps an error of a request that was sent.
pub(crate) fn of_request(error: RedisError) -> Error {
    let (kind, detail) = match error.kind() {
        RedisKind::Io | RedisKind::Parse => {
            (ErrorKind::Unknown, "the connection broke before the answer came".to_owned())
        }
        _ => of_server(&error)
            .unwrap_or_else(|| (ErrorKind::Unknown, "the server answered with an error".to_owned())),
    };
    Error::new(kind, detail).with_source(error)
}

/// Maps an error of a request that was sent to a node of a cluster.
pub(crate) fn of_node(error: RedisError) -> Error {
    if error.is_cluster_error() {
        let detail = "the cluster has no node for the slot at the moment";
        return Error::new(ErrorKind::Unavailable, detail).with_source(error);
    }
    of_request(error)
}

/// Maps an error of a question about the deployment, which changes nothing.
pub(crate) fn of_question(error: RedisError) -> Error {
    if says(&error, "cluster support disabled") {
        let detail = "the server is not a cluster: its URL begins with redis:// or rediss://";
        return Error::invalid_argument(detail).with_source(error);
    }
    certain(of_request(error))
}

/// Maps an error of a question to a sentinel.
pub(crate) fn of_sentinel(error: RedisError) -> Error {
    if says(&error, "unknown command") {
        let detail =
            "the server is not a sentinel: the URL of a server itself begins with redis:// or rediss://";
        return Error::invalid_argument(detail).with_source(error);
    }
    of_question(error)
}

/// Makes `Unknown` certain, for a question that changes nothing and is asked again.
pub(crate) fn certain(error: Error) -> Error {
    if error.kind() != ErrorKind::Unknown {
        return error;
    }
    let certain = Error::new(ErrorKind::Unavailable, "the server did not answer as it should");
    match error.address().map(str::to_owned) {
        Some(address) => certain.at(&address).with_source(error),
        None => certain.with_source(error),
    }
}

/// Maps an error of a connection to `address` that was not made. Nothing was sent. `protocol` is
/// the one that the server should speak.
pub(crate) fn of_connect(error: RedisError, protocol: &str, address: &str) -> Error {
    let unavailable = |detail: &'static str| Error::new(ErrorKind::Unavailable, detail);
    if says(&error, "unknown command") {
        // Its text repeats the arguments, and so the password.
        let detail = "the server, or a proxy before it, does not know HELLO: add protocol=resp2 to the URL";
        return Error::new(ErrorKind::Unsupported, detail).at(address);
    }
    let made = match error.kind() {
        RedisKind::RESP3NotSupported => Error::new(ErrorKind::Unsupported, "Redis 6.2 or later is needed"),
        RedisKind::InvalidClientConfig => Error::invalid_argument("the client library refuses the settings"),
        RedisKind::Parse => Error::misunderstood(protocol),
        RedisKind::Io => match cause(&error) {
            Some(cause) => Error::unreached(protocol, cause),
            None => unavailable("the server could not be reached"),
        },
        _ if says(&error, "DB index is out of range") => {
            Error::invalid_argument("the server has no database of that number")
        }
        _ if says(&error, "max number of clients") => unavailable("the server takes no more clients"),
        _ => match of_server(&error) {
            Some((kind, detail)) => Error::new(kind, detail),
            None => unavailable("the server refused the connection"),
        },
    };
    made.at(address).with_source(error)
}

/// Returns the I/O error inside an error of the client library, which shares it among its clones.
fn cause(error: &RedisError) -> Option<&io::Error> {
    let source = error.source()?;
    source.downcast_ref::<Arc<dyn StdError + Send + Sync>>()?.downcast_ref::<io::Error>()
}

/// Whether a script lacked a right and the server, a Redis before 7.2, does not name it.
pub(crate) fn is_unnamed(error: &Error) -> bool {
    error.kind() == ErrorKind::Unauthorized && error.to_string().contains(UNNAMED)
}

/// Adds the missing commands to a refusal or, if there are none, the commands that the script
/// needs.
pub(crate) fn naming<'a>(
    error: Error,
    missing: &[String],
    needed: impl IntoIterator<Item = &'a str>,
) -> Error {
    let detail = if missing.is_empty() {
        format!("the user lacks the right to run a command of a script, one of {}", quoted(needed))
    } else {
        let missing = missing.iter().map(String::as_str);
        format!("the user lacks the right to run, in a script, {}", quoted(missing))
    };
    Error::new(ErrorKind::Unauthorized, detail).with_source(error)
}

/// Whether the server lacks a command that a script calls: it does not name it.
pub(crate) fn lacks_unnamed(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported && error.to_string().contains(LACKS)
}

/// Names the commands that the server lacks or, if they are not known, those that the script needs.
pub(crate) fn lacking<'a>(
    error: Error,
    missing: &[&'a str],
    needed: impl IntoIterator<Item = &'a str>,
) -> Error {
    let detail = if missing.is_empty() {
        format!("{LACKS}, one of {}", quoted(needed))
    } else {
        format!("{LACKS}: {}", quoted(missing.iter().copied()))
    };
    Error::new(ErrorKind::Unsupported, detail).with_source(error)
}

fn quoted<'a>(commands: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |command: &str| format!("'{}'", command.to_lowercase());
    commands.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

fn of_server(error: &RedisError) -> Option<(ErrorKind, String)> {
    let refused = |kind, detail: &str| Some((kind, detail.to_owned()));
    if let RedisKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot) =
        error.kind()
    {
        return refused(
            ErrorKind::Unsupported,
            "the server is a node of a cluster: its URL begins with redis+cluster:// or rediss+cluster://",
        );
    }
    let code = error.code().unwrap_or_default();
    if error.kind() == RedisKind::AuthenticationFailed
        || ["NOAUTH", "WRONGPASS"].contains(&code)
        || says(error, "AUTH <password> called without")
    {
        return refused(ErrorKind::Unauthorized, "the server refused the credentials");
    }
    // A right that a script lacks is reported without a code of its own, and so is the one to a
    // database, for which the client library asks.
    if code == "NOPERM"
        || says(error, "no permissions to run")
        || says(error, "The user executing the script can't")
        || says(error, "ACL failure in script")
    {
        let words: String = error.detail().unwrap_or_default().chars().take(MAX_TEXT).collect();
        return Some((ErrorKind::Unauthorized, format!("the user lacks a right: {words}")));
    }
    if let Some(refusal) = REFUSALS.iter().find(|refusal| is(error, refusal)) {
        return Some((ErrorKind::Unavailable, format!("the server refuses requests for now: {refusal}")));
    }
    if says(error, "Unknown Redis command called from") {
        return refused(ErrorKind::Unsupported, LACKS);
    }
    if says(error, "unknown command") {
        // The rest of its text repeats the arguments.
        let named = error.detail().and_then(|text| text.split(['\'', '`']).nth(1)).unwrap_or_default();
        let name: String = named.chars().take(MAX_TEXT).collect();
        return Some((ErrorKind::Unsupported, format!("the server lacks the command '{name}'")));
    }
    None
}

/// Whether the error is this refusal. Redis 6.2 wraps an error that stopped a script into another
/// one.
fn is(error: &RedisError, refusal: &str) -> bool {
    error.code() == Some(refusal) || says(error, &format!(" -{refusal} "))
}

fn says(error: &RedisError, text: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(text))
}

/// The error of an answer that no step gives: the data or the scripts were changed from outside.
/// The step was executed.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "the server's answer was not understood")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
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
            "UNBLOCKED client unblocked via CLIENT UNBLOCK",
            "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed",
        ] {
            assert_eq!(of_request(answer(line)).kind(), ErrorKind::Unavailable, "{line}");
        }
        let broken = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        for unknown in [answer("ERR something new"), broken()] {
            assert_eq!(of_request(unknown).kind(), ErrorKind::Unknown);
        }
        assert_eq!(of_question(broken()).kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn c21_a_connection_that_was_not_made_tells_its_cause_and_its_address() {
        let failed = |error| of_connect(error, "TLS", "h:6379");
        let broken = |kind: io::ErrorKind| failed(RedisError::from(io::Error::from(kind)));
        for (error, words) in [
            (broken(io::ErrorKind::ConnectionRefused), "connection refused"),
            (broken(io::ErrorKind::ConnectionReset), "does it speak TLS?"),
            (broken(io::ErrorKind::UnexpectedEof), "does it speak TLS?"),
            (failed(answer("ERR max number of clients reached")), "takes no more clients"),
            (failed((RedisKind::Parse, "no value of RESP").into()), "does it speak TLS?"),
        ] {
            assert_eq!((error.kind(), error.address()), (ErrorKind::Unavailable, Some("h:6379")));
            assert!(error.to_string().ends_with(words), "{error}");
            assert!(error.source().is_some_and(|source| source.is::<RedisError>()), "{error:?}");
        }
    }

    #[test]
    fn c21_a_server_that_is_no_sentinel_is_told() {
        let error = of_sentinel(answer("ERR unknown command 'SENTINEL', with args beginning with: "));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("not a sentinel"), "{error}");
        assert_eq!(of_sentinel(answer("NOAUTH Authentication required.")).kind(), ErrorKind::Unauthorized);
    }

    #[test]
    fn c21_missing_rights_are_told_and_named() {
        for line in ["NOAUTH Authentication required.", "WRONGPASS invalid username-password pair"] {
            assert_eq!(of_request(answer(line)).kind(), ErrorKind::Unauthorized, "{line}");
        }
        for line in [
            "NOPERM this user has no permissions to run the 'zadd' command",
            "ERR ACL failure in script: User me has no permissions to run the 'zadd' command script: x",
        ] {
            let error = of_request(answer(line));
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{line}");
            assert!(error.to_string().contains("'zadd'") && !is_unnamed(&error), "{error}");
        }
        let unnamed =
            || of_request(answer("ERR The user executing the script can't run this command or subcommand"));
        assert!(is_unnamed(&unnamed()));
        for (missing, told) in
            [(&["ZADD".to_owned()][..], "run, in a script, 'zadd'"), (&[], "one of 'set', 'zadd'")]
        {
            let error = naming(unnamed(), missing, ["SET", "ZADD"]);
            assert!(error.kind() == ErrorKind::Unauthorized && error.to_string().ends_with(told), "{error}");
        }
    }

    #[test]
    fn c21_a_command_that_the_server_lacks_is_named_and_its_arguments_are_not() {
        for line in [
            "ERR unknown command 'SCAN', with args beginning with: 's3cret' ",
            "ERR unknown command `SCAN`, with args beginning with: `s3cret`, ",
        ] {
            let error = of_request(answer(line));
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(error.to_string().ends_with("lacks the command 'SCAN'"), "{error}");
        }
    }

    #[test]
    fn c3_a_redirection_is_followed_on_a_cluster_and_unsupported_elsewhere() {
        for line in ["MOVED 1 127.0.0.1:7001", "ASK 1 127.0.0.1:7001"] {
            assert_eq!(of_request(answer(line)).kind(), ErrorKind::Unsupported, "{line}");
            assert_eq!(of_node(answer(line)).kind(), ErrorKind::Unavailable, "{line}");
        }
        let disabled = answer("ERR This instance has cluster support disabled");
        assert_eq!(of_question(disabled).kind(), ErrorKind::InvalidArgument);
    }
}
