//! A request of several entries that had no answer in time is sent again only in smaller parts
//! (C27).
//!
//! One of its entries may be why: somebody else has locked its row, or it is too much work. So the
//! next requests of the same lane leave in parts, side by side, and after a second failure in
//! single entries. Requests are whole again once none has outlasted its limit for a while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::spi::Lane;

/// How many parts a request is sent in that outlasted its time limit.
const PARTS: usize = 64;
/// Time after the last failure for which requests leave in parts.
const MEMORY: Duration = Duration::from_secs(10);

/// The number of entries that requests may have, lane by lane.
#[derive(Debug, Default)]
pub(crate) struct PartSizes {
    /// Some lane's requests leave in parts, or did.
    any: AtomicBool,
    sizes: Mutex<HashMap<Lane, PartSize>>,
}

/// Of one lane.
#[derive(Clone, Copy, Debug)]
struct PartSize {
    most: usize,
    /// When a request outlasted its limit last.
    failed: Instant,
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

    /// Notes that a request of `count` entries outlasted its time limit.
    pub(crate) fn outlasted(&self, lane: Lane, count: usize, at: Instant) {
        let mut sizes = self.sizes();
        let most = count.div_ceil(PARTS);
        if let Some(size) = sizes.get_mut(&lane) {
            *size = PartSize { most: size.most.min(most), failed: at };
        } else if count > 1 {
            sizes.insert(lane, PartSize { most, failed: at });
            self.any.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn parts_become_single_entries_and_are_whole_again() {
        let (sizes, at) = (PartSizes::default(), now());
        let (renew, other) = (Lane { server: 1, queue: 2 }, Lane { server: 2, queue: 2 });
        sizes.outlasted(renew, 1, at);
        assert_eq!(sizes.most(renew, at), usize::MAX, "a single entry is sent as it is");
        for (count, most) in [(500, 8), (8, 1), (1, 1)] {
            sizes.outlasted(renew, count, at);
            assert_eq!((sizes.most(renew, at), sizes.most(other, at)), (most, usize::MAX));
        }
        assert_eq!(sizes.most(renew, at + MEMORY), usize::MAX);
    }
}
