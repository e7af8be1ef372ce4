//! Limits the width of comments.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::sources;
use crate::workspace::root;

/// Maximum width of a line that is a comment, with its indentation.
const MAXIMUM_WIDTH: usize = 100;

/// Whether a wider comment fails the check. Until all comments are wrapped, their number is printed.
const REFUSED: bool = false;

/// Lists the comment lines of the repository that are too wide. Returns `true` if there is none.
pub(crate) fn check() -> Outcome {
    let mut found = 0;
    for path in sources::listed()? {
        // A deleted file stays listed until the deletion is committed.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, width) in too_wide(Path::new(&path), &text) {
            found += 1;
            if REFUSED {
                println!("{path}:{number}: a comment of {width} columns");
            }
        }
    }
    println!("{found} comment lines are wider than {MAXIMUM_WIDTH} columns");
    Ok(found == 0 || !REFUSED)
}

/// Returns the number and the width of each comment line that is too wide.
fn too_wide<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let mark = if path.extension().is_some_and(|extension| extension == "rs") { "//" } else { "--" };
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter_map(move |(number, line)| {
        let width = line.chars().count();
        let words = line.trim_start().strip_prefix(mark)?.trim_start_matches(['/', '!', '-']);
        (width > MAXIMUM_WIDTH && can_be_wrapped(words.trim_start())).then_some((number, width))
    })
}

/// Returns `false` for what has to stay on one line: an address, a row of a table, the definition of a link.
fn can_be_wrapped(words: &str) -> bool {
    let is_link = words.starts_with('[') && words.contains("]: ");
    !(words.contains("://") || words.starts_with('|') || is_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        too_wide(Path::new(file), text).map(|(number, _)| number).collect()
    }

    /// Returns a line of this width.
    fn wide(start: &str, width: usize) -> String {
        format!("{start:é<width$}")
    }

    #[test]
    fn comments_of_each_kind_are_measured_in_letters() {
        for start in ["// ", "    /// ", "//! ", "\t//"] {
            let text = format!("{}\n{}\n", wide(start, 100), wide(start, 101));
            assert_eq!(lines("a/b.rs", &text), [2], "{start:?}");
        }
        for file in ["a.lua", "a.sql"] {
            assert_eq!(lines(file, &wide("  -- ", 101)), [1]);
            assert_eq!(lines(file, &wide("// ", 101)), [0; 0]);
        }
        assert_eq!(lines("a.rs", &wide("-- ", 101)), [0; 0]);
    }

    #[test]
    fn code_is_the_formatters() {
        let text = format!("{} // a word", wide("let text = \"", 110));
        assert_eq!(lines("a.rs", &text), [0; 0]);
    }

    #[test]
    fn what_cannot_be_wrapped_is_left() {
        for start in ["/// See https://docs.rs/", "//! | a | b ", "/// [S8]: crate::contract#", "-- <ftp://a"]
        {
            let file = if start.starts_with('-') { "a.sql" } else { "a.rs" };
            assert_eq!(lines(file, &wide(start, 120)), [0; 0], "{start}");
        }
        assert_eq!(lines("a.rs", &wide("/// [a link](in::text) that goes on", 120)), [1]);
    }
}
