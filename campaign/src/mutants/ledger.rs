//! State shared by all wrapped stores of one harness, as their inner stores share theirs.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Counters by name, and values that are kept for ever.
#[derive(Default)]
pub(super) struct Ledger {
    counters: Mutex<HashMap<(Counter, String), u64>>,
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// The kinds of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counter {
    Tokens,
    Replies,
    Waiters,
    Permits,
}

impl Ledger {
    /// Returns the count of a name.
    pub(super) fn count(&self, counter: Counter, name: &str) -> u64 {
        self.change(counter, name, |_| {})
    }

    /// Changes the count of a name and returns the new one.
    pub(super) fn change(&self, counter: Counter, name: &str, change: impl FnOnce(&mut u64)) -> u64 {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counters.entry((counter, name.to_owned())).or_default();
        change(count);
        *count
    }

    /// Keeps a value for ever.
    pub(super) fn keep(&self, value: impl Any + Send) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(value));
    }

    /// Forgets the counts, like a store that loses its data.
    pub(super) fn forget(&self) {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}
