//! A request of several entries that had no answer in time is sent again only in smaller parts
//! (C27).
//!
//! One of its entries may be why: somebody else has locked its row. Or they are too much work
//! together. So the next requests of the same lane leave in parts, and after a second failure in
//! single entries, if others were answered meanwhile. If none was, the lane stood still, and no
//! entry is to blame. Then the first answers say how many entries fit into the time of a request,
//! and as many leave together from then on. Requests are whole again once none has outlasted its
//! limit for a while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::spi::Lane;

/// How many parts a request is sent in that outlasted its time limit.
const PARTS: usize = 64;
/// Number of entries that no request has, of whatever kind.
const MANY: usize = 1_024;
/// Time after the last failure for which requests leave in parts.
const MEMORY: Duration = Duration::from_secs(10);

/// The number of entries that requests may have, lane by lane.
#[derive(Debug, Default)]
pub(crate) struct PartSizes {
    /// Some lane's request has outlasted its limit lately.
    any: AtomicBool,
    sizes: Mutex<HashMap<Lane, PartSize>>,
}

/// Of one lane.
#[derive(Clone, Copy, Debug)]
struct PartSize {
    most: usize,
    /// When a request outlasted its limit last.
    failed: Instant,
    /// When a request was answered last, since the first failure.
    answered: Option<Instant>,
    /// A request outlasted its limit while another one was answered.
    is_an_entry: bool,
}

impl PartSizes {
    fn sizes(&self) -> MutexGuard<'_, HashMap<Lane, PartSize>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the maximum number of entries of a request at that time.
    pub(crate) fn most(&self, lane: Lane, at: Instant) -> usize {
        if !self.any.load(Ordering::Relaxed) {
            return usize::MAX;
        }
        let mut sizes = self.sizes();
        sizes.retain(|_, size| at < size.failed + MEMORY);
        self.any.store(!sizes.is_empty(), Ordering::Relaxed);
        sizes.get(&lane).map_or(usize::MAX, |size| size.most)
    }

    /// Notes that a request of `count` entries, sent at `sent`, outlasted its time limit.
    pub(crate) fn outlasted(&self, lane: Lane, count: usize, sent: Instant, at: Instant) {
        let mut sizes = self.sizes();
        let most = count.div_ceil(PARTS);
        if let Some(size) = sizes.get_mut(&lane) {
            size.is_an_entry |= size.answered.is_some_and(|answered| answered >= sent);
            // While nothing is answered, smaller parts would only be more requests.
            if size.is_an_entry || size.most == usize::MAX {
                size.most = size.most.min(most);
            }
            size.failed = at;
        } else if count > 1 {
            sizes.insert(lane, PartSize { most, failed: at, answered: None, is_an_entry: false });
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a request of `count` entries, sent at `sent` with that time limit, was answered.
    pub(crate) fn answered(&self, lane: Lane, count: usize, sent: Instant, limit: Duration, at: Instant) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        if let Some(size) = self.sizes().get_mut(&lane) {
            size.answered = Some(at);
            if size.is_an_entry {
                return;
            }
            // Half of the limit is for what differs from one request to the next.
            let took = (at - sent).as_micros().max(1);
            let fitting = u128::try_from(count).unwrap_or_default() * limit.as_micros() / took / 2;
            size.most = size.most.max(usize::try_from(fitting).unwrap_or(usize::MAX));
            if size.most >= MANY {
                size.most = usize::MAX;
            } else {
                // A whole one would outlast it again.
                size.failed = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const LANE: Lane = Lane { server: 1, queue: 2 };

    #[test]
    fn parts_become_single_entries_and_are_whole_again() {
        let (sizes, at) = (PartSizes::default(), now());
        let other = Lane { server: 2, queue: 2 };
        sizes.outlasted(LANE, 1, at, at);
        assert_eq!(sizes.most(LANE, at), usize::MAX, "a single entry is sent as it is");
        sizes.outlasted(LANE, 500, at, at);
        assert_eq!((sizes.most(LANE, at), sizes.most(other, at)), (8, usize::MAX));
        // The other parts are answered.
        sizes.answered(LANE, 8, at, SECOND, at + MS);
        for count in [8, 1] {
            sizes.outlasted(LANE, count, at, at + MS * 2);
            assert_eq!((sizes.most(LANE, at), sizes.most(other, at)), (1, usize::MAX));
            sizes.answered(LANE, 1, at, SECOND, at + MS * 2);
        }
        assert_eq!(sizes.most(LANE, at + MS * 2 + MEMORY), usize::MAX);
    }

    #[test]
    fn c13_a_lane_that_stood_still_is_asked_in_few_requests() {
        let (sizes, at) = (PartSizes::default(), now());
        for step in 0..20 {
            sizes.outlasted(LANE, 500, at, at + MS * step);
        }
        // Its parts fail as well, for as long as it stands still.
        sizes.outlasted(LANE, 8, at + MS * 20, at + MS * 40);
        assert_eq!(sizes.most(LANE, at + MS * 40), 8);
        sizes.answered(LANE, 8, at + MS * 49, SECOND, at + MS * 50);
        assert_eq!(sizes.most(LANE, at + MS * 50), usize::MAX);
        // One that stands still again is no entry's fault, either.
        sizes.outlasted(LANE, 500, at + MS * 60, at + MS * 80);
        assert_eq!(sizes.most(LANE, at + MS * 80), 8);
        sizes.answered(LANE, 8, at + MS * 89, SECOND, at + MS * 90);
        assert_eq!(sizes.most(LANE, at + MS * 90), usize::MAX);
    }

    #[test]
    fn as_many_leave_together_as_the_time_of_a_request_is_enough_for() {
        let (sizes, at) = (PartSizes::default(), now());
        sizes.outlasted(LANE, 500, at, at + SECOND);
        // 5 ms an entry: 100 of them take half of a second.
        sizes.answered(LANE, 8, at + SECOND, SECOND, at + SECOND + MS * 40);
        assert_eq!(sizes.most(LANE, at + SECOND * 2), 100);
        sizes.answered(LANE, 100, at + SECOND * 9, SECOND, at + SECOND * 9 + MS * 500);
        assert_eq!(sizes.most(LANE, at + SECOND * 12), 100, "for as long as it is so");
        assert_eq!(sizes.most(LANE, at + SECOND * 20), usize::MAX);
    }
}
