//! A case about steps as data, and what runs it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::cases::{CLOCK_CASES, STEP_CASES};
use super::harness::{ClockHarness, StepHarness};
use crate::suite::{CASE_LIMIT, Making, Running, Verdict, apart};

/// One case about what a harness `H` brings.
pub struct Case<H: ?Sized + 'static> {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) run: for<'a> fn(&'a H) -> Running<'a>,
}

impl<H: ?Sized> Case<H> {
    /// The name: clauses in lower case, then what is asserted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Group and name, as the test runner prints them.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

impl<H: ?Sized> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("group", &self.group).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs the case of that path; what [`step_suite!`](crate::step_suite!) makes a test of.
///
/// # Panics
/// If the case fails or takes longer than [`CASE_LIMIT`], or if there is none of that path.
pub fn run<H, F>(path: &str, start: impl FnOnce() -> F + Send + 'static)
where
    H: StepHarness,
    F: Future<Output = H>,
{
    let run = find(&STEP_CASES, path);
    held(path, Box::new(move || Box::pin(async move { run(&start().await).await })));
}

/// Runs the case of that path; what [`clock_suite!`](crate::clock_suite!) makes a test of.
///
/// # Panics
/// As [`run`].
pub fn run_by_clock<H, F>(path: &str, start: impl FnOnce() -> F + Send + 'static)
where
    H: ClockHarness,
    F: Future<Output = H>,
{
    let run = find(&CLOCK_CASES, path);
    held(path, Box::new(move || Box::pin(async move { run(&start().await).await })));
}

/// Runs the case of that path on a runtime of its own and says what became of it, as
/// [`suite::verdict`](crate::suite::verdict) does for cases about stores.
///
/// # Panics
/// If there is none of that path, or the system refuses a thread or a runtime.
pub fn verdict<H, F>(path: &str, limit: Duration, start: impl FnOnce() -> F + Send + 'static) -> Verdict
where
    H: StepHarness,
    F: Future<Output = H>,
{
    let run = find(&STEP_CASES, path);
    judged(path, limit, Box::new(move || Box::pin(async move { run(&start().await).await })))
}

fn find<H: ?Sized>(cases: &[Case<H>], path: &str) -> for<'a> fn(&'a H) -> Running<'a> {
    cases.iter().find(|case| case.path() == path).unwrap_or_else(|| panic!("there is no case {path}")).run
}

fn held(path: &str, run: Making<()>) {
    if let Verdict::Failed(message) = judged(path, CASE_LIMIT, run) {
        panic!("{path}: {message}");
    }
}

fn judged(path: &str, limit: Duration, run: Making<()>) -> Verdict {
    let held = || async {
        run().await;
        Verdict::Passed
    };
    apart(path, limit, Box::new(move || Box::pin(held())))
}

/// Makes one `#[test]` of each case about steps, so that no lease store can leave one out.
///
/// The argument is an expression for a [`StepHarness`](crate::steps::StepHarness); it may await, and is evaluated anew
/// for each case, on the runtime of that case.
///
/// ```ignore
/// stanchion_conformance::step_suite!(MySteps::start().await);
/// ```
#[macro_export]
macro_rules! step_suite {
    ($harness:expr) => {
        $crate::for_each_step_case! { [$crate::step_tests] (run $harness) }
    };
}

/// As [`step_suite!`](crate::step_suite!), of the cases that set the clock of a
/// [`ClockHarness`](crate::steps::ClockHarness).
#[macro_export]
macro_rules! clock_suite {
    ($harness:expr) => {
        $crate::for_each_clock_case! { [$crate::step_tests] (run_by_clock $harness) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! step_tests {
    ($start:tt $({ $group:ident } $cases:tt)+) => {
        $($crate::step_group! { $start $group $cases })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! step_group {
    (($run:ident $harness:expr) $group:ident [$($case:ident,)+]) => {
        mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $case() {
                    let path = concat!(stringify!($group), "::", stringify!($case));
                    $crate::steps::$run(path, || async { $harness });
                }
            )+
        }
    };
}
