//! The limiters of the keys that were seen lately.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::{Limiter, Quota, Result};

/// Maximum number of limiters of one generation. Two generations are kept, so that a key that was
/// seen among as many others stays.
const GENERATION: usize = 5_000;
/// Age at which a limiter is opened anew, which compares its quota again: an instance of another
/// version of the service, or one with another list of plans, may have put its own in force
/// meanwhile.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Limiters by name, each with the quota that it was opened for. An open limiter knows its
/// refusals, so that a refused client costs no request to the store.
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
    /// Returns the limiter of a name. Unless it is there with this quota, `open` opens it: a
    /// limiter compares its quota once, so that each change needs another handle.
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
        let _gone = self.lock().keep(name.to_owned(), Open { quota, since: now(), limiter: kept });
        Ok(limiter)
    }

    fn known(&self, name: &str, quota: Quota) -> Option<Arc<dyn Limiter>> {
        let mut all = self.lock();
        let moved = all.old.remove_entry(name);
        let _gone = moved.map(|(name, open)| all.keep(name, open));
        let known =
            all.young.get(name).filter(|open| open.quota == quota).map(|open| Arc::clone(&open.limiter));
        // The lock is free before the limiters are that go.
        drop(all);
        known
    }

    /// Forgets a limiter, after an answer that says that the store has another quota.
    pub(crate) fn forget(&self, name: &str) {
        self.forget_if(name, |_| true);
    }

    /// Forgets a limiter that is of age. To be called after it has admitted a request: it knows no
    /// refusal then.
    pub(crate) fn forget_old(&self, name: &str) {
        self.forget_if(name, |open| open.since.elapsed() >= MAX_AGE);
    }

    /// Other keys may have made the generation of this one the old one meanwhile.
    fn forget_if(&self, name: &str, is_wanted: impl Fn(&Open) -> bool) {
        let mut all = self.lock();
        let Generations { young, old } = &mut *all;
        let holder = [young, old].into_iter().find(|generation| generation.get(name).is_some_and(&is_wanted));
        let _gone = holder.and_then(|generation| generation.remove(name));
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    /// Keeps a limiter among the young, and returns the limiters that were not asked for since two
    /// generations began.
    fn keep(&mut self, name: String, open: Open) -> Generation {
        let gone = if self.young.len() < GENERATION {
            Generation::new()
        } else {
            let young = mem::take(&mut self.young);
            mem::replace(&mut self.old, young)
        };
        self.young.insert(name, open);
        gone
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::{LimiterOptions, Store};
    use stanchion_memory::MemoryStore;

    use super::*;

    #[test]
    fn keys_that_are_seen_again_and_again_leave_no_more_than_two_generations() {
        let (handles, quota) = (Handles::default(), Quota::per_second(1));
        let limiter = MemoryStore::new().limiter("a", LimiterOptions::new(quota)).unwrap();
        let see = |key: usize| handles.get(&key.to_string(), quota, || Ok(Arc::clone(&limiter))).unwrap();
        let mut keys = 0;
        for _ in 0..5 {
            // Almost a generation of new keys, then all the earlier ones.
            for _ in 1..GENERATION {
                see(keys);
                keys += 1;
            }
            (0..keys).for_each(|key| drop(see(key)));
            see(keys);
            keys += 1;
        }
        let all = handles.lock();
        let kept = all.young.len() + all.old.len();
        assert!(kept <= 2 * GENERATION, "{kept} of {keys}");
    }
}
