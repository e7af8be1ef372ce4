//! Limits the width of comment lines.

use std::fs;

use crate::Outcome;
use crate::workspace::{root, sources};

const WIDTH: usize = 100;

/// Lists the comment lines that are too wide. Returns `true` if there is none.
pub(crate) fn check() -> Outcome {
    let mut found = 0;
    for path in sources()? {
        let text = fs::read_to_string(root().join(&path))?;
        for number in wide(&text) {
            println!("{path}:{number}: a comment of more than {WIDTH} columns");
            found += 1;
        }
    }
    println!("{found} comment lines of more than {WIDTH} columns");
    Ok(found == 0)
}

/// Returns the numbers of the comment lines that are too wide. Code, tables and lines with a URL
/// cannot be broken.
fn wide(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = comment(line) else {
            in_code = false;
            continue;
        };
        if comment.starts_with("```") {
            in_code = !in_code;
        }
        let is_whole = in_code || comment.starts_with('|') || comment.contains("://");
        if !is_whole && line.chars().count() > WIDTH {
            found.push(index + 1);
        }
    }
    found
}

/// Returns the text of a line that is a comment alone.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["///", "//!", "//", "--"].iter().find_map(|mark| line.strip_prefix(mark));
    text.map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, wide};

    #[test]
    fn text_is_bounded_and_code_is_not() {
        let long = "é".repeat(WIDTH);
        assert_eq!(wide(&format!("// {long}")), [1]);
        assert_eq!(wide(&format!("-- short\n    /// {long}")), [2]);
        assert_eq!(wide(&"é".repeat(WIDTH)), [0; 0]);
        for whole in
            [format!("/// | {long} |"), format!("// https://{long}"), format!("let a = 1; // {long}")]
        {
            assert_eq!(wide(&whole), [0; 0], "{whole}");
        }
        assert_eq!(wide(&format!("/// ```\n/// {long}\n/// ```\n/// {long}")), [4]);
    }
}
