//! Random sequences of operations, through the public traits, beside a sequential model: several
//! store objects over one state, in a time that the test moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

/// Longer than the store keeps anything of an idle name.
pub(crate) const RETENTION: std::time::Duration = std::time::Duration::from_secs(2 * 60 * 60);

#[path = "../../../../core/tests/it/limit_model/mod.rs"]
mod limit_model;

mod group_ops;
mod groups;
mod limits;
mod model;
mod permits;
mod real;
mod terms;

use std::future::Future;

use proptest::prelude::*;

/// As many sequences for each kind, unless `PROPTEST_CASES` says otherwise; what fails is shrunk,
/// and its operations are printed.
const CASES: u32 = 400;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs a sequence in a time that stands still unless it is moved.
fn paused(sequence: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(sequence);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn m1_a_mutex_does_what_the_model_does(terms in terms::mutexes(), ops in permits::ops()) {
        paused(permits::run(permits::What::Mutex, terms, ops));
    }

    #[test]
    fn s1_a_semaphore_does_what_the_model_does(terms in terms::semaphores(), ops in permits::ops()) {
        paused(permits::run(permits::What::Semaphore, terms, ops));
    }

    #[test]
    fn w1_a_wait_group_does_what_the_model_does(terms in terms::groups(), ops in group_ops::ops()) {
        paused(groups::run(terms, ops));
    }

    #[test]
    fn l3_a_limiter_does_what_the_model_does(handles in limits::handles(), ops in limits::ops()) {
        paused(limits::run(handles, ops));
    }
}
