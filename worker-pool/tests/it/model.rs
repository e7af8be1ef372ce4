//! Random sequences of everything that can happen to the pool's state, checked against a model that
//! follows each job to its end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../src/kernel/mod.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod kernel;
mod world;

use proptest::prelude::*;
use world::{Op, World};

/// Sequences for each test, unless `PROPTEST_CASES` sets another number.
const CASES: u32 = 600;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Operations on a pool that stays open.
fn lively() -> impl Strategy<Value = Op> {
    let any = any::<usize>;
    prop_oneof![
        6 => Just(Op::TrySubmit),
        6 => Just(Op::Submit),
        4 => any().prop_map(Op::PollSubmit),
        2 => any().prop_map(Op::DropSubmit),
        8 => any().prop_map(Op::StepWorker),
        4 => any().prop_map(Op::Grant),
        6 => any().prop_map(Op::Finish),
        2 => any().prop_map(Op::Cancel),
        1 => (1..6usize).prop_map(Op::Resize),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
    ]
}

/// Operations on a pool that takes no more jobs. A second end is rare, because it would hide a
/// wake-up that the first one forgot.
fn ending() -> impl Strategy<Value = Op> {
    prop_oneof![
        60 => lively(),
        20 => any::<usize>().prop_map(Op::Cancel),
        1 => Just(Op::Drain),
        1 => Just(Op::Close),
        1 => Just(Op::Abort),
    ]
}

#[test]
fn a_draining_pool_whose_last_job_is_cancelled_dismisses_all_its_workers() {
    let mut world = World::new(2, 3, true);
    // One worker asks the store for the only job; the others rest.
    for op in [Op::Submit, Op::Drain, Op::StepWorker(0), Op::StepWorker(1), Op::StepWorker(2), Op::Cancel(0)]
    {
        world.act(op);
    }
    world.settle();
    world.check_ended();
}

#[test]
fn nobody_asks_the_store_on_behalf_of_jobs_that_were_withdrawn() {
    let mut world = World::new(3, 3, true);
    let steps = (0..3).map(Op::StepWorker);
    // Each cancels the last of the remaining jobs.
    let cancels = (0..3).map(Op::Cancel);
    for op in [Op::Submit, Op::Submit, Op::Submit].into_iter().chain(steps).chain(cancels) {
        world.act(op);
    }
    world.settle();
    world.check_idle();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_open_pool_loses_no_job_no_place_and_no_wake_up(
        limited in any::<bool>(),
        capacity in 1..5usize,
        workers in 1..5usize,
        ops in prop::collection::vec(lively(), 1..120),
    ) {
        let mut world = World::new(capacity, workers, limited);
        ops.into_iter().for_each(|op| world.act(op));
        world.act(Op::Resume);
        world.settle();
        world.check_idle();
    }

    #[test]
    fn an_ending_pool_accounts_for_every_job(
        limited in any::<bool>(),
        capacity in 1..5usize,
        workers in 1..5usize,
        before in prop::collection::vec(lively(), 1..60),
        closes in any::<bool>(),
        after in prop::collection::vec(ending(), 0..60),
    ) {
        let mut world = World::new(capacity, workers, limited);
        before.into_iter().for_each(|op| world.act(op));
        world.act(if closes { Op::Close } else { Op::Drain });
        after.into_iter().for_each(|op| world.act(op));
        world.settle();
        world.check_ended();
    }

    #[test]
    fn a_pool_whose_runtime_ends_keeps_no_job(
        limited in any::<bool>(),
        ops in prop::collection::vec(lively(), 1..60),
    ) {
        let mut world = World::new(3, 3, limited);
        ops.into_iter().for_each(|op| world.act(op));
        world.kill_all();
        world.check_ended();
    }
}
