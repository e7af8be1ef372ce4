//! Random sequences of everything that can happen to the pool's state, beside a model that follows each job to its end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/kernel/mod.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod kernel;
#[path = "model/world.rs"]
mod world;

use proptest::prelude::*;
use world::{Op, World};

/// As many sequences for each test, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 600;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What happens to a pool that stays open.
fn lively() -> impl Strategy<Value = Op> {
    let any = any::<usize>;
    prop_oneof![
        6 => Just(Op::TrySubmit),
        6 => Just(Op::Submit),
        4 => any().prop_map(Op::PollTurn),
        2 => any().prop_map(Op::DropTurn),
        8 => any().prop_map(Op::StepWorker),
        6 => any().prop_map(Op::Finish),
        2 => any().prop_map(Op::Cancel),
        1 => (1..6usize).prop_map(Op::Resize),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
    ]
}

fn ending() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => lively(),
        1 => Just(Op::Drain),
        1 => Just(Op::Close),
        1 => Just(Op::Abort),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_open_pool_loses_no_job_no_place_and_no_wake_up(
        gated in any::<bool>(),
        capacity in 1..5usize,
        workers in 1..5usize,
        ops in prop::collection::vec(lively(), 1..120),
    ) {
        let mut world = World::new(capacity, workers, gated);
        ops.into_iter().for_each(|op| world.act(op));
        world.act(Op::Resume);
        world.settle();
        world.check_idle();
    }

    #[test]
    fn an_ending_pool_accounts_for_every_job(
        gated in any::<bool>(),
        capacity in 1..5usize,
        workers in 1..5usize,
        ops in prop::collection::vec(ending(), 1..120),
        closes in any::<bool>(),
    ) {
        let mut world = World::new(capacity, workers, gated);
        ops.into_iter().for_each(|op| world.act(op));
        world.act(if closes { Op::Close } else { Op::Drain });
        world.settle();
        world.check_ended();
    }

    #[test]
    fn a_pool_whose_runtime_ends_keeps_no_job(
        gated in any::<bool>(),
        ops in prop::collection::vec(lively(), 1..60),
    ) {
        let mut world = World::new(3, 3, gated);
        ops.into_iter().for_each(|op| world.act(op));
        world.kill_all();
        world.check_ended();
    }
}
