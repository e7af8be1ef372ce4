//! `cargo xtask coverage`: does every clause of the contract have a case in every store, or a written reason?

pub(crate) mod clauses;
mod matrix;
mod scan;

use std::collections::BTreeMap;

use stanchion_conformance::gaps::GAPS;

use crate::Outcome;
use crate::workspace::{STORES, root};
use matrix::{Found, judge};
use scan::Sources;

/// Prints the table, the gaps with their reasons and the problems; well when there is no problem.
pub(crate) fn run() -> Outcome {
    let read = |folder: String| Sources::read(&root().join(folder));
    // Those about steps count as a lease store's own: a store without leases has none.
    let steps = read("conformance-tests/src/steps/cases".to_owned())?.async_functions();
    let mut own = BTreeMap::new();
    for store in STORES {
        let tests = read(format!("backend-{store}/tests"))?;
        let src = read(format!("backend-{store}/src"))?;
        let mut cases = [tests.test_functions(), src.test_functions()].concat();
        if [&tests, &src].iter().any(|sources| sources.calls("step_suite")) {
            cases.extend_from_slice(&steps);
        }
        own.insert(store, (tests.calls("suite"), cases));
    }
    let core =
        [read("core/tests".to_owned())?.test_functions(), read("core/src".to_owned())?.test_functions()];
    let found = Found {
        suite: read("conformance-tests/src/cases".to_owned())?.async_functions(),
        core: core.concat(),
        own,
    };
    let verdict = judge(&found, GAPS);
    print!("{}", verdict.table);
    for gap in GAPS {
        println!("gap: {} {}: {}", gap.store, gap.clause, gap.reason);
    }
    for problem in &verdict.problems {
        println!("problem: {problem}");
    }
    println!("{} clauses, {} problems", clauses::all().count(), verdict.problems.len());
    Ok(verdict.problems.is_empty())
}
