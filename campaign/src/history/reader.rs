//! Reading a history.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::audit::Entry;
use super::{Bounds, Change, Event, Report, What};

/// The file of the store's own record.
pub(crate) const AUDIT: &str = "store.audit";

/// The reason why a folder cannot be read as a history.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A file could not be read.
    #[error("could not read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not of the format, or belongs to another worker than its file.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The mistake in words.
        reason: String,
    },
    /// A file ends in the middle of a line although its worker was not killed.
    #[error("{} ends in the middle of a line, and worker {worker} was not killed", path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// The worker of the file.
        worker: u32,
    },
    /// The folder has no history file.
    #[error("{} holds no file worker-*.history", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

/// The events of all processes of a campaign, in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
    torn: usize,
    /// The store's own record of its holds, if there is one.
    audit: Option<Vec<Entry>>,
}

impl History {
    /// Creates a history of these events. Events of the same time keep their order.
    #[must_use]
    pub fn of(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { events, torn: 0, audit: None }
    }

    /// Adds the store's own record.
    #[cfg(test)]
    pub(super) fn with_audit(mut self, audit: Vec<Entry>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Reads and merges all files `worker-*.history` of a folder, and the store's own record
    /// (`store.audit`), if it exists. Call it after the writers have ended.
    ///
    /// An incomplete last line is skipped if the history says that its worker was killed.
    ///
    /// # Errors
    /// If a file cannot be read, has a line that is no event, or has an incomplete last line
    /// although its worker was not killed.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, HistoryError> {
        let folder = folder.as_ref();
        let files = files(folder)?;
        if files.is_empty() {
            return Err(HistoryError::Empty { path: folder.to_owned() });
        }
        let (mut events, mut torn) = (Vec::new(), Vec::new());
        for (worker, path) in files {
            if !read_file(&path, worker, &mut events)? {
                torn.push((worker, path));
            }
        }
        let killed: HashSet<u32> = events.iter().filter_map(killed).collect();
        let count = torn.len();
        if let Some((worker, path)) = torn.into_iter().find(|(worker, _)| !killed.contains(worker)) {
            return Err(HistoryError::Torn { path, worker });
        }
        let audit = read_audit(&folder.join(AUDIT))?;
        Ok(Self { torn: count, audit, ..Self::of(events) })
    }

    /// Returns the events, in the order of their times.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns how many files of killed workers have an incomplete last line.
    #[must_use]
    pub fn torn(&self) -> usize {
        self.torn
    }

    pub(super) fn audit(&self) -> Option<&[Entry]> {
        self.audit.as_deref()
    }

    /// Runs all checkers with the bounds of the contract.
    #[must_use]
    pub fn check(&self) -> Report {
        self.check_with(&Bounds::default())
    }

    /// Runs all checkers with other bounds.
    #[must_use]
    pub fn check_with(&self, bounds: &Bounds) -> Report {
        Report::of(self, bounds)
    }
}

fn killed(event: &Event) -> Option<u32> {
    match event.what {
        What::Process { worker, change: Change::Killed } => Some(worker),
        _ => None,
    }
}

/// Returns the files of a folder and their workers, in the order of the workers.
fn files(folder: &Path) -> Result<Vec<(u32, PathBuf)>, HistoryError> {
    let failed = |source| HistoryError::Io { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let worker = name.strip_prefix("worker-").and_then(|rest| rest.strip_suffix(".history"));
        if let Some(Ok(worker)) = worker.map(str::parse) {
            files.push((worker, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the events of a file; `false` if its last line was incomplete and skipped.
fn read_file(path: &Path, worker: u32, events: &mut Vec<Event>) -> Result<bool, HistoryError> {
    let bytes = std::fs::read(path).map_err(|source| HistoryError::Io { path: path.to_owned(), source })?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let (whole, rest) = bytes.split_at(end);
    for (index, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let event = event(line.strip_suffix(b"\n").unwrap_or(line), worker);
        events.push(event.map_err(|reason| HistoryError::Line {
            path: path.to_owned(),
            line: index + 1,
            reason,
        })?);
    }
    Ok(rest.is_empty())
}

fn read_audit(path: &Path) -> Result<Option<Vec<Entry>>, HistoryError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(HistoryError::Io { path: path.to_owned(), source }),
    };
    let entry = |(index, line): (usize, &str)| {
        let failed = |reason| HistoryError::Line { path: path.to_owned(), line: index + 1, reason };
        line.parse().map_err(failed)
    };
    text.lines().enumerate().map(entry).collect::<Result<_, _>>().map(Some)
}

fn event(line: &[u8], worker: u32) -> Result<Event, String> {
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let event: Event = line.parse()?;
    if event.worker != worker {
        return Err(format!("an event of worker {} in the file of worker {worker}", event.worker));
    }
    Ok(event)
}
