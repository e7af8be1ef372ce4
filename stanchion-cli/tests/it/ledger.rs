//! A file that commands append lines to, and what the order of its lines shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stanchion_testbed::servers::wait_until;

/// A line of the ledger: what a command did, and its fencing token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) word: String,
    pub(crate) token: u64,
}

/// Every write is one append, so the order of lines is the order of what the commands did.
#[derive(Debug)]
pub(crate) struct Ledger(PathBuf);

impl Ledger {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.join("ledger"))
    }

    /// Returns shell code that writes a line.
    pub(crate) fn writes(&self, word: &str) -> String {
        format!("echo \"{word} $STANCHION_TOKEN\" >> '{}'", self.0.display())
    }

    /// Returns shell code that writes lines until it is ended.
    pub(crate) fn writes_on(&self) -> String {
        format!("while :; do {}; sleep 0.01; done", self.writes("alive"))
    }

    /// Returns shell code that begins, writes for a while and ends.
    pub(crate) fn short_work(&self) -> String {
        let (begin, alive, end) = (self.writes("begin"), self.writes("alive"), self.writes("end"));
        format!("{begin}; for i in 1 2 3 4 5; do {alive}; sleep 0.01; done; {end}")
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let entry = |line: &str| {
            let (word, token) = line.split_once(' ').unwrap_or_else(|| panic!("half a line: {line:?}"));
            Entry { word: word.to_owned(), token: token.parse().unwrap() }
        };
        text.lines().map(entry).collect()
    }

    /// Waits for a line.
    pub(crate) fn wait_for(&self, what: impl Fn(&Entry) -> bool) -> Entry {
        let found = wait_until(Duration::from_secs(60), || self.entries().into_iter().find(&what));
        found.unwrap_or_else(|| panic!("it does not come: {:?}", self.entries()))
    }

    /// Waits for the first line with this word.
    pub(crate) fn wait_for_word(&self, word: &str) -> Entry {
        self.wait_for(|entry| entry.word == word)
    }

    /// Asserts that no command wrote a line after one with a later grant had: no two were there at
    /// an instant. Returns the tokens in the order of their first lines.
    pub(crate) fn is_exclusive(&self) -> Vec<u64> {
        let entries = self.entries();
        let mut tokens: Vec<u64> = Vec::new();
        for (at, Entry { token, .. }) in entries.iter().enumerate() {
            match tokens.last() {
                Some(last) if last == token => {}
                Some(last) => {
                    assert!(last < token, "line {at}: {token} writes when {last} had begun: {entries:?}");
                    tokens.push(*token);
                }
                None => tokens.push(*token),
            }
        }
        tokens
    }

    /// Returns the largest number of commands that had begun and not ended.
    pub(crate) fn most_at_a_time(&self) -> usize {
        let (mut now, mut most) = (0, 0);
        for entry in self.entries() {
            match &*entry.word {
                "begin" => now += 1,
                "end" => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        most
    }
}
