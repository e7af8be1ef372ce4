//! What wrapped stores of one state share, as the stores themselves share theirs.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Counters by name, and what is kept for ever.
#[derive(Default)]
pub(super) struct Ledger {
    counters: Mutex<HashMap<(Counter, String), u64>>,
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counter {
    Tokens,
    Replies,
    Waiters,
    Permits,
}

impl Ledger {
    /// The count of a name.
    pub(super) fn count(&self, counter: Counter, name: &str) -> u64 {
        self.change(counter, name, |_| {})
    }

    /// Changes the count of a name and gives the new one.
    pub(super) fn change(&self, counter: Counter, name: &str, change: impl FnOnce(&mut u64)) -> u64 {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counters.entry((counter, name.to_owned())).or_default();
        change(count);
        *count
    }

    /// Keeps something for ever.
    pub(super) fn keep(&self, something: impl Any + Send) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(something));
    }

    /// Forgets the counts, as a store does that loses its data.
    pub(super) fn forget(&self) {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}
