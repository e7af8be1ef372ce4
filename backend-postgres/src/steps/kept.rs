//! Names whose rows somebody was seen to keep locked: the next batches do not wait for them again
//! (C27).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stanchion_core::spi::Object;

/// So many names are remembered at most. Without it a batch takes longer, and nothing else.
const MOST: usize = 1_000;

/// What one pool has seen: the names, each with the mark of the transaction that kept a row of it
/// locked.
#[derive(Debug, Default)]
pub(super) struct KeptNames(Mutex<HashMap<Object, String>>);

impl KeptNames {
    /// Notes that a transaction keeps a row of this name.
    pub(super) fn saw(&self, object: &Object, locker: String) {
        let mut names = self.names();
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(object.clone(), locker);
    }

    /// Returns those of the objects that are remembered.
    pub(super) fn among<'o>(&self, objects: &[&'o Object]) -> Vec<&'o Object> {
        let names = self.names();
        if names.is_empty() {
            return Vec::new();
        }
        objects.iter().copied().filter(|object| names.contains_key(*object)).collect()
    }

    /// Returns whether the transaction that was seen to keep a row of this name still does;
    /// `locker` is the one that has a row of it locked now, if there is one. Otherwise forgets the
    /// name.
    pub(super) fn still_is(&self, object: &Object, locker: Option<&String>) -> bool {
        let mut names = self.names();
        let is_same = locker.is_some() && names.get(object) == locker;
        if !is_same {
            names.remove(object);
        }
        is_same
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Object, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
