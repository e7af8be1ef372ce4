//! Names whose rows somebody was seen to keep locked: the next batches do not wait for them again
//! (C27).

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stanchion_core::spi::Object;

/// So many names are remembered at most. Without it a batch takes longer, and nothing else.
const MOST: usize = 1_000;

/// The marks of the transactions that have rows of a name locked.
pub(super) type Marks = HashSet<String>;

/// What one pool has seen: the names, each with the marks of the transactions that kept rows of it
/// locked.
#[derive(Debug, Default)]
pub(super) struct KeptNames(Mutex<HashMap<Object, Marks>>);

impl KeptNames {
    /// Notes that transactions keep rows of this name.
    pub(super) fn saw(&self, object: &Object, marks: Marks) {
        let mut names = self.names();
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(object.clone(), marks);
    }

    /// Returns those of the objects that are remembered.
    pub(super) fn among<'o>(&self, objects: &[&'o Object]) -> Vec<&'o Object> {
        let names = self.names();
        if names.is_empty() {
            return Vec::new();
        }
        objects.iter().copied().filter(|object| names.contains_key(*object)).collect()
    }

    /// Returns whether a transaction that was seen to keep a row of this name still does; `marks`
    /// are those of the ones that have rows of it locked now. Otherwise forgets the name.
    pub(super) fn still_is(&self, object: &Object, marks: Option<&Marks>) -> bool {
        let mut names = self.names();
        let before = names.get(object);
        let is_same = before.zip(marks).is_some_and(|(before, marks)| !before.is_disjoint(marks));
        if !is_same {
            names.remove(object);
        }
        is_same
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Object, Marks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
