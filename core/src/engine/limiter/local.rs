//! The local state of one limiter: remembered refusals, and this process's share of the quota.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::timing::engine_now as now;
use crate::limiter::{Bucket, ExactQuota, Verdict};
use crate::{DecidedBy, Decision, Name, Ticket};

/// Maximum time for which a refusal is remembered. During it, a reset, refund or quota of another
/// process is not seen.
const MAXIMUM_REFUSAL_TIME: Duration = Duration::from_millis(100);
/// Maximum number of costs remembered for one name.
const MAXIMUM_COSTS: usize = 4;
/// Retention of the share of a name without a handle.
const SHARE_TIME: Duration = Duration::from_secs(60 * 60);
/// Number of names from which on names without a handle are dropped.
const NAMES: usize = 256;
/// Maximum number of names without a handle that keep their shares. While a store is away, callers
/// could otherwise fill the memory with new names. A share that is dropped begins empty again, so
/// that it admits less.
const MAXIMUM_SHARES: usize = 16_384;

/// The local state of one name, shared by its handles.
#[derive(Debug)]
pub(super) struct Local {
    origin: Instant,
    refusals: Mutex<Refusals>,
    share: Mutex<Option<Share>>,
}

#[derive(Debug, Default)]
struct Refusals {
    /// Number of times that the refusals were forgotten.
    epoch: u64,
    remembered: Vec<Refusal>,
}

#[derive(Debug)]
struct Refusal {
    cost: u64,
    verdict: Verdict,
    received: Instant,
    until: Instant,
}

#[derive(Debug)]
struct Share {
    bucket: Bucket,
    used: Instant,
}

impl Local {
    fn new() -> Self {
        Self { origin: now(), refusals: Mutex::default(), share: Mutex::default() }
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(&self) -> MutexGuard<'_, Option<Share>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the remembered refusal of that cost, with its times counted from now; the store
    /// would not admit the cost earlier.
    ///
    /// # Errors
    /// If none is remembered: the epoch to [`remember`](Self::remember) a new one with.
    pub(super) fn refused(&self, cost: u64) -> Result<Decision, u64> {
        let refusals = self.refusals();
        let Some(refusal) = refusals.remembered.iter().find(|refusal| refusal.cost == cost) else {
            return Err(refusals.epoch);
        };
        let at = now();
        if at >= refusal.until {
            return Err(refusals.epoch);
        }
        let Verdict { limit, remaining, retry_after, reset_after, .. } = refusal.verdict;
        let left = |wait| Duration::from_micros(wait).saturating_sub(at.duration_since(refusal.received));
        let decided_by = DecidedBy::LocalCache;
        let (retry_after, reset_after) = (retry_after.map(left), left(reset_after));
        Ok(Decision { allowed: false, limit, remaining, retry_after, reset_after, decided_by })
    }

    /// Remembers a refusal that the store decided after `sent`. Until its time comes, only a reset,
    /// a refund or another quota can change it; those of this process begin another epoch.
    pub(super) fn remember(&self, cost: u64, verdict: Verdict, sent: Instant, received: Instant, epoch: u64) {
        let Some(retry_after) = verdict.retry_after else { return };
        let until = sent + Duration::from_micros(retry_after).min(MAXIMUM_REFUSAL_TIME);
        let mut refusals = self.refusals();
        if refusals.epoch != epoch || until <= received {
            return;
        }
        refusals.remembered.retain(|refusal| refusal.cost != cost);
        if refusals.remembered.len() >= MAXIMUM_COSTS {
            refusals.remembered.remove(0);
        }
        refusals.remembered.push(Refusal { cost, verdict, received, until });
    }

    /// Forgets all refusals, also those whose answers are still under way.
    pub(super) fn forget(&self) {
        let mut refusals = self.refusals();
        refusals.epoch += 1;
        refusals.remembered.clear();
    }

    /// Uses this process's own bucket, which begins empty (L10). `ask` receives the bucket and its
    /// time in µs.
    pub(super) fn ask_share<R>(&self, quota: ExactQuota, ask: impl FnOnce(&mut Bucket, u64) -> R) -> R {
        let used = now();
        let micros = self.micros(used);
        let mut share = self.share();
        let share = share.get_or_insert_with(|| Share { bucket: Bucket::empty(quota, micros), used });
        share.used = used;
        if *share.bucket.quota() != quota {
            share.bucket.set_quota(micros, quota);
        }
        ask(&mut share.bucket, micros)
    }

    /// Cancels a reservation in this process's own bucket.
    pub(super) fn cancel_share(&self, ticket: Ticket) -> u64 {
        let micros = self.micros(now());
        self.share().as_mut().map_or(0, |share| share.bucket.cancel(micros, ticket.as_u128()))
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.origin).as_micros()).unwrap_or(u64::MAX)
    }

    fn is_used_after(&self, at: Instant) -> bool {
        self.share().as_ref().is_some_and(|share| share.used > at)
    }

    fn is_idle(&self, at: Instant) -> bool {
        let is_remembered =
            |refusals: &Refusals| refusals.remembered.iter().any(|refusal| refusal.until > at);
        let is_recent = |share: &Share| share.used + SHARE_TIME > at;
        !is_remembered(&self.refusals()) && !self.share().as_ref().is_some_and(is_recent)
    }
}

/// The local states of all names of one store object.
#[derive(Debug, Default)]
pub(super) struct Locals {
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<Name, Arc<Local>>,
    /// Number of names in use when unused ones were dropped last.
    used: usize,
}

impl Names {
    fn drop_unused(&mut self, at: Instant) {
        let has_handle = |local: &Arc<Local>| Arc::strong_count(local) > 1;
        self.by_name.retain(|_, local| has_handle(local) || !local.is_idle(at));
        let unused = self.by_name.values().filter(|local| !has_handle(local));
        let mut used: Vec<_> = unused.filter_map(|local| Some(local.share().as_ref()?.used)).collect();
        let excess = used.len().saturating_sub(MAXIMUM_SHARES / 2);
        if used.len() > MAXIMUM_SHARES {
            let (_, latest, _) = used.select_nth_unstable(excess);
            let latest = *latest;
            self.by_name.retain(|_, local| has_handle(local) || local.is_used_after(latest));
        }
        self.used = self.by_name.len();
    }
}

impl Locals {
    pub(super) fn open(&self, name: &Name) -> Arc<Local> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(local) = names.by_name.get(name) {
            return Arc::clone(local);
        }
        if names.by_name.len() >= NAMES.max(names.used * 2) {
            names.drop_unused(now());
        }
        let local = Arc::new(Local::new());
        names.by_name.insert(name.clone(), Arc::clone(&local));
        local
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests wait")]
mod tests {
    use super::*;
    use crate::Quota;

    fn refusal(retry_after: u64) -> Verdict {
        let retry_after = Some(retry_after);
        Verdict { allowed: false, limit: 5, remaining: 1, retry_after, reset_after: 90_000 }
    }

    #[tokio::test(start_paused = true)]
    async fn l8_a_refusal_holds_until_its_time_and_no_longer() {
        let (local, sent) = (Local::new(), now());
        tokio::time::advance(Duration::from_millis(10)).await;
        let received = now();
        let epoch = local.refused(2).unwrap_err();
        local.remember(2, refusal(40_000), sent, received, epoch);
        tokio::time::advance(Duration::from_millis(25)).await;
        let decision = local.refused(2).unwrap();
        // The store decided between `sent` and `received`: counted from the later, it is not too
        // early.
        assert_eq!(decision.retry_after, Some(Duration::from_millis(15)));
        assert_eq!(decision.reset_after, Duration::from_millis(65));
        assert_eq!((decision.limit, decision.remaining, decision.allowed), (5, 1, false));
        assert_eq!(decision.decided_by, DecidedBy::LocalCache);
        assert!(local.refused(1).is_err(), "another cost");
        tokio::time::advance(Duration::from_millis(5)).await;
        assert!(local.refused(2).is_err(), "from 40 ms after it was sent on it may be admitted");
    }

    #[tokio::test(start_paused = true)]
    async fn l8_a_refusal_is_remembered_for_100_ms_and_forgotten_at_once() {
        let (local, sent) = (Local::new(), now());
        let epoch = local.refused(1).unwrap_err();
        local.remember(1, refusal(5_000_000), sent, sent, epoch);
        tokio::time::advance(Duration::from_millis(99)).await;
        assert!(local.refused(1).is_ok());
        local.forget();
        assert!(local.refused(1).is_err());
        local.remember(1, refusal(5_000_000), sent, now(), epoch);
        let epoch = local.refused(1).unwrap_err();
        local.remember(1, refusal(5_000_000), now(), now(), epoch);
        tokio::time::advance(MAXIMUM_REFUSAL_TIME).await;
        assert!(local.refused(1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn c25_only_names_in_use_are_kept() {
        let (locals, quota) = (Locals::default(), Quota::per_second(1).validate().unwrap());
        let name = |index: usize| Name::new(&format!("n{index}")).unwrap();
        let held = locals.open(&name(0));
        locals.open(&name(1)).ask_share(quota, |_, _| ());
        for index in 2..10 * NAMES {
            locals.open(&name(index));
        }
        let names = locals.names.lock().unwrap();
        assert!(names.by_name.len() <= NAMES, "{}", names.by_name.len());
        assert!(Arc::ptr_eq(&held, &names.by_name[&name(0)]));
        assert!(names.by_name[&name(1)].share().is_some(), "kept across outages");
    }

    #[tokio::test(start_paused = true)]
    async fn c28_the_shares_of_names_without_a_handle_are_bounded() {
        let (locals, quota) = (Locals::default(), Quota::per_second(1).validate().unwrap());
        let name = |index: usize| Name::new(&format!("n{index}")).unwrap();
        let (count, held) = (4 * MAXIMUM_SHARES, locals.open(&name(0)));
        for index in 0..count {
            locals.open(&name(index)).ask_share(quota, |_, _| ());
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        let names = locals.names.lock().unwrap();
        assert!(names.by_name.len() <= 2 * MAXIMUM_SHARES, "{}", names.by_name.len());
        assert!(Arc::ptr_eq(&held, &names.by_name[&name(0)]), "a handle keeps its share");
        assert!(names.by_name.contains_key(&name(count - MAXIMUM_SHARES / 2)), "used lately");
    }
}
