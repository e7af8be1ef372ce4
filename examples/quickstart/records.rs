//! The records of the fleet: a ledger that checks fencing tokens, and a journal of all events.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use stanchion::{Fenced, FencingToken, Ticket};

use crate::Result;

/// Ledger and journal, in this process or, for several processes, in two files side by side.
pub(crate) struct Records {
    /// One entry for each line: the fencing token and the ticket under which it was written.
    ledger: Fenced<Vec<String>>,
    /// Append-only, so that no mutex is needed to keep it whole.
    journal: Mutex<Vec<String>>,
    file: Option<PathBuf>,
}

/// The totals of the records at the end.
pub(crate) struct Tally {
    /// Entries in the ledger.
    pub(crate) entries: usize,
    /// Entries that were written to the ledger and are no longer in it.
    pub(crate) missing: usize,
    /// Maximum number of slots in use at one time.
    pub(crate) most_slots: usize,
}

impl Records {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { ledger: Fenced::new(Vec::new()), journal: Mutex::default(), file }
    }

    pub(crate) fn read_ledger(&self) -> Result<Vec<String>> {
        match &self.file {
            None => Ok(self.ledger.read(Vec::clone)),
            Some(path) => read_lines(&open_locked(path)?),
        }
    }

    /// Replaces the whole ledger, unless a later holder of the mutex has written to it.
    pub(crate) fn write_ledger(
        &self,
        token: FencingToken,
        ticket: Ticket,
        entries: Vec<String>,
    ) -> Result<()> {
        let Some(path) = &self.file else {
            return Ok(self.ledger.write((token, ticket), |ledger| *ledger = entries)?);
        };
        // Locked, so that the check and the write are atomic.
        let mut file = open_locked(path)?;
        let newest = read_lines(&file)?.last().and_then(|entry| entry.split(' ').next()?.parse().ok());
        if newest.is_some_and(|newest: u64| token.get() <= newest) {
            return Err("the ledger has seen a newer fencing token".into());
        }
        let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        Ok(file.set_len(text.len() as u64)?)
    }

    /// Records that an entry is in the ledger.
    pub(crate) fn booked(&self, token: FencingToken, ticket: Ticket) -> Result<()> {
        self.note(format!("booked {token} {ticket}"))
    }

    /// Records that a slot is in use.
    pub(crate) fn enter(&self, ticket: Ticket) -> Result<()> {
        self.note(format!("enter {ticket}"))
    }

    /// Records that a slot is about to be released.
    pub(crate) fn leave(&self, ticket: Ticket) -> Result<()> {
        self.note(format!("leave {ticket}"))
    }

    pub(crate) fn tally(&self) -> Result<Tally> {
        let ledger: HashSet<String> = self.read_ledger()?.into_iter().collect();
        let journal = match &self.file {
            None => self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Some(path) => read_lines(&open_locked(&journal_of(path))?)?,
        };
        let booked = journal.iter().filter_map(|line| line.strip_prefix("booked "));
        let missing = booked.filter(|entry| !ledger.contains(*entry)).count();
        Ok(Tally { entries: ledger.len(), missing, most_slots: most_at_once(&journal) })
    }

    fn note(&self, line: String) -> Result<()> {
        match &self.file {
            None => self.journal.lock().unwrap_or_else(PoisonError::into_inner).push(line),
            Some(path) => {
                let mut file = File::options().create(true).append(true).open(journal_of(path))?;
                file.write_all(format!("{line}\n").as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns the maximum number of overlapping stays in slots. A stay without an end is not counted:
/// its process was killed, or is still in it.
fn most_at_once(journal: &[String]) -> usize {
    let ended: HashSet<&str> = journal.iter().filter_map(|line| line.strip_prefix("leave ")).collect();
    let (mut now, mut most) = (0, 0);
    for line in journal {
        if line.strip_prefix("enter ").is_some_and(|ticket| ended.contains(ticket)) {
            now += 1;
            most = most.max(now);
        } else if line.starts_with("leave ") {
            now -= 1;
        }
    }
    most
}

fn journal_of(ledger: &Path) -> PathBuf {
    ledger.with_extension("journal")
}

/// Opens a file, creates it if it is missing, and locks out other processes until it is dropped.
#[expect(clippy::incompatible_msrv, reason = "examples are built beside the testbed, which needs Rust 1.89")]
fn open_locked(path: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    file.lock()?;
    Ok(file)
}

fn read_lines(mut file: &File) -> Result<Vec<String>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text.lines().map(str::to_owned).collect())
}
