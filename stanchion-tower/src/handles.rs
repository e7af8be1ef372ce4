//! The limiters of the keys that were seen lately.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use stanchion_core::{Limiter, Quota, Result};

/// Maximum number of limiters of one generation. Two generations are kept, so that a key that was seen among as many others stays.
const GENERATION: usize = 5_000;

/// What a limiter is opened for.
type Opened = (Arc<str>, Quota);

/// Limiters by name and quota. An open limiter knows its refusals, so that a refused client costs no request to the store.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Opened, Arc<dyn Limiter>>,
    old: HashMap<Opened, Arc<dyn Limiter>>,
}

impl Handles {
    /// Returns the limiter of a name, which `open` opens unless it is there.
    ///
    /// # Errors
    /// That of `open`.
    pub(crate) fn get(
        &self,
        name: String,
        quota: Quota,
        open: impl FnOnce(&str) -> Result<Arc<dyn Limiter>>,
    ) -> Result<Arc<dyn Limiter>> {
        let opened = (Arc::from(name), quota);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limiter) = all.young.get(&opened) {
            return Ok(Arc::clone(limiter));
        }
        let limiter = match all.old.remove(&opened) {
            Some(limiter) => limiter,
            None => open(&opened.0)?,
        };
        if all.young.len() >= GENERATION {
            all.old = mem::take(&mut all.young);
        }
        all.young.insert(opened, Arc::clone(&limiter));
        Ok(limiter)
    }
}
