//! Looks at a part of the names, for a store that has more of them than a look shows.

use std::sync::{Arc, Mutex, PoisonError};

use crate::look::{Scope, Turn, Watch};

/// Maximum number of searches that are kept: a search that is asked for again soon is answered by
/// its latest look.
const MAX_KEPT: usize = 8;

/// The searches that were asked for last. They look one after the other and share their pauses,
/// however many viewers search for however many things.
#[derive(Debug)]
pub(crate) struct Searches {
    /// The look at all names.
    all: Arc<Watch>,
    turn: Turn,
    /// The latest first. A search that is not kept any more ends with its last viewer.
    kept: Mutex<Vec<Arc<Watch>>>,
}

impl Searches {
    pub(crate) fn new(all: Arc<Watch>) -> Self {
        Self { all, turn: Turn::new(), kept: Mutex::default() }
    }

    /// Returns the search for this part of the names; no I/O.
    pub(crate) fn watch(&self, scope: &Scope) -> Arc<Watch> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = match kept.iter().position(|watch| watch.scope == *scope) {
            Some(at) => kept.remove(at),
            None => Arc::new(self.all.search(scope.clone(), self.turn.clone())),
        };
        kept.truncate(MAX_KEPT - 1);
        kept.insert(0, Arc::clone(&watch));
        watch
    }
}
