//! Finds test functions in source text. It knows no more of Rust than `rustfmt` makes necessary.

use std::fs;
use std::io;
use std::path::Path;

/// The text of all Rust files of a folder.
#[derive(Debug, Default)]
pub(super) struct Sources {
    texts: Vec<String>,
}

impl Sources {
    /// Reads the folder and the folders in it. One that does not exist has no files.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut sources = Self::default();
        sources.add(folder)?;
        Ok(sources)
    }

    fn add(&mut self, folder: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.add(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.texts.push(fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    /// The names of all functions with a test attribute.
    pub(super) fn test_functions(&self) -> Vec<String> {
        self.texts.iter().flat_map(|text| test_functions(text)).map(str::to_owned).collect()
    }

    /// The names of all async functions.
    pub(super) fn async_functions(&self) -> Vec<String> {
        let lines = self.texts.iter().flat_map(|text| text.lines());
        lines.filter(|line| line.contains("async fn ")).filter_map(function).map(str::to_owned).collect()
    }

    /// Whether the macro of that name is called in a line that is no comment.
    pub(super) fn calls(&self, name: &str) -> bool {
        let call = format!("{name}!");
        let is_whole =
            |before: &str| !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let mut lines = self.texts.iter().flat_map(|text| text.lines());
        lines.any(|line| {
            let mut calls = line.match_indices(&call);
            !line.trim_start().starts_with("//") && calls.any(|(at, _)| is_whole(&line[..at]))
        })
    }
}

fn test_functions(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        if is_test_attribute(line) {
            is_test = true;
            return None;
        }
        let name = function(line);
        let found = name.filter(|_| is_test);
        // Further attributes and comments may stand between a test's attribute and the test.
        is_test &= name.is_none() && !line.ends_with([';', '{', '}']);
        found
    })
}

/// `#[test]`, `#[tokio::test(…)]` and the like.
fn is_test_attribute(line: &str) -> bool {
    let attribute = line.trim_start().strip_prefix("#[");
    let path = attribute.and_then(|attribute| attribute.split([']', '(']).next());
    path.is_some_and(|path| path.rsplit("::").next() == Some("test"))
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for prefix in ["pub ", "pub(crate) ", "pub(super) ", "async "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[cfg(test)]
mod tests {
    use super::Sources;

    const TEXT: &str = r#"
//! suite!(In a comment)
pub async fn c1_ticket(harness: &Harness) {}
async fn m2_c3_both<H: Harness>(harness: H) {

#[tokio::test(start_paused = true)]
#[expect(clippy::unwrap_used, reason = "why not")]
// A word.
async fn c9_lost() {}

    #[test]
    fn s4_conserved(count in 0..9) {}
    fn s5_helper() {}

step_suite!(Harness::new());

#[test]
mod strange {
    fn l1_helper() {}
"#;

    #[test]
    fn functions_are_found_by_their_attribute_or_by_being_async() {
        let sources = Sources { texts: vec![TEXT.to_owned()] };
        assert_eq!(sources.test_functions(), ["c9_lost", "s4_conserved"]);
        assert_eq!(sources.async_functions(), ["c1_ticket", "m2_c3_both", "c9_lost"]);
        assert!(!sources.calls("suite") && sources.calls("step_suite"));
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let sources = Sources::read(std::path::Path::new("no/such/folder")).unwrap();
        assert!(sources.texts.is_empty());
    }
}
