//! Reads along with `cargo test` and counts.

use std::collections::{BTreeMap, HashMap};

use crate::coverage::clauses::clauses_of;

/// How many of the slowest programs are named.
const SLOWEST: usize = 20;

/// How many tests ended in which way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// The part of a test program's output that is being read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Cases,
    /// What the tests that passed have printed.
    Successes,
    /// What the tests that failed have printed, and their names.
    Failures,
}

/// What the output has said so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    part: Part,
    /// What failed, as the programs told it.
    failures: String,
    /// How long each program took.
    times: Vec<(f64, String)>,
    /// The folder of the package that each test program is from.
    packages: HashMap<String, String>,
    program: Option<String>,
    /// A program that has begun and not told its result.
    unfinished: bool,
    broken: Vec<String>,
    total: Counts,
    cases: BTreeMap<String, Counts>,
    /// How many cases have said that they are a known gap, by store and reason.
    gaps: BTreeMap<(String, String), usize>,
}

impl Report {
    /// Reads a run of test programs of these packages, by file name.
    pub(crate) fn new(packages: HashMap<String, String>) -> Self {
        Self { packages, ..Self::default() }
    }

    /// Reads one line, and tells whether it is worth printing: what a test that passed has printed is not.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        let line = without_colours(line);
        self.enter(line.trim_end());
        if self.part == Part::Failures {
            self.failures.push_str(line.trim_end());
            self.failures.push('\n');
        }
        self.count(line.trim());
        self.part != Part::Successes
    }

    fn enter(&mut self, line: &str) {
        match line {
            "successes:" => self.part = Part::Successes,
            "failures:" => {
                if self.part != Part::Failures {
                    let program = self.program.as_deref().unwrap_or("a test program");
                    self.failures.push_str(&format!("\n==> {program}\n"));
                }
                self.part = Part::Failures;
            }
            line if line.starts_with("test result: ") || line.starts_with("     Running ") => {
                self.part = Part::Cases;
            }
            _ => {}
        }
    }

    fn count(&mut self, line: &str) {
        if let Some(program) = line.strip_prefix("Running ") {
            self.begin(file_name_in_brackets(program));
        } else if line.starts_with("Doc-tests ") {
            self.begin(Some(line.to_owned()));
        } else if line.starts_with("running ") && (line.ends_with(" test") || line.ends_with(" tests")) {
            self.unfinished = true;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.unfinished = false;
            self.total.passed += number_before(result, " passed");
            self.total.failed += number_before(result, " failed");
            self.total.skipped += number_before(result, " ignored");
            self.keep_time(result);
        } else if let Some(gap) = line.strip_prefix("gap: ") {
            self.count_gap(gap);
        } else if let Some((name, verdict)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            self.count_case(name, verdict);
        }
    }

    /// Whether nothing has failed.
    pub(crate) fn is_well(&self) -> bool {
        self.total.failed == 0 && self.broken.is_empty() && !self.unfinished
    }

    /// How many tests have passed, without those that said that they are a known gap.
    pub(crate) fn passed(&self) -> usize {
        self.total().passed
    }

    /// Prints the slowest programs, what failed, the cases of each store, the programs that ended without a result,
    /// and the totals in one last line.
    pub(crate) fn print(&mut self) {
        self.begin(None);
        self.times.sort_by(|one, other| other.0.total_cmp(&one.0));
        println!("\nthe slowest test programs");
        for (seconds, program) in self.times.iter().take(SLOWEST) {
            println!("{seconds:>8.1} s  {program}");
        }
        println!("{}", self.failures);
        for (store, Counts { passed, failed, skipped }) in &self.cases {
            println!("{store:<9} {passed} conformance cases passed, {failed} failed, {skipped} skipped");
        }
        for program in &self.broken {
            println!("{program} ended without a result; it counts as one failure");
        }
        for ((store, reason), cases) in &self.gaps {
            println!("{store:<9} {cases} cases are a known gap: {reason}");
        }
        let Counts { passed, failed, skipped } = self.total();
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }

    /// All tests. A program without a result is a failure, a known gap is skipped although its test passes.
    fn total(&self) -> Counts {
        let gaps = self.gaps.values().sum();
        Counts {
            passed: self.total.passed.saturating_sub(gaps),
            failed: self.total.failed + self.broken.len(),
            skipped: self.total.skipped + gaps,
        }
    }

    fn keep_time(&mut self, result: &str) {
        let seconds = result.rsplit(' ').next().and_then(|time| time.strip_suffix('s')?.parse().ok());
        if let (Some(seconds), Some(program)) = (seconds, &self.program) {
            let package = self.packages.get(program).map_or("", String::as_str);
            self.times.push((seconds, format!("{package}/{program}")));
        }
    }

    fn begin(&mut self, program: Option<String>) {
        if self.unfinished {
            self.broken.push(self.program.take().unwrap_or_else(|| "a test program".to_owned()));
        }
        self.unfinished = false;
        self.program = program;
    }

    /// The store whose tests are running, if they are a store's.
    fn store(&self) -> Option<String> {
        let package = self.packages.get(self.program.as_ref()?)?;
        package.strip_prefix("backend-").map(str::to_owned)
    }

    /// Reads `group::case: reason`, which the suite prints when it does not run a case.
    fn count_gap(&mut self, gap: &str) {
        let (Some(store), Some((_, reason))) = (self.store(), gap.split_once(": ")) else { return };
        if let Some(counts) = self.cases.get_mut(&store) {
            counts.passed = counts.passed.saturating_sub(1);
            counts.skipped += 1;
        }
        *self.gaps.entry((store, reason.to_owned())).or_default() += 1;
    }

    fn count_case(&mut self, name: &str, verdict: &str) {
        let Some(store) = self.store() else { return };
        let function = name.rsplit("::").next().unwrap_or(name);
        if clauses_of(function).is_empty() {
            return;
        }
        let counts = self.cases.entry(store).or_default();
        match verdict.split([' ', ',']).next() {
            Some("ok") => counts.passed += 1,
            Some("FAILED") => counts.failed += 1,
            Some("ignored") => counts.skipped += 1,
            _ => {}
        }
    }
}

/// The program in `tests/suite.rs (target/debug/deps/suite-0a1b)`.
fn file_name_in_brackets(text: &str) -> Option<String> {
    let path = text.rsplit_once('(')?.1.trim_end_matches(')');
    path.rsplit('/').next().map(str::to_owned)
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Takes out the escape sequences that colour text, `ESC [ … m`.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    plain.extend(parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text)));
    plain
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Counts, Report};

    const OUTPUT: &str = "\
\u{1b}[1m\u{1b}[32m     Running\u{1b}[0m unittests src/lib.rs (target/debug/deps/stanchion_core-11)
running 1 test
test clock::tests::c7_monotonic ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
     Running tests/suite.rs (target/debug/deps/suite-22)
running 5 tests
test mutex::m2_fencing_token_grows ... ok
test mutex::m1_exclusion ... FAILED
test c9_lost ... ignored, no clock
test limiter::l1_exact ... ok
test helper ... ok

successes:

---- limiter::l1_exact stdout ----
gap: limiter::l1_exact: the store declares no limiters: none

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    fn read(text: &str) -> Report {
        let packages = [("stanchion_core-11", "core"), ("suite-22", "backend-redis")];
        let packages: HashMap<_, _> =
            packages.iter().map(|(program, package)| (program.to_string(), package.to_string())).collect();
        let mut report = Report::new(packages);
        text.lines().for_each(|line| {
            report.read(line);
        });
        report
    }

    #[test]
    fn what_failed_is_kept_and_what_passed_is_not_printed() {
        let failed = "
failures:

---- mutex::m1_exclusion stdout ----
two holders

failures:
    mutex::m1_exclusion

test result: FAILED.";
        let output = OUTPUT.replace("\ntest result: FAILED.", failed);
        let mut report = read("");
        let printed: Vec<_> = output.lines().filter(|line| report.read(line)).collect();
        let printed = printed.join("\n");
        assert!(
            printed.contains("two holders") && printed.contains("test limiter::l1_exact ... ok"),
            "{printed}"
        );
        assert!(printed.contains("finished in 1.00s") && !printed.contains("gap: "), "{printed}");
        assert_eq!(report.failures.matches("two holders").count(), 1);
        assert!(report.failures.starts_with("\n==> suite-22\nfailures:\n"), "{}", report.failures);
        assert!(!report.failures.contains("test result"), "{}", report.failures);
        assert_eq!(report.gaps.len(), 1);
        assert_eq!(
            report.times,
            [(0.01, "core/stanchion_core-11".to_owned()), (1.0, "backend-redis/suite-22".to_owned())]
        );
    }

    #[test]
    fn totals_and_cases_are_counted() {
        let report = read(OUTPUT);
        assert_eq!(report.total(), Counts { passed: 3, failed: 1, skipped: 2 });
        assert_eq!(report.cases.len(), 1);
        assert_eq!(report.cases["redis"], Counts { passed: 1, failed: 1, skipped: 2 });
        let gap = ("redis".to_owned(), "the store declares no limiters: none".to_owned());
        assert_eq!(report.gaps, [(gap, 1)].into());
        assert!(!report.is_well());
    }

    #[test]
    fn a_program_without_a_result_is_a_failure() {
        let (whole, _) = OUTPUT.split_once("test mutex::m1").unwrap();
        let mut report = read(whole);
        assert!(!report.is_well());
        report.read("   Doc-tests stanchion_core");
        assert_eq!(report.broken, ["suite-22"]);
        assert_eq!(report.total(), Counts { passed: 1, failed: 1, skipped: 0 });
        assert!(!report.is_well());
    }
}
