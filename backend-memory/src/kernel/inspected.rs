//! A snapshot of a name.

use std::time::Duration;

use stanchion_core::{Holder, Inspection, Listed};

use super::holds::Grant;
use super::permits::Permits;
use crate::clock::Moment;
use crate::session_id::SessionId;

/// The state of a name at one moment. It is read under the name's lock; an inspection is made of it
/// without the lock (C27).
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(super) at: Moment,
    pub(super) grants: Vec<Grant>,
    pub(super) waiters: u64,
    pub(super) limit: Option<u32>,
}

impl Inspected {
    /// Returns the inspection, oldest grant first (C23).
    pub(crate) fn inspection(self) -> Inspection {
        let mut holders: Vec<Holder> = self.grants.iter().map(|grant| grant.holder(self.at)).collect();
        holders.sort_unstable_by_key(|holder| holder.token);
        Inspection::new(holders, self.waiters, self.limit)
    }
}

impl Permits {
    /// Returns the number of holds and of waiters of a store object.
    pub(crate) fn count_of(&self, session: SessionId) -> (usize, usize) {
        let holds = self.holds.iter().filter(|grant| grant.session == session).count();
        (holds, self.queue.count_of(session))
    }

    pub(crate) fn inspect(&self, at: Moment) -> Inspected {
        let waiters = u64::try_from(self.queue.len()).unwrap_or(u64::MAX);
        Inspected { at, grants: self.holds.iter().cloned().collect(), waiters, limit: self.limit().flatten() }
    }

    /// Fills in the figures of this name; returns whether it has state that a listing shows.
    pub(crate) fn list(&self, at: Moment, listed: &mut Listed) -> bool {
        let is_used = self.used() > 0 || !self.queue.is_empty();
        let count = |count: usize| u64::try_from(count).ok();
        (listed.holders, listed.waiters) = (count(self.holds.len()), count(self.queue.len()));
        listed.weight = Some(self.used());
        listed.limit = self.limit().flatten().map(u64::from);
        let zero = self.generations.as_ref().and_then(|generations| generations.zero_since());
        let idle = zero.max(self.limit_used).map(|used| at.now.saturating_duration_since(used));
        listed.last_used = if is_used { Some(Duration::ZERO) } else { idle };
        is_used || self.retained_until(at).is_some()
    }
}
