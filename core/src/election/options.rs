//! Options of a candidate.

use std::sync::Arc;
use std::time::Duration;

use crate::MutexOptions;

/// Options of a candidate in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionOptions {
    /// Text that observers see while this candidate leads, at most 512 bytes.
    pub label: Option<Arc<str>>,
    /// Lease of a term, 100 ms to 24 h: a dead leader is followed within it. `None`: the store's
    /// default.
    pub ttl: Option<Duration>,
    /// Pause before the candidate stands again after a term that ended by itself or by `step_down`.
    pub pause: Duration,
}

impl ElectionOptions {
    /// Makes options without a label, with the store's lease and a pause of 1 s.
    #[must_use]
    pub const fn new() -> Self {
        Self { label: None, ttl: None, pause: Duration::from_secs(1) }
    }

    /// Sets the text that observers see while this candidate leads, at most 512 bytes.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Sets the lease of a term, 100 ms to 24 h.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the pause before the candidate stands again after a term that ended by itself or by
    /// [`step_down`](super::ElectionHandle::step_down) (default: 1 s). After a lost term it stands
    /// again at once. It is also the first interval before a failed run of a
    /// [`PeriodicJob`](super::PeriodicJob) is repeated, 100 ms at least.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub(crate) fn mutex(&self) -> MutexOptions {
        let mut options = MutexOptions::new();
        (options.hold.label, options.hold.ttl) = (self.label.clone(), self.ttl);
        options
    }
}

impl Default for ElectionOptions {
    fn default() -> Self {
        Self::new()
    }
}
