//! The limiters of the keys that were seen lately.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::{Limiter, Quota, Result};

/// Maximum number of limiters of one generation. Two generations are kept, so that a key that was seen among as many others stays.
const GENERATION: usize = 5_000;
/// Age at which a limiter is opened anew, which compares its quota again: an instance of another version of the service, or one with
/// another list of plans, may have put its own in force meanwhile.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Limiters by name, each with the quota that it was opened for. An open limiter knows its refusals, so that a refused client costs
/// no request to the store.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Generations>);

type Generation = HashMap<String, Open>;

#[derive(Debug)]
struct Open {
    quota: Quota,
    since: Instant,
    limiter: Arc<dyn Limiter>,
}

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
        let _gone = self.keep(name.to_owned(), Open { quota, since: now(), limiter: kept });
        Ok(limiter)
    }

    fn known(&self, name: &str, quota: Quota) -> Option<Arc<dyn Limiter>> {
        let mut all = self.lock();
        if let Some((name, old)) = all.old.remove_entry(name) {
            all.young.insert(name, old);
        }
        all.young.get(name).filter(|open| open.quota == quota).map(|open| Arc::clone(&open.limiter))
    }

    /// Forgets a limiter, after an answer that says that the store has another quota.
    pub(crate) fn forget(&self, name: &str) {
        let _gone = self.lock().young.remove(name);
    }

    /// Forgets a limiter that is of age. To be called after it has admitted a request: it knows no refusal then.
    pub(crate) fn forget_old(&self, name: &str) {
        let mut all = self.lock();
        let is_old = |open: &Open| open.since.elapsed() >= MAX_AGE;
        let _gone = if all.young.get(name).is_some_and(is_old) { all.young.remove(name) } else { None };
    }

    fn keep(&self, name: String, open: Open) -> Generation {
        let mut all = self.lock();
        all.young.insert(name, open);
        if all.young.len() < GENERATION {
            return Generation::new();
        }
        let young = mem::take(&mut all.young);
        mem::replace(&mut all.old, young)
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
