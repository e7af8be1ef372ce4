//! The library's errors in the words of the command line: an operator sees options, not methods of
//! a library.

use stanchion::{Error, ErrorKind};

/// The library's advice where the schema is missing or another version's.
const MIGRATE: &str = "connect with migrate=on";

/// Advice of the library, and the advice of this program in its place.
const WORDS: [(&str, &str); 7] = [
    (
        "; `on_mismatch` says which one is used, `set_quota` changes it for everybody",
        "; --per and --burst are to be those of the store, or `stanchion limit --set` changes those",
    ),
    (
        "; `on_mismatch` says which one is used, `resize` changes it for everybody",
        "; --semaphore is to be that of the store, --on-mismatch says which one counts, and `stanchion resize` changes it",
    ),
    ("; `on_mismatch` says which one is used: `Adopt` the store's, `Replace` this one for everybody", ""),
    ("the SQL of `stanchion::postgres::schema_sql()`", "the SQL that `stanchion schema` prints"),
    (" (see `stanchion::guide::operating_postgres`)", ""),
    (MIGRATE, "have migrate=on in the URL"),
    ("use a longer TTL", "use a longer --ttl"),
];

/// Returns whether an error advises to have the schema made or brought up to date by connecting.
pub(crate) fn advises_migration(error: &Error) -> bool {
    error.kind() == ErrorKind::ConfigMismatch && error.to_string().contains(MIGRATE)
}

/// Returns whether an error is about a right that the user lacks, rather than about credentials.
pub(crate) fn tells_of_a_right(error: &Error) -> bool {
    let text = error.to_string();
    error.kind() == ErrorKind::Unauthorized
        && [" lacks a right", " lacks the right"].iter().any(|words| text.contains(words))
}

/// Returns the text of an error on one line.
pub(crate) fn text(error: &Error) -> String {
    let mut text = error.to_string();
    if let Some(operation) = error.operation() {
        // It stands before the name, which may be any text.
        text = text.replacen(&format!(" in `{operation}`"), "", 1);
    }
    WORDS.iter().fold(text, |text, (library, here)| text.replace(library, here))
}

#[cfg(test)]
mod tests {
    use stanchion::Kind;

    use super::*;

    #[test]
    fn a_mismatch_names_options() {
        let shown = |error: Error| text(&error.context("allow_n", "redis", "a"));
        assert_eq!(
            shown(Error::mismatch("quota", 1, 2)),
            "configuration mismatch of \"a\" on redis: the quota given is 1, the store's is 2; --per and --burst are to \
             be those of the store, or `stanchion limit --set` changes those"
        );
        for kind in [Kind::Semaphore, Kind::WaitGroup] {
            let text = shown(Error::limit_mismatch(kind, Some(1), None));
            assert!(text.contains("given is 1, the store's is none") && !text.contains("`resize`"), "{text}");
        }
    }

    #[test]
    fn a_name_stays_as_it_is() {
        let error = Error::new(ErrorKind::Lost, "gone").context("lock", "redis", "a in `lock` of b");
        assert_eq!(text(&error), "hold lost of \"a in `lock` of b\" on redis: gone");
    }
}
