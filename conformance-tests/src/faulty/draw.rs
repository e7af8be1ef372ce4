//! Faults that are drawn.

use std::env;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step};

/// What draws.
#[derive(Debug)]
pub(super) struct Draw {
    pub(super) seed: u64,
    random: StdRng,
}

/// A hint is lost, or doubled, this often each.
const HINTS: f64 = 0.1;
/// A late request comes before another this often.
const ARRIVES: f64 = 0.3;

impl Draw {
    pub(super) fn new() -> Self {
        let given = env::var("STANCHION_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(rand::random);
        Self { seed, random: StdRng::seed_from_u64(seed) }
    }

    /// What becomes of a request; one in five meets a fault.
    pub(super) fn fault(&mut self, step: Step) -> Option<Fault> {
        if step == Step::Other {
            return None;
        }
        match self.random.random_range(0..100) {
            0..5 => Some(Fault::LoseRequest),
            5..10 => Some(Fault::LoseReply),
            10..14 => Some(Fault::Double),
            14..17 => Some(Fault::Late),
            17..20 => Some(Fault::Delay),
            _ => None,
        }
    }

    /// Which of so many late requests comes now, if one does.
    pub(super) fn late(&mut self, count: usize) -> Option<usize> {
        (count > 0 && self.random.random_bool(ARRIVES)).then(|| self.random.random_range(0..count))
    }

    /// How often a hint arrives.
    pub(super) fn hints(&mut self) -> usize {
        match self.random.random_range(0.0..1.0) {
            drawn if drawn < HINTS => 0,
            drawn if drawn < 2.0 * HINTS => 2,
            _ => 1,
        }
    }
}
