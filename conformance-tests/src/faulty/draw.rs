//! Random faults.

use std::env;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use stanchion_core::spi::RequestKind;

use super::Fault;

/// Draws faults at random.
#[derive(Debug)]
pub(super) struct Draw {
    pub(super) seed: u64,
    random: StdRng,
}

/// Probability that a hint is lost, and probability that it is doubled.
const HINT_FAULTS: f64 = 0.1;
/// Probability that a late request arrives before another request.
const LATE_ARRIVAL: f64 = 0.3;

impl Draw {
    pub(super) fn new() -> Self {
        let given = env::var("STANCHION_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(rand::random);
        Self { seed, random: StdRng::seed_from_u64(seed) }
    }

    /// Draws the fault of a request; one in five gets one, but for an operator's.
    pub(super) fn fault(&mut self, kind: RequestKind) -> Option<Fault> {
        use RequestKind as K;
        // Requests that only read, and an operator's.
        let is_other = matches!(
            kind,
            K::Inspect
                | K::Total
                | K::Resize
                | K::ForceRelease
                | K::SetQuota
                | K::Reset
                | K::Clear
                | K::Survey
                | K::Read
                | K::List
                | K::Ping
        );
        if is_other {
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

    /// Draws which of `count` late requests arrives now, if any.
    pub(super) fn late(&mut self, count: usize) -> Option<usize> {
        (count > 0 && self.random.random_bool(LATE_ARRIVAL)).then(|| self.random.random_range(0..count))
    }

    /// Draws how often a hint arrives.
    pub(super) fn hints(&mut self) -> usize {
        match self.random.random_range(0.0..1.0) {
            drawn if drawn < HINT_FAULTS => 0,
            drawn if drawn < 2.0 * HINT_FAULTS => 2,
            _ => 1,
        }
    }
}
