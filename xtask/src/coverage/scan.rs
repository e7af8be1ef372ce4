//! Finds test functions in source text. It relies on the layout of `rustfmt`.

use std::fs;
use std::io;
use std::path::Path;

/// The text of all Rust files of a folder.
#[derive(Debug, Default)]
pub(super) struct Sources {
    texts: Vec<String>,
}

impl Sources {
    /// Reads the folder and its subfolders. A folder that does not exist has no files.
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

    /// Returns the names of all functions with a test attribute.
    pub(super) fn test_functions(&self) -> Vec<String> {
        self.texts.iter().flat_map(|text| test_functions(text)).map(str::to_owned).collect()
    }

    /// Joins two sets of files.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.texts.extend(other.texts);
        self
    }

    /// Returns the calls of the macro of that name.
    pub(super) fn calls(&self, name: &str) -> Vec<Call> {
        self.texts.iter().flat_map(|text| calls(text, name)).collect()
    }
}

/// The call of a suite: its harness, and the known gaps with their reasons.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) harness: String,
    pub(super) gaps: Vec<(String, String)>,
}

impl Call {
    /// Returns whether the case with that path, or its whole group, is listed.
    pub(super) fn lists_as_gap(&self, path: &str) -> bool {
        let group = path.split("::").next().unwrap_or(path);
        self.gaps.iter().any(|(listed, _)| listed == path || listed == group)
    }
}

fn calls<'a>(text: &'a str, name: &str) -> impl Iterator<Item = Call> + 'a {
    let start = format!("{name}!(");
    let starts: Vec<_> = text.match_indices(&start).map(|(at, found)| (at, at + found.len())).collect();
    starts.into_iter().filter_map(move |(at, arguments)| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_whole = !line.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        (is_whole && !line.trim_start().starts_with("//")).then(|| read_call(&text[arguments..]))
    })
}

/// Reads `HARNESS)` or `HARNESS, gaps { a::b: "why", … });`, in the layout of `rustfmt`.
fn read_call(text: &str) -> Call {
    let call = text.split(");").next().unwrap_or(text);
    let (harness, gaps) = call.split_once(", gaps {").unwrap_or((call, ""));
    let gaps = gaps.lines().filter_map(|line| {
        let (case, reason) = line.trim().split_once(": \"")?;
        Some((case.to_owned(), reason.trim_end_matches(',').trim_end_matches('"').to_owned()))
    });
    Call { harness: harness.trim_end_matches(')').to_owned() + ")", gaps: gaps.collect() }
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

/// Returns whether the line is `#[test]`, `#[tokio::test(…)]` or similar.
fn is_test_attribute(line: &str) -> bool {
    let attribute = line.trim_start().strip_prefix("#[");
    let path = attribute.and_then(|attribute| attribute.split([']', '(']).next());
    path.is_some_and(|path| path.rsplit("::").next() == Some("test"))
}

/// Returns the name of the function that begins in this line.
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
#[tokio::test(start_paused = true)]
#[expect(clippy::unwrap_used, reason = "why not")]
// A word.
async fn c9_lost() {}

    #[test]
    fn s4_conserved(count in 0..9) {}
    fn s5_helper() {}

step_suite!(Harness::new());
suite!(Deployed::session(), gaps {
    limiter: "none, so far",
});

#[test]
mod strange {
    fn l1_helper() {}
"#;

    #[test]
    fn functions_are_found_by_their_attribute() {
        let sources = Sources { texts: vec![TEXT.to_owned()] };
        assert_eq!(sources.test_functions(), ["c9_lost", "s4_conserved"]);
    }

    #[test]
    fn calls_are_found_with_their_gaps() {
        let sources = Sources { texts: vec![TEXT.to_owned()] };
        let [call] = &sources.calls("suite")[..] else { panic!("one call") };
        assert_eq!(call.harness, "Deployed::session()");
        assert_eq!(call.gaps, [("limiter".to_owned(), "none, so far".to_owned())]);
        assert!(call.lists_as_gap("limiter::l1_any") && !call.lists_as_gap("mutex::m1_any"));
        assert_eq!(sources.calls("step_suite").len(), 1);
        assert_eq!(sources.calls("step_suite")[0].gaps, []);
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let sources = Sources::read(std::path::Path::new("no/such/folder")).unwrap();
        assert!(sources.texts.is_empty());
    }
}
