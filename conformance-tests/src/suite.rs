//! The runner of the cases.

use std::any::Any;
use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use stanchion_core::{
    BloomOptions, Capabilities, ErrorKind, LimiterOptions, ListOptions, Quota, Store, WaitGroupOptions,
};

use crate::gaps::{CannotShow, Gap};
use crate::harness::Harness;

pub use crate::case::Case;

/// Timeout of a case: a case that takes longer counts as stuck.
pub const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Timeout of a case that is listed as a gap and expected to fail.
pub(crate) const GAP_LIMIT: Duration = Duration::from_secs(20);

/// Makes a harness or a case. Boxed, because generic code would be compiled once for each case.
type Start = Making<Box<dyn Harness>>;
pub(crate) type Making<T> = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = T>>> + Send>;

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The case passed.
    Passed,
    /// The case could not be shown, for this reason.
    Gap(String),
    /// The case failed, with this message.
    Failed(String),
}

/// Returns the case with that path.
#[must_use]
pub fn find(path: &str) -> Option<Case> {
    crate::cases::CASES.iter().find(|case| case.path() == path).copied()
}

/// Runs the case with that path. [`suite!`](crate::suite!) makes a test that calls it.
///
/// # Panics
/// If the case fails or takes longer than [`CASE_LIMIT`], or if no case has that path.
pub fn run<H, F>(path: &str, start: impl FnOnce() -> F + Send + 'static)
where
    H: Harness,
    F: Future<Output = H>,
{
    run_boxed(path, boxed(start));
}

fn run_boxed(path: &str, start: Start) {
    let case = find(path).unwrap_or_else(|| panic!("there is no case {path}"));
    match judged(case, CASE_LIMIT, start) {
        Verdict::Passed => {}
        Verdict::Gap(reason) => panic!("{path}: {reason}: a known gap is listed in the call of the suite"),
        Verdict::Failed(message) => panic!("{path}: {message}"),
    }
}

/// Checks the list of known gaps. [`suite!`](crate::suite!) makes a test that calls it.
///
/// # Panics
/// If the list names an unknown case, or a case that passes.
pub fn check_gaps<H, F>(gaps: &[Gap], start: impl Fn() -> F + Clone + Send + 'static)
where
    H: Harness,
    F: Future<Output = H>,
{
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    for gap in gaps {
        let listed: Vec<_> = crate::CASES.iter().filter(|case| gap.lists(&case.path())).collect();
        if listed.is_empty() {
            wrong.push(format!("{gap:?} names no case"));
        }
        all.extend(listed.into_iter().map(|case| (*case, gap.reason)));
    }
    // Side by side: most of them wait for something that does not come.
    wrong.extend(thread::scope(|scope| {
        let judge = |(case, reason): (Case, &'static str)| {
            let start = start.clone();
            scope.spawn(move || {
                let passed = verdict(case, GAP_LIMIT, start) == Verdict::Passed;
                passed.then(|| format!("{} passes, and is listed as a gap: {reason}", case.path()))
            })
        };
        let judged: Vec<_> = all.into_iter().map(judge).collect();
        judged.into_iter().filter_map(|case| case.join().expect("a verdict")).collect::<Vec<_>>()
    }));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Prints the number of cases of a suite and the declarations of its store, past the output capture
/// of the test runner. [`suite!`](crate::suite!) makes a test that calls it.
///
/// # Panics
/// If the store cannot be reached.
pub fn print_counts<H, F>(suite: &str, gaps: &[Gap], start: impl FnOnce() -> F + Send + 'static)
where
    H: Harness,
    F: Future<Output = H>,
{
    let cases = crate::CASES.len();
    let known = crate::CASES.iter().filter(|case| gaps.iter().any(|gap| gap.lists(&case.path()))).count();
    let counts = format!("suite {suite}: {cases} cases, {known} known gaps");
    let start = boxed(start);
    let print = async move || {
        let capabilities = start().await.store().await.capabilities();
        // The runner shows the output of a test only if the test fails.
        let _ = writeln!(io::stdout(), "{counts}; the store declares {capabilities:?}");
        Verdict::Passed
    };
    let printed = apart("counts", CASE_LIMIT, Box::new(|| Box::pin(print())));
    assert_eq!(printed, Verdict::Passed, "{suite}");
}

/// Runs a case on a runtime of its own and returns its verdict. A case that takes longer than
/// `limit` has failed; its thread keeps running.
///
/// # Panics
/// If the system refuses to start a thread or a runtime.
pub fn verdict<H, F>(case: Case, limit: Duration, start: impl FnOnce() -> F + Send + 'static) -> Verdict
where
    H: Harness,
    F: Future<Output = H>,
{
    judged(case, limit, boxed(start))
}

fn boxed<H, F>(start: impl FnOnce() -> F + Send + 'static) -> Start
where
    H: Harness,
    F: Future<Output = H>,
{
    Box::new(|| Box::pin(async { Box::new(start().await) as Box<dyn Harness> }))
}

fn judged(case: Case, limit: Duration, start: Start) -> Verdict {
    let held = async move || {
        let harness = start().await;
        let store = harness.store().await;
        let capabilities = store.capabilities();
        if let Some(reason) = case.undeclared(&capabilities) {
            check_refusals(store.as_ref(), &capabilities).await;
            return Verdict::Gap(reason.to_owned());
        }
        drop(store);
        (case.run)(harness.as_ref()).await;
        Verdict::Passed
    };
    apart(case.name, limit, Box::new(|| Box::pin(held())))
}

/// Runs a case on a thread and a runtime of its own, for at most `limit`.
pub(crate) fn apart(name: &str, limit: Duration, case: Making<Verdict>) -> Verdict {
    let (report, reported) = mpsc::channel();
    let runner = thread::Builder::new().name(name.to_owned());
    let runner = runner.spawn(move || {
        let verdict = drive(case);
        // The receiver is gone only if the runner has given the case up.
        let _ = report.send(verdict);
    });
    let runner = runner.expect("a thread for the case");
    match reported.recv_timeout(limit) {
        Ok(verdict) => {
            let _ = runner.join();
            verdict
        }
        Err(mpsc::RecvTimeoutError::Timeout) => Verdict::Failed(format!("stuck for {limit:?}")),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let payload = runner.join().err().unwrap_or_else(|| Box::new("it ended without a verdict"));
            match payload.downcast::<CannotShow>() {
                Ok(cannot_show) => Verdict::Gap(cannot_show.0),
                Err(payload) => Verdict::Failed(message_of(payload.as_ref())),
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a case is driven from here, as a test is by its runner")]
fn drive(case: Making<Verdict>) -> Verdict {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build();
    let runtime = runtime.expect("a runtime for the case");
    let verdict = runtime.block_on(case());
    runtime.shutdown_timeout(Duration::from_secs(1));
    verdict
}

/// Checks that the store refuses every call of a capability that it declares missing.
async fn check_refusals(store: &dyn Store, capabilities: &Capabilities) {
    if !capabilities.wait_groups {
        let refusal = store.wait_group("w", WaitGroupOptions::default()).map(drop);
        assert_eq!(refusal.map_err(|error| error.kind()), Err(ErrorKind::Unsupported), "wait groups");
    }
    if !capabilities.limiters {
        let refusal = store.limiter("l", LimiterOptions::new(Quota::per_second(1))).map(drop);
        assert_eq!(refusal.map_err(|error| error.kind()), Err(ErrorKind::Unsupported), "limiters");
    }
    if !capabilities.namespaces {
        let refusal = store.namespace("n").await.map(drop);
        assert_eq!(refusal.map_err(|error| error.kind()), Err(ErrorKind::Unsupported), "namespaces");
    }
    if !capabilities.listing {
        let refusal = store.list(ListOptions::new()).await.map(drop);
        assert_eq!(refusal.map_err(|error| error.kind()), Err(ErrorKind::Unsupported), "a listing");
    }
    if !capabilities.bloom_filters {
        let refusal = store.bloom_filter("b", BloomOptions::new(1, 0.1)).map(drop);
        assert_eq!(refusal.map_err(|error| error.kind()), Err(ErrorKind::Unsupported), "Bloom filters");
    }
}

/// Returns the message of a panic from its payload.
#[must_use]
pub fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}

/// Makes one `#[test]` for each case, so that no store can leave one out.
///
/// The argument is an expression for a [`Harness`](crate::Harness). It may await, and is evaluated
/// again for each case, on the runtime of that case. Known [gaps](crate::gaps) follow it, each with
/// its reason: a case or a whole group. Two more tests check that list and print the number of
/// cases.
///
/// ```ignore
/// stanchion_conformance::suite!(MyHarness::start().await);
///
/// stanchion_conformance::suite!(MyHarness::start().await, gaps {
///     limiter: "the store has no limiters",
///     all_kinds::c25_idle_names_leave_nothing: "the server cannot be asked what it keeps",
/// });
/// ```
#[macro_export]
macro_rules! suite {
    ($harness:expr $(,)?) => {
        $crate::suite! { $harness, gaps {} }
    };
    ($harness:expr, gaps { $($gaps:tt)* } $(,)?) => {
        $crate::known_gaps! { ($) $($gaps)* }
        $crate::for_each_case! { [$crate::suite_tests] ($crate::suite::run, $harness) }

        mod gaps {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn each_listed_gap_is_one() {
                $crate::suite::check_gaps(KNOWN_GAPS, || async { $harness });
            }

            #[test]
            fn counts_are_printed() {
                let suite = module_path!().trim_end_matches("::gaps");
                $crate::suite::print_counts(suite, KNOWN_GAPS, || async { $harness });
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_tests {
    ($start:tt $({ $($group:ident)+ } $cases:tt)+) => {
        $($($crate::suite_group! { $start $group $cases })+)+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_group {
    (($run:path, $harness:expr) $group:ident [$($case:ident,)+]) => {
        mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(with_known_gap! {
                $group $case
                #[test]
                fn $case() {
                    let path = concat!(stringify!($group), "::", stringify!($case));
                    $run(path, || async { $harness });
                }
            })+
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_case_has_its_own_path_and_a_clause() {
        let paths: HashSet<_> = crate::CASES.iter().map(Case::path).collect();
        assert_eq!(paths.len(), crate::CASES.len());
        assert!(crate::CASES.iter().all(|case| !case.clauses().is_empty()));
    }
}
