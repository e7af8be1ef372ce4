//! The limiters of the keys that were seen lately.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use stanchion_core::{Limiter, Quota, Result};

/// Maximum number of limiters of one generation. Two generations are kept, so that a key that was seen among as many others stays.
const GENERATION: usize = 5_000;

/// Limiters by name, each with the quota that it was opened for. An open limiter knows its refusals, so that a refused client costs
/// no request to the store.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Generations>);

type Generation = HashMap<String, (Quota, Arc<dyn Limiter>)>;

#[derive(Debug, Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

impl Handles {
    /// Returns the limiter of a name. Unless it is there with this quota, `open` opens it: a limiter compares its quota once, so
    /// that each change needs another handle.
    ///
    /// # Errors
    /// That of `open`.
    pub(crate) fn get(
        &self,
        name: &str,
        quota: Quota,
        open: impl FnOnce() -> Result<Arc<dyn Limiter>>,
    ) -> Result<Arc<dyn Limiter>> {
        if let Some(limiter) = self.known(name, quota) {
            return Ok(limiter);
        }
        let limiter = open()?;
        let kept = Arc::clone(&limiter);
        // Dropped after the lock: thousands of limiters may go.
        let _gone = self.keep(name.to_owned(), (quota, kept));
        Ok(limiter)
    }

    fn known(&self, name: &str, quota: Quota) -> Option<Arc<dyn Limiter>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, old)) = all.old.remove_entry(name) {
            all.young.insert(name, old);
        }
        all.young.get(name).filter(|(known, _)| *known == quota).map(|(_, limiter)| Arc::clone(limiter))
    }

    fn keep(&self, name: String, limiter: (Quota, Arc<dyn Limiter>)) -> Generation {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.young.insert(name, limiter);
        if all.young.len() < GENERATION {
            return Generation::new();
        }
        let young = mem::take(&mut all.young);
        mem::replace(&mut all.old, young)
    }
}
