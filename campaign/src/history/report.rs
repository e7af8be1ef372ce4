//! The result of a check.

use std::collections::BTreeMap;
use std::fmt;

use stanchion_core::Kind;

use super::digest::{Digest, Dossier, RecordedCall};
use super::event::KINDS;
use super::hold::{definite_end, holds, holds_as_believed};
use super::surroundings::Surroundings;
use super::{
    Bounds, History, Rule, Violation, What, audit, bystander, fence, limiter, liveness, mutex, semaphore,
    tokens, wait_group,
};

/// The numbers of a history for one kind of object: a campaign without grants has shown nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of objects.
    pub names: usize,
    /// The number of calls.
    pub calls: usize,
    /// The calls that got a hold, were allowed by a limiter, or waited for a wait group with
    /// success.
    pub grants: usize,
    /// The calls without a certain outcome: with an error that leaves it open, cancelled, or never
    /// answered.
    pub unknown: usize,
    /// The guarded writes that were taken or refused.
    pub writes: usize,
    /// The faults between its first and its last call, including killed and stopped processes.
    pub faults: usize,
    /// The number of violations.
    pub violations: usize,
}

/// The result of all checkers.
///
/// `Display` is a table with a line for each kind of object, and then the violations by rule: at
/// most [`PRINTED`](Self::PRINTED) of each, with the events that show them. The admitted violations
/// follow in the same form.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The numbers of each kind in the history.
    pub tallies: Vec<(Kind, Tally)>,
    /// All violations, by object.
    pub violations: Vec<Violation>,
    /// Violations that the contract admits because they happened under an [unsafe
    /// fault](What::FaultBegan): two holders of a mutex believe at once, or more permits than the
    /// limit are out. Resources guarded by fencing tokens tolerate them.
    pub admitted: Vec<Violation>,
    /// The number of events.
    pub events: usize,
    /// The number of faults of stores and connections.
    pub faults: usize,
    /// The number of killed processes.
    pub killed: usize,
    /// How often a process was stopped.
    pub stopped: usize,
    /// The files of killed processes with an incomplete last line.
    pub torn: usize,
}

impl Report {
    /// Maximum number of violations of one rule that `Display` prints.
    pub const PRINTED: usize = 5;

    pub(super) fn of(history: &History, bounds: &Bounds) -> Self {
        let mut digest = Digest::of(history.events());
        let mut violations = std::mem::take(&mut digest.violations);
        let mut admitted = Vec::new();
        for dossier in &digest.dossiers {
            let before = violations.len();
            let around = digest.around.of_object(dossier.object);
            check_one(dossier, &around, bounds, &mut violations);
            check_beliefs(dossier, &digest.around, &violations[before..], &mut admitted);
        }
        if let Some(entries) = history.audit() {
            audit::check(entries, &digest.dossiers, &mut violations);
        }
        let (faults, killed, stopped) = digest.around.faults();
        let tallies =
            KINDS.into_iter().filter_map(|kind| Some((kind, tally(&digest, kind, faults, &violations)?)));
        Self {
            tallies: tallies.collect(),
            events: history.events().len(),
            faults: faults.len() - killed - stopped,
            killed,
            stopped,
            torn: history.torn(),
            violations,
            admitted,
        }
    }

    /// Returns whether no rule was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the numbers of one kind.
    #[must_use]
    pub fn tally(&self, kind: Kind) -> Tally {
        self.tallies.iter().find(|(known, _)| *known == kind).map(|(_, tally)| *tally).unwrap_or_default()
    }
}

fn check_one(dossier: &Dossier<'_>, around: &Surroundings, bounds: &Bounds, found: &mut Vec<Violation>) {
    let object = dossier.object;
    if object.kind == Kind::Limiter {
        limiter::check(dossier, around, bounds, found);
    } else {
        let holds = holds(dossier, around);
        match object.kind {
            Kind::Mutex => {
                mutex::check(object, &holds, found);
                tokens::check(object, &holds, true, found);
                fence::check(dossier, &holds, found);
            }
            Kind::Semaphore => {
                semaphore::check(dossier, &holds, around, bounds, found);
                tokens::check(object, &holds, false, found);
                fence::check(dossier, &holds, found);
            }
            _ => wait_group::check(dossier, &holds, around, bounds, found),
        }
    }
    liveness::check(dossier, around, bounds, found);
    bystander::check(dossier, around, bounds, found);
}

/// Finds the violations that an unsafe fault excuses; `broken` are those that none excuses.
fn check_beliefs(
    dossier: &Dossier<'_>,
    around: &Surroundings,
    broken: &[Violation],
    admitted: &mut Vec<Violation>,
) {
    if around.unsafe_faults().is_empty() {
        return;
    }
    let holds = holds_as_believed(dossier, around);
    let mut found = Vec::new();
    match dossier.object.kind {
        Kind::Mutex => mutex::check(dossier.object, &holds, &mut found),
        Kind::Semaphore => semaphore::check_beliefs(dossier, &holds, around, &mut found),
        _ => {}
    }
    found.retain(|violation| !broken.iter().any(|other| other.events == violation.events));
    for violation in &mut found {
        let latest = violation.events.iter().map(|event| event.at).max().unwrap_or_default();
        violation.under = around.unsafe_names(latest);
    }
    admitted.append(&mut found);
}

fn tally(digest: &Digest<'_>, kind: Kind, faults: &[u64], violations: &[Violation]) -> Option<Tally> {
    let own: Vec<&Dossier<'_>> = digest.dossiers.iter().filter(|one| one.object.kind == kind).collect();
    let calls = || own.iter().flat_map(|dossier| &dossier.calls);
    let first = calls().map(|asked| asked.invoked.at).min()?;
    let last = calls().map(|asked| asked.answered().unwrap_or(asked.invoked.at)).max()?;
    let of_kind =
        |violation: &&Violation| violation.object.as_ref().is_some_and(|object| object.kind == kind);
    Some(Tally {
        names: own.len(),
        calls: calls().count(),
        grants: calls().filter(|asked| is_grant(asked)).count(),
        unknown: calls().filter(|asked| definite_end(asked).is_none()).count(),
        writes: own.iter().map(|dossier| dossier.writes.len()).sum(),
        faults: faults.iter().filter(|at| (first..=last).contains(*at)).count(),
        violations: violations.iter().filter(of_kind).count(),
    })
}

fn is_grant(asked: &RecordedCall<'_>) -> bool {
    asked.is_granted()
        || matches!(
            asked.answer.map(|answer| &answer.what),
            Some(What::Decided { allowed: true, .. } | What::Waited { .. })
        )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["names", "calls", "grants", "unknown", "writes", "faults", "violations"];
        write!(f, "{:<10}", "kind")?;
        for column in columns {
            write!(f, " {column:>10}")?;
        }
        writeln!(f)?;
        for (kind, tally) in &self.tallies {
            write!(f, "{:<10}", kind.as_str())?;
            let Tally { names, calls, grants, unknown, writes, faults, violations } = *tally;
            for number in [names, calls, grants, unknown, writes, faults, violations] {
                write!(f, " {number:>10}")?;
            }
            writeln!(f)?;
        }
        let Self { events, faults, killed, stopped, torn, violations, admitted, .. } = self;
        writeln!(
            f,
            "{events} events, {faults} faults of stores and links, {killed} processes killed, {stopped} stopped, \
             {torn} files torn"
        )?;
        if violations.is_empty() {
            writeln!(f, "no violation")?;
        }
        by_rule(f, violations, "violations of")?;
        by_rule(f, admitted, "admitted under unsafe faults:")
    }
}

fn by_rule(f: &mut fmt::Formatter<'_>, found: &[Violation], what: &str) -> fmt::Result {
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in found {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    for (rule, found) in by_rule {
        writeln!(f, "\n{} {what} {rule:?} ({}):", found.len(), rule.clauses())?;
        for violation in found.into_iter().take(Report::PRINTED) {
            writeln!(f, "{violation}")?;
        }
    }
    Ok(())
}
