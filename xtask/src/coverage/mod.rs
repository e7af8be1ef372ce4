//! `cargo xtask coverage`: does every clause of the contract have a case in every store, or a
//! written reason?
//!
//! The cases of the suites are data. A store's own tests, and its calls of the suites with their
//! known gaps, are read from the sources.

pub(crate) mod clauses;
mod matrix;
mod scan;

use stanchion_conformance::CASES;
use stanchion_conformance::steps::{CLOCK_CASES, STEP_CASES};

use crate::Outcome;
use crate::workspace::{STORES, root};
use matrix::{Found, StoreCases, judge};
use scan::{Call, Sources};

/// Prints the table, the gaps with their reasons, and the problems. Returns `true` if there is no
/// problem.
pub(crate) fn run() -> Outcome {
    let read = |folder: String| Sources::read(&root().join(folder));
    let mut found = Found::default();
    for folder in ["core/tests", "core/src"] {
        found.core.extend(read(folder.to_owned())?.test_functions());
    }
    for store in STORES {
        let sources = read(format!("backend-{store}/tests"))?.and(read(format!("backend-{store}/src"))?);
        let calls = sources.calls("suite");
        print_gaps(store, &calls);
        found.stores.insert(store, cases_of(&sources, &calls));
    }
    let verdict = judge(&found);
    for (clause, gap) in clauses::all().filter_map(|clause| Some((clause, clause.gap()?))) {
        println!("gap: all stores: {clause}: {gap}");
    }
    print!("{}", verdict.table);
    for problem in &verdict.problems {
        println!("problem: {problem}");
    }
    println!("{} clauses, {} problems", clauses::all().count(), verdict.problems.len());
    Ok(verdict.problems.is_empty())
}

fn cases_of(sources: &Sources, calls: &[Call]) -> StoreCases {
    let mut own = StoreCases { tests: sources.test_functions(), ..StoreCases::default() };
    for case in CASES.iter().filter(|_| !calls.is_empty()) {
        own.suite.push(case.name().to_owned());
        if calls.iter().all(|call| call.lists_as_gap(&case.path())) {
            own.gaps.push(case.name().to_owned());
        }
    }
    if !sources.calls("step_suite").is_empty() {
        own.suite.extend(STEP_CASES.iter().map(|case| case.name().to_owned()));
    }
    if !sources.calls("clock_suite").is_empty() {
        own.suite.extend(CLOCK_CASES.iter().map(|case| case.name().to_owned()));
    }
    own
}

fn print_gaps(store: &str, calls: &[Call]) {
    for call in calls {
        for (case, reason) in &call.gaps {
            println!("gap: {store}, {}: {case}: {reason}", call.harness);
        }
    }
}
