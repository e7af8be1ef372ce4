//! The runner of the cases about steps.

use std::future::Future;
use std::time::Duration;

use super::cases::{CLOCK_CASES, STEP_CASES};
use super::harness::{ClockHarness, StepHarness};
use crate::case::{Case, Running};
use crate::gaps::Gap;
use crate::suite::{CASE_LIMIT, GAP_LIMIT, Making, Verdict, apart};

/// Runs the case with that path. [`step_suite!`](crate::step_suite!) makes a test that calls it.
///
/// # Panics
/// If the case fails or takes longer than [`CASE_LIMIT`], or if no case has that path.
pub fn run<H, F>(path: &str, start: impl FnOnce() -> F + Send + 'static)
where
    H: StepHarness,
    F: Future<Output = H>,
{
    let run = find(&STEP_CASES, path);
    held(path, Box::new(move || Box::pin(async move { run(&start().await).await })));
}

/// Runs the case with that path. [`clock_suite!`](crate::clock_suite!) makes a test that calls it.
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

/// Runs the case with that path on a runtime of its own and returns its verdict, as
/// [`suite::verdict`](crate::suite::verdict) does for cases about stores.
///
/// # Panics
/// If no case has that path, or the system refuses to start a thread or a runtime.
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

/// Checks the list of known gaps of a suite with the cases of these paths.
/// [`step_suite!`](crate::step_suite!) makes a test that calls it.
///
/// # Panics
/// If the list names a case that is not in the suite, or a case that passes.
pub fn check_gaps<H, F>(gaps: &[Gap], paths: &[&[&str]], start: impl Fn() -> F + Clone + Send + 'static)
where
    H: StepHarness,
    F: Future<Output = H>,
{
    check(gaps, paths, |path| verdict(path, GAP_LIMIT, start.clone()));
}

/// Does the same as [`check_gaps`] for [`clock_suite!`](crate::clock_suite!).
///
/// # Panics
/// As [`check_gaps`].
pub fn check_clock_gaps<H, F>(gaps: &[Gap], paths: &[&[&str]], start: impl Fn() -> F + Clone + Send + 'static)
where
    H: ClockHarness,
    F: Future<Output = H>,
{
    check(gaps, paths, |path| {
        let (run, start) = (find(&CLOCK_CASES, path), start.clone());
        judged(path, GAP_LIMIT, Box::new(move || Box::pin(async move { run(&start().await).await })))
    });
}

fn check(gaps: &[Gap], paths: &[&[&str]], verdict: impl Fn(&str) -> Verdict) {
    let mut wrong = Vec::new();
    for gap in gaps {
        let listed: Vec<_> = paths.concat().into_iter().filter(|path| gap.lists(path)).collect();
        if listed.is_empty() {
            wrong.push(format!("{gap:?} names no case of this suite"));
        }
        let passing = listed.iter().filter(|path| verdict(path) == Verdict::Passed);
        wrong.extend(passing.map(|path| format!("{path} passes, and is listed as a gap: {}", gap.reason)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn held(path: &str, run: Making<()>) {
    match judged(path, CASE_LIMIT, run) {
        Verdict::Passed => {}
        Verdict::Gap(reason) => panic!("{path}: {reason}: a known gap is listed in the call of the suite"),
        Verdict::Failed(message) => panic!("{path}: {message}"),
    }
}

fn judged(path: &str, limit: Duration, run: Making<()>) -> Verdict {
    let held = || async {
        run().await;
        Verdict::Passed
    };
    apart(path, limit, Box::new(move || Box::pin(held())))
}

/// Makes one `#[test]` for each case about steps, so that no lease store can leave one out.
///
/// The argument is an expression for a [`StepHarness`](crate::steps::StepHarness); it may await,
/// and is evaluated again for each case, on the runtime of that case. Known [gaps](crate::gaps)
/// follow it, each with its reason: a case or a whole group that the store does not support or its
/// harness cannot show. One more test checks that list.
///
/// ```ignore
/// stanchion_conformance::step_suite!(MySteps::start().await);
///
/// stanchion_conformance::permit_step_suite!(MySteps::start().await, gaps {
///     liveness::c16_the_order_survives_a_restart_of_the_store: "it lives in this process and ends with it",
/// });
/// ```
///
/// Two suites need two modules.
#[macro_export]
macro_rules! step_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! {
            (run check_gaps) [
                for_each_permit_step_case for_each_group_step_case for_each_limit_step_case for_each_list_step_case
            ] $($call)+
        }
    };
}

/// The part of [`step_suite!`](crate::step_suite!) that needs the requests of mutexes and
/// semaphores.
#[macro_export]
macro_rules! permit_step_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! { (run check_gaps) [for_each_permit_step_case] $($call)+ }
    };
}

/// The part of [`step_suite!`](crate::step_suite!) that needs the requests of wait groups as well.
#[macro_export]
macro_rules! group_step_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! { (run check_gaps) [for_each_group_step_case] $($call)+ }
    };
}

/// The part of [`step_suite!`](crate::step_suite!) that needs limiters.
#[macro_export]
macro_rules! limit_step_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! { (run check_gaps) [for_each_limit_step_case] $($call)+ }
    };
}

/// The part of [`step_suite!`](crate::step_suite!) that needs listings beside the steps of all
/// four primitives.
#[macro_export]
macro_rules! list_step_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! { (run check_gaps) [for_each_list_step_case] $($call)+ }
    };
}

/// Does the same as [`step_suite!`](crate::step_suite!) for the cases that set the clock of a
/// [`ClockHarness`](crate::steps::ClockHarness).
#[macro_export]
macro_rules! clock_suite {
    ($($call:tt)+) => {
        $crate::suite_of_steps! { (run_by_clock check_clock_gaps) [for_each_clock_case] $($call)+ }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_of_steps {
    ($runner:tt $lists:tt $harness:expr $(,)?) => {
        $crate::suite_of_steps! { $runner $lists $harness, gaps {} }
    };
    (($run:ident $check:ident) [$($list:ident)+] $harness:expr, gaps { $($gaps:tt)* } $(,)?) => {
        $crate::known_gaps! { ($) $($gaps)* }
        $($crate::$list! { [$crate::suite_tests] ($crate::steps::$run, $harness) })+

        mod gaps {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn each_listed_gap_is_one() {
                let paths = [$($crate::$list! { [$crate::step_paths] () }),+];
                $crate::steps::$check(KNOWN_GAPS, &paths, || async { $harness });
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! step_paths {
    (() $({ $group:ident } [$($case:ident,)+])+) => {
        &[$($(concat!(stringify!($group), "::", stringify!($case)),)+)+] as &[&str]
    };
}
