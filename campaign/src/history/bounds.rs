//! The time limits that the contract allows.

use stanchion_conformance::EPSILON;

/// Upper bounds in µs; the default is the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// ε, the scheduling allowance: 500 ms.
    pub epsilon: u64,
    /// The delay that dead waiters in front may cause the others, including the poll floor (C5): 2
    /// s.
    pub silence: u64,
    /// The time until clients work again after a fault (C18), and until a dropped future has left
    /// nothing behind while the store answers (C4): 1 s.
    pub recovery: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        let epsilon = u64::try_from(EPSILON.as_micros()).unwrap_or(u64::MAX);
        Self { epsilon, silence: 2_000_000, recovery: 1_000_000 }
    }
}

impl Bounds {
    /// Sets ε, in µs.
    #[must_use]
    pub fn epsilon(mut self, epsilon: u64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Sets the bound on the delay by dead waiters, in µs.
    #[must_use]
    pub fn silence(mut self, silence: u64) -> Self {
        self.silence = silence;
        self
    }

    /// Sets the bound on recovery, in µs.
    #[must_use]
    pub fn recovery(mut self, recovery: u64) -> Self {
        self.recovery = recovery;
        self
    }
}
