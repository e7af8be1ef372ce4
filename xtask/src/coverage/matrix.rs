//! Clause by clause and store by store: cases, a known gap, or a problem.

use std::collections::BTreeMap;
use std::fmt::Write;

use stanchion_conformance::gaps::Gap;

use super::clauses::{Clause, all, clauses_of, names};

/// The cases found in the sources, by name.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Those that run on every store whose tests call the suite.
    pub(super) suite: Vec<String>,
    /// Those about logic that all stores share.
    pub(super) core: Vec<String>,
    /// For each store: whether its tests call the suite, and its own cases.
    pub(super) own: BTreeMap<&'static str, (bool, Vec<String>)>,
}

/// The table to print, and what must not be so.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) table: String,
    pub(super) problems: Vec<String>,
}

/// Compares what was found with what the contract asks for.
pub(super) fn judge(found: &Found, gaps: &[Gap]) -> Verdict {
    let mut table = format!("{:<7}{:>9}", "clause", "core");
    let mut problems = unknown_clauses(found);
    problems.extend(gaps.iter().filter(|gap| !is_known(gap, found)).map(|gap| {
        format!("the gap {} of {} names no store or no clause of the contract", gap.clause, gap.store)
    }));
    for store in found.own.keys() {
        let _ = write!(table, "{store:>10}");
    }
    table.push('\n');
    for clause in all() {
        let _ = write!(table, "{clause:<7}{:>9}", count(&found.core, clause));
        for store in found.own.keys() {
            let cell = Cell::of(found, gaps, clause, store);
            let _ = write!(table, "{:>10}", cell.text());
            problems.extend(cell.problem(clause, store));
        }
        table.push('\n');
    }
    Verdict { table, problems }
}

/// What one store has for one clause.
#[derive(Debug, PartialEq, Eq)]
enum Cell {
    Cases(usize),
    /// None of its own and none of the suite, but the logic that all stores share is tested.
    Core,
    Gap,
    /// A gap, although there are cases of the store's own.
    Stale,
    Nothing,
}

impl Cell {
    fn of(found: &Found, gaps: &[Gap], clause: Clause, store: &str) -> Self {
        let (calls_suite, own) =
            found.own.get(store).map_or((false, 0), |(calls, own)| (*calls, count(own, clause)));
        let suite = if calls_suite { count(&found.suite, clause) } else { 0 };
        let is_gap = gaps.iter().any(|gap| gap.store == store && names(gap.clause, clause));
        match (is_gap, own, suite + own, count(&found.core, clause)) {
            (true, 0, ..) => Self::Gap,
            (true, ..) => Self::Stale,
            (false, _, 0, 0) => Self::Nothing,
            (false, _, 0, _) => Self::Core,
            (false, _, cases, _) => Self::Cases(cases),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Cases(cases) => cases.to_string(),
            Self::Core => "core".to_owned(),
            Self::Gap => "gap".to_owned(),
            Self::Stale => "STALE".to_owned(),
            Self::Nothing => "NONE".to_owned(),
        }
    }

    fn problem(&self, clause: Clause, store: &str) -> Option<String> {
        match self {
            Self::Stale => Some(format!("{clause} is a gap of {store}, and {store} has cases for it")),
            Self::Nothing => Some(format!("{clause} has neither a case nor a reason in {store}")),
            Self::Cases(_) | Self::Core | Self::Gap => None,
        }
    }
}

fn count(cases: &[String], clause: Clause) -> usize {
    cases.iter().filter(|case| clauses_of(case).contains(&clause)).count()
}

fn is_known(gap: &Gap, found: &Found) -> bool {
    found.own.contains_key(gap.store) && all().any(|clause| names(gap.clause, clause))
}

fn unknown_clauses(found: &Found) -> Vec<String> {
    let own = found.own.values().flat_map(|(_, cases)| cases);
    let cases = found.suite.iter().chain(&found.core).chain(own);
    let unknown = cases.filter(|case| clauses_of(case).iter().any(|clause| !clause.exists()));
    unknown.map(|case| format!("`{case}` begins with a clause that the contract does not have")).collect()
}

#[cfg(test)]
mod tests {
    use stanchion_conformance::gaps::Gap;

    use super::{Cell, Found, judge};
    use crate::coverage::clauses::{Clause, clauses_of};

    const GAPS: [Gap; 2] = [
        Gap { store: "redis", clause: "W", reason: "not yet" },
        Gap { store: "redis", clause: "C2", reason: "not yet" },
    ];

    fn clause(id: &str) -> Clause {
        clauses_of(&format!("{id}_"))[0]
    }

    fn found(suite: &[&str], core: &[&str], memory: &[&str], redis: &[&str]) -> Found {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = [("memory", (false, owned(memory))), ("redis", (true, owned(redis)))].into();
        Found { suite: owned(suite), core: owned(core), own }
    }

    fn cell(found: &Found, id: &str, store: &str) -> Cell {
        Cell::of(found, &GAPS, clause(id), store)
    }

    #[test]
    fn a_case_of_the_suite_counts_where_the_suite_is_called() {
        let found = found(
            &["m1_exclusion", "m1_m2_both", "w1_zero", "c2_retry"],
            &["c7_clock"],
            &["m1_more"],
            &["m1_more"],
        );
        assert_eq!(cell(&found, "m1", "redis"), Cell::Cases(3));
        assert_eq!(cell(&found, "m2", "redis"), Cell::Cases(1));
        assert_eq!(cell(&found, "m1", "memory"), Cell::Cases(1));
        assert_eq!(cell(&found, "m2", "memory"), Cell::Nothing);
        assert_eq!(cell(&found, "c7", "memory"), Cell::Core);
        assert_eq!(cell(&found, "c7", "redis"), Cell::Core);
    }

    #[test]
    fn a_gap_hides_the_suite_and_goes_stale_with_a_case_of_the_store() {
        let found = found(&["w1_zero", "c2_retry"], &[], &[], &["w2_done_twice"]);
        assert_eq!(cell(&found, "w1", "redis"), Cell::Gap);
        assert_eq!(cell(&found, "c2", "redis"), Cell::Gap);
        assert_eq!(cell(&found, "w2", "redis"), Cell::Stale);
        assert_eq!(cell(&found, "c20", "redis"), Cell::Nothing);
    }

    #[test]
    fn every_clause_without_a_case_is_a_problem() {
        let nothing = judge(&found(&[], &[], &[], &[]), &GAPS);
        assert_eq!(nothing.problems.len(), 2 * 68 - 9);
        let cases: Vec<_> = super::all().map(|clause| format!("{clause}_case").to_lowercase()).collect();
        let cases: Vec<_> = cases.iter().map(String::as_str).collect();
        let all = judge(&found(&cases, &[], &cases, &[]), &GAPS);
        assert_eq!(all.problems, [""; 0]);
        assert_eq!(all.table.lines().count(), 69);
        assert!(all.table.contains("C2             0         1       gap\n"), "{}", all.table);
    }

    #[test]
    fn what_the_contract_does_not_know_is_a_problem() {
        let gaps = [
            Gap { store: "rediss", clause: "C1", reason: "a typing error" },
            Gap { store: "redis", clause: "C27", reason: "a typing error" },
        ];
        let problems = judge(&found(&[], &["c27_none"], &[], &[]), &gaps).problems;
        let is_about = |words: &str| problems.iter().any(|problem| problem.contains(words));
        assert!(is_about("`c27_none`") && is_about("gap C1 of rediss") && is_about("gap C27 of redis"));
    }
}
