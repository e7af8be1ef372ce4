//! Suites of mutants: each planted bug must be caught, and none may be missing.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Bug, MutantTarget};
use crate::history::{Report, Rule};
use stanchion_conformance::suite::{Verdict, message_of};

/// Maximum length of a printed message, in characters.
const MAXIMUM_MESSAGE: usize = 200;

/// The case or checker that caught a bug, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    by: String,
    message: String,
}

impl Detection {
    /// Creates it from a case's verdicts on a store with the bug and without it.
    ///
    /// # Panics
    /// Unless the case failed with the bug and passed without it.
    #[must_use]
    pub fn by_case(path: &str, with: Verdict, without: &Verdict) -> Self {
        assert_eq!(*without, Verdict::Passed, "{path} without the bug");
        match with {
            Verdict::Failed(message) => Self { by: path.to_owned(), message },
            other => panic!("{path} does not catch the bug: {other:?}"),
        }
    }

    /// Creates it from a checker's reports of a scenario with the bug and without it.
    ///
    /// # Panics
    /// Unless the report with the bug has a violation of `rule`, and the report without it has none
    /// at all.
    #[must_use]
    pub fn by_rule(rule: Rule, with: &Report, without: &Report) -> Self {
        assert!(without.is_clean(), "without the bug:\n{without}");
        let broken = with.violations.iter().find(|violation| violation.rule == rule);
        let broken = broken.unwrap_or_else(|| panic!("{rule:?} does not catch the bug:\n{with}"));
        let by = format!("the checker of histories ({rule:?}, {})", rule.clauses());
        Self { by, message: broken.text.clone() }
    }

    /// Returns it unchanged if its message contains `words`: a case can fail for another reason,
    /// too.
    ///
    /// # Panics
    /// If the message does not contain them.
    #[must_use]
    pub fn saying(self, words: &str) -> Self {
        assert!(self.message.contains(words), "it does not say {words:?}: {self}");
        self
    }
}

impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.message.split_whitespace().collect();
        write!(f, "{}: {:.MAXIMUM_MESSAGE$}", self.by, words.join(" "))
    }
}

/// Plants a bug and returns its detections, at least one. Panics if a case or checker does not
/// catch it.
pub type Check = fn(Bug) -> Vec<Detection>;

/// The bugs of one target, with their checks. [`mutants!`](macro@crate::mutants) makes one.
#[derive(Debug)]
pub struct MutantSuite {
    target: MutantTarget,
    checks: &'static [(Bug, Check)],
    outcomes: Mutex<BTreeMap<Bug, Arc<OnceLock<Outcome>>>>,
}

/// The lines to print for a caught bug, or the reason why it was not caught.
type Outcome = Result<Vec<String>, String>;

impl MutantSuite {
    /// Creates a suite of these checks.
    #[must_use]
    pub const fn new(target: MutantTarget, checks: &'static [(Bug, Check)]) -> Self {
        Self { target, checks, outcomes: Mutex::new(BTreeMap::new()) }
    }

    /// Runs the check of one bug, unless another thread runs it or has run it, and prints the
    /// detections.
    ///
    /// # Panics
    /// If the bug was not caught.
    pub fn run(&self, bug: Bug) {
        match self.outcome(bug) {
            Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
            Err(message) => panic!("{bug:?} is not caught: {message}"),
        }
    }

    /// Runs the checks that have not run yet, and prints the detections and the number of bugs.
    ///
    /// # Panics
    /// If a bug was not caught, or the checks are not exactly the target's bugs, each once.
    pub fn run_all(&self) {
        let planted = |bug: &&Bug| bug.targets().contains(&self.target);
        let planted: Vec<Bug> = Bug::ALL.iter().filter(planted).copied().collect();
        let mut listed: Vec<Bug> = self.checks.iter().map(|(bug, _)| *bug).collect();
        listed.sort_unstable();
        assert_eq!(listed, planted, "bugs with a check, and bugs that are to be planted: {}", self.target);
        // From the back: other threads begin at the front.
        listed.iter().rev().for_each(|bug| drop(self.outcome(*bug)));
        let (mut caught, mut missed) = (0, Vec::new());
        for bug in listed {
            match self.outcome(bug) {
                Ok(lines) => {
                    caught += 1;
                    lines.iter().for_each(|line| println!("{line}"));
                }
                Err(message) => missed.push(format!("{bug:?}: {message}")),
            }
        }
        println!("{}: {} planted bugs, {caught} caught", self.target, planted.len());
        assert!(missed.is_empty(), "{}: not caught: {}", self.target, missed.join("; "));
    }

    fn outcome(&self, bug: Bug) -> Outcome {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = Arc::clone(outcomes.entry(bug).or_default());
        drop(outcomes);
        outcome.get_or_init(|| self.check(bug)).clone()
    }

    fn check(&self, bug: Bug) -> Outcome {
        let check = self.checks.iter().find(|(checked, _)| *checked == bug).map(|(_, check)| check);
        let check = check.ok_or("it has no check")?;
        let caught = catch_unwind(AssertUnwindSafe(|| check(bug)));
        let caught = caught.map_err(|panic| message_of(panic.as_ref()))?;
        if caught.is_empty() {
            return Err("its check names nothing that catches it".to_owned());
        }
        Ok(caught.iter().map(|detection| format!("{bug:?} is caught by {detection}")).collect())
    }
}

/// Makes one `#[test]` for each bug of a [`MutantTarget`], and one that runs all of them and
/// counts.
///
/// ```ignore
/// stanchion_campaign::mutants! {
///     Redis;
///     m3_bare_counter: BareCounter => |bug| vec![caught_by(bug, "as_mutex::m3_fencing_token_grows_after_data_loss")];
/// }
/// ```
#[macro_export]
macro_rules! mutants {
    ($target:ident; $($test:ident: $bug:ident => $check:expr;)+) => {
        static SUITE: $crate::mutants::MutantSuite = $crate::mutants::MutantSuite::new(
            $crate::mutants::MutantTarget::$target,
            &[$(($crate::mutants::Bug::$bug, $check)),+],
        );
        $(
            #[test]
            fn $test() {
                SUITE.run($crate::mutants::Bug::$bug);
            }
        )+
        #[test]
        fn every_planted_bug_is_caught() {
            SUITE.run_all();
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed() -> Verdict {
        Verdict::Passed
    }

    #[test]
    fn a_case_catches_what_it_fails_with_and_passes_without() {
        let failed = || Verdict::Failed("left\n right".to_owned());
        let caught = Detection::by_case("a::case", failed(), &passed());
        assert_eq!(caught.to_string(), "a::case: left right");
        assert!(catch_unwind(|| caught.clone().saying("left\n").saying("wrong")).is_err());
        for (with, without) in
            [(passed(), passed()), (failed(), failed()), (Verdict::Gap(String::new()), passed())]
        {
            assert!(catch_unwind(|| Detection::by_case("a::case", with, &without)).is_err());
        }
    }

    #[test]
    fn every_bug_is_planted_somewhere() {
        assert!(Bug::ALL.iter().all(|bug| !bug.targets().is_empty()));
        assert!(Bug::ALL.is_sorted());
        println!("{} kinds of planted bugs", Bug::ALL.len());
    }

    #[test]
    fn a_bug_without_its_check_is_missed() {
        static CHECKS: [(Bug, Check); 1] =
            [(Bug::LateGrant, |_| vec![Detection { by: "a".to_owned(), message: "b".to_owned() }])];
        let suite = MutantSuite::new(MutantTarget::Redis, &CHECKS);
        suite.run(Bug::LateGrant);
        assert!(catch_unwind(AssertUnwindSafe(|| suite.run(Bug::BareCounter))).is_err());
        assert!(
            catch_unwind(AssertUnwindSafe(|| suite.run_all())).is_err(),
            "others of its target are not listed"
        );
    }
}
