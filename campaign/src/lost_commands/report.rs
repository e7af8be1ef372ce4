//! The report of all runs.

use std::collections::BTreeMap;
use std::fmt;

use super::{Call, Contention, Loss};

/// A run that broke the contract.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Breach {
    /// The call.
    pub call: Call,
    /// The contention.
    pub contention: Contention,
    /// The loss.
    pub loss: Loss,
    /// The number of the lost command, counted from 1; `None` if none was lost.
    pub k: Option<u64>,
    /// The breach in words, and the requests and replies that the proxy saw.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, contention, loss, k, text } = self;
        match k {
            Some(k) => write!(f, "{call}, {contention:?}, {loss}, command {k}: {text}"),
            None => write!(f, "{call}, {contention:?}, nothing lost: {text}"),
        }
    }
}

/// The runs of one call, counted by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of runs.
    pub runs: usize,
    /// The runs that sent the command to be lost.
    pub struck: usize,
    /// The largest number of commands that a run sent; each of them was lost once.
    pub commands: u64,
    /// Calls that succeeded.
    pub granted: usize,
    /// Calls that ended with a definite no.
    pub refused: usize,
    /// Calls that ended with an error.
    pub failed: usize,
    /// Calls that were dropped.
    pub dropped: usize,
}

/// All runs.
///
/// `Display` is a table with a line for each call, and then the breaches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The counts by the name of the call.
    pub counts: BTreeMap<String, Counts>,
    /// The breaches.
    pub breaches: Vec<Breach>,
}

impl Report {
    /// Returns whether commands of each call were lost, and there was no breach.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let is_shown = |counts: &Counts| counts.struck > 0 && counts.commands > 0;
        self.breaches.is_empty() && !self.counts.is_empty() && self.counts.values().all(is_shown)
    }

    /// Returns how many commands were lost.
    #[must_use]
    pub fn struck(&self) -> usize {
        self.counts.values().map(|counts| counts.struck).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["runs", "struck", "commands", "granted", "refused", "failed", "dropped"];
        write!(f, "{:<31}", "call")?;
        for column in columns {
            write!(f, " {column:>8}")?;
        }
        writeln!(f)?;
        for (call, counts) in &self.counts {
            let Counts { runs, struck, commands, granted, refused, failed, dropped } = *counts;
            write!(f, "{call:<31} {runs:>8} {struck:>8} {commands:>8}")?;
            writeln!(f, " {granted:>8} {refused:>8} {failed:>8} {dropped:>8}")?;
        }
        self.breaches.iter().try_for_each(|breach| writeln!(f, "{breach}"))
    }
}
