//! The report of a test run: counts, the slowest cases, and the failures.

use std::collections::BTreeMap;

use super::events::{Ended, Verdict};
use super::side_by_side::Done;
use super::tiers::Left;
use crate::coverage::clauses::clauses_of;

/// Number of the slowest cases to print.
const SLOWEST: usize = 10;

/// The numbers of tests by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The results of the programs of one run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    done: Vec<Done>,
    /// Tests that the tier leaves to other runs.
    left: Vec<Left>,
    /// The doc tests, and their output if one failed.
    pub(crate) doc_tests: Counts,
}

impl Report {
    pub(crate) fn new(done: Vec<Done>, left: Vec<Left>, doc_tests: Counts) -> Self {
        Self { done, left, doc_tests }
    }

    fn ended(&self) -> impl Iterator<Item = (&Done, &Ended)> {
        self.done.iter().flat_map(|done| done.told.ended.iter().map(move |ended| (done, ended)))
    }

    /// Sums up all tests. A program that broke off adds one failure.
    pub(crate) fn total(&self) -> Counts {
        let mut total = self.doc_tests;
        self.ended().for_each(|(_, ended)| total.count(&ended.verdict));
        total.failed += self.done.iter().filter(|done| done.broken.is_some()).count();
        total
    }

    /// Returns whether no test failed and at least one passed.
    pub(crate) fn is_well(&self) -> bool {
        let total = self.total();
        total.failed == 0 && total.passed > 0
    }

    /// Counts the cases of each store: the tests with clauses in their names.
    fn cases(&self) -> BTreeMap<&str, Counts> {
        let mut cases: BTreeMap<&str, Counts> = BTreeMap::new();
        for (done, ended) in self.ended() {
            let function = ended.name.rsplit("::").next().unwrap_or(&ended.name);
            if !clauses_of(function).is_empty() {
                cases.entry(&done.package).or_default().count(&ended.verdict);
            }
        }
        cases
    }

    /// Prints the whole report. The last line has the totals.
    pub(crate) fn print(&self) {
        self.print_slowest();
        for line in self.done.iter().flat_map(|done| &done.told.others) {
            println!("{line}");
        }
        self.print_skipped();
        for (package, Counts { passed, failed, skipped }) in self.cases() {
            println!("{package:<22} {passed} cases of clauses passed, {failed} failed, {skipped} skipped");
        }
        self.print_failures();
        for left in &self.left {
            println!("{left}");
        }
        let Counts { passed, failed, skipped } = self.total();
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }

    fn print_slowest(&self) {
        let mut slowest: Vec<_> = self.ended().collect();
        slowest.sort_by(|one, other| other.1.seconds.total_cmp(&one.1.seconds));
        println!("\nthe {SLOWEST} slowest cases");
        for (done, ended) in slowest.into_iter().take(SLOWEST) {
            println!("{:>7.1} s  {} {}", ended.seconds, done.program, ended.name);
        }
    }

    fn print_skipped(&self) {
        let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (done, ended) in self.ended() {
            if let Verdict::Skipped(reason) = &ended.verdict {
                *reasons.entry((&done.program, reason)).or_default() += 1;
            }
        }
        for ((program, reason), tests) in reasons {
            println!("{program}: {tests} skipped: {reason}");
        }
    }

    fn print_failures(&self) {
        for (done, ended) in self.ended() {
            if let Verdict::Failed(output) = &ended.verdict {
                println!("\nFAILED: {} {}\n{}", done.program, ended.name, output.trim_end());
            }
        }
        for done in &self.done {
            if let Some(broken) = &done.broken {
                println!("\nBROKEN: {}: {broken}", done.program);
            }
        }
    }
}

/// Returns the sum of the counts in the summaries of a doc test run.
pub(crate) fn counts_of_doc_tests(output: &str) -> Counts {
    let mut counts = Counts::default();
    for result in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        counts.add(Counts {
            passed: number_before(result, " passed"),
            failed: number_before(result, " failed"),
            skipped: number_before(result, " ignored"),
        });
    }
    counts
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::events::Told;

    fn done(verdicts: &[(&str, Verdict)], broken: Option<&str>) -> Done {
        let ended = verdicts.iter().map(|(name, verdict)| Ended {
            name: (*name).to_owned(),
            verdict: verdict.clone(),
            seconds: 1.0,
        });
        let told = Told { ended: ended.collect(), is_complete: broken.is_none(), ..Told::default() };
        let (program, package) = ("backend-redis/it".to_owned(), "stanchion-redis".to_owned());
        Done { program, package, told, broken: broken.map(str::to_owned), seconds: 1.0 }
    }

    #[test]
    fn totals_and_cases_are_counted() {
        let verdicts = [
            ("mutex::m1_exclusion", Verdict::Failed(String::new())),
            ("mutex::m2_token", Verdict::Passed),
            ("helper", Verdict::Passed),
            ("c9_lost", Verdict::Skipped("no clock".to_owned())),
        ];
        let doc_tests = Counts { passed: 3, failed: 0, skipped: 1 };
        let report = Report::new(vec![done(&verdicts, None)], Vec::new(), doc_tests);
        assert_eq!(report.total(), Counts { passed: 5, failed: 1, skipped: 2 });
        assert_eq!(report.cases()["stanchion-redis"], Counts { passed: 1, failed: 1, skipped: 1 });
        assert!(!report.is_well());
    }

    #[test]
    fn a_program_that_breaks_off_is_a_failure_and_nothing_is_no_success() {
        let passed = [("m1_exclusion", Verdict::Passed)];
        assert!(!Report::new(vec![done(&passed, Some("killed"))], Vec::new(), Counts::default()).is_well());
        assert!(Report::new(vec![done(&passed, None)], Vec::new(), Counts::default()).is_well());
        assert!(!Report::default().is_well());
    }

    #[test]
    fn summaries_of_doc_tests_are_added() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n";
        assert_eq!(counts_of_doc_tests(output), Counts { passed: 4, failed: 1, skipped: 1 });
    }
}
