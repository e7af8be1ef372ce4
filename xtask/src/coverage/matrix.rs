//! For each clause and store: cases, a known gap, or a problem.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::clauses::{Clause, all, clauses_of};

/// The name of a case, without its path.
pub(super) type Case = String;

/// The cases of a store.
#[derive(Debug, Default)]
pub(super) struct StoreCases {
    /// The cases of the suites that its tests call.
    pub(super) suite: Vec<Case>,
    /// The cases of the suites that are a known gap in every call.
    pub(super) gaps: Vec<Case>,
    /// The cases of its own tests.
    pub(super) tests: Vec<Case>,
}

/// All cases.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The cases about logic that all stores share.
    pub(super) core: Vec<Case>,
    pub(super) stores: BTreeMap<&'static str, StoreCases>,
}

/// The table to print, and the problems.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) table: String,
    pub(super) problems: Vec<String>,
}

/// Compares the cases with the contract's clauses.
pub(super) fn judge(found: &Found) -> Verdict {
    let mut table = format!("{:<7}{:>9}", "clause", "core");
    let mut problems = unknown_clauses(found);
    for store in found.stores.keys() {
        let _ = write!(table, "{store:>10}");
    }
    table.push('\n');
    for clause in all() {
        let core = count(&found.core, clause);
        let _ = write!(table, "{clause:<7}{core:>9}");
        for (store, own) in &found.stores {
            let cell = Cell::of(own, core, clause);
            let _ = write!(table, "{:>10}", cell.text());
            if cell == Cell::Nothing {
                problems.push(format!("{clause} has neither a case nor a reason in {store}"));
            }
        }
        table.push('\n');
    }
    Verdict { table, problems }
}

/// The cases of one store for one clause.
#[derive(Debug, PartialEq, Eq)]
enum Cell {
    Cases(usize),
    /// The store has no case of its own or of the suite, but the logic that all stores share has
    /// one.
    Core,
    Gap,
    Nothing,
}

impl Cell {
    fn of(own: &StoreCases, core: usize, clause: Clause) -> Self {
        let gaps = count(&own.gaps, clause);
        match count(&own.suite, clause) + count(&own.tests, clause) - gaps {
            0 if gaps > 0 => Self::Gap,
            0 if core > 0 => Self::Core,
            0 if clause.gap().is_some() => Self::Gap,
            0 => Self::Nothing,
            cases => Self::Cases(cases),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Cases(cases) => cases.to_string(),
            Self::Core => "core".to_owned(),
            Self::Gap => "gap".to_owned(),
            Self::Nothing => "NONE".to_owned(),
        }
    }
}

fn count(cases: &[Case], clause: Clause) -> usize {
    cases.iter().filter(|case| clauses_of(case).contains(&clause)).count()
}

fn unknown_clauses(found: &Found) -> Vec<String> {
    let own = found.stores.values().flat_map(|own| own.suite.iter().chain(&own.tests));
    let unknown =
        found.core.iter().chain(own).filter(|case| clauses_of(case).iter().any(|clause| !clause.exists()));
    unknown.map(|case| format!("`{case}` begins with a clause that the contract does not have")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clause(id: &str) -> Clause {
        clauses_of(&format!("{id}_"))[0]
    }

    fn owned(names: &[&str]) -> Vec<Case> {
        names.iter().map(ToString::to_string).collect()
    }

    fn own(suite: &[&str], gaps: &[&str], tests: &[&str]) -> StoreCases {
        StoreCases { suite: owned(suite), gaps: owned(gaps), tests: owned(tests) }
    }

    #[test]
    fn cases_of_the_suite_and_of_the_store_are_added() {
        let own = own(&["m1_exclusion", "m1_m2_both", "w1_zero"], &["w1_zero"], &["m1_more"]);
        assert_eq!(Cell::of(&own, 0, clause("m1")), Cell::Cases(3));
        assert_eq!(Cell::of(&own, 0, clause("m2")), Cell::Cases(1));
        assert_eq!(Cell::of(&own, 3, clause("w1")), Cell::Gap);
        assert_eq!(Cell::of(&own, 3, clause("c7")), Cell::Core);
        assert_eq!(Cell::of(&own, 0, clause("c7")), Cell::Nothing);
    }

    #[test]
    fn every_clause_without_a_case_or_a_known_gap_is_a_problem() {
        let nothing = Found { core: vec![], stores: [("memory", StoreCases::default())].into() };
        let kept = all().filter(|clause| clause.gap().is_none());
        assert_eq!(judge(&nothing).problems.len(), kept.count());
        let cases: Vec<_> = all().map(|clause| format!("{clause}_case").to_lowercase()).collect();
        let own = StoreCases { suite: cases, ..StoreCases::default() };
        let verdict = judge(&Found { core: vec![], stores: [("memory", own)].into() });
        assert_eq!(verdict.problems, [""; 0]);
        assert_eq!(verdict.table.lines().count(), all().count() + 1);
    }

    #[test]
    fn what_the_contract_does_not_know_is_a_problem() {
        let found = Found { core: owned(&["c99_none"]), stores: BTreeMap::new() };
        assert!(judge(&found).problems[0].contains("`c99_none`"));
    }
}
