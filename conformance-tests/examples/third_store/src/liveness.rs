//! Which waiting processes live (C5, C16).

use std::collections::HashMap;

use stanchion_core::Ttl;
use stanchion_core::steps::ProcessId;

/// After so long unheard, the waiters of a process are passed over. The engine polls three times in this time.
const LIVENESS: u64 = 1_000_000;
/// If nobody at all was heard for so long, the server may have stood still, and not they.
const UNHEARD: u64 = 600_000;
/// For so long nobody is judged dead then.
const GRACE: u64 = 2_000_000;

/// When each process was heard, in µs by the server's clock. A process is heard when it acquires or polls.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    heard: HashMap<ProcessId, u64>,
    /// When anybody was heard last.
    last: u64,
    /// When the last grace began.
    grace: u64,
    /// When the one before began. Who was silent ever since gets no other: the dead alone must not start one each time.
    judged: u64,
}

impl Liveness {
    /// Begins a grace, if one is due. Called once at the beginning of every step, before anybody is heard.
    pub(crate) fn begin(&mut self, now: u64) {
        let silence = self.last > 0 && self.last + UNHEARD < now;
        if silence && self.grace + GRACE <= now && self.last >= self.grace {
            (self.judged, self.grace) = (self.grace, now);
        }
    }

    pub(crate) fn hear(&mut self, process: ProcessId, now: u64) {
        self.heard.insert(process, now);
        self.last = now;
    }

    pub(crate) fn heard(&self, process: ProcessId) -> u64 {
        self.heard.get(&process).copied().unwrap_or_default()
    }

    /// Until when a process counts as live, if it stays silent.
    pub(crate) fn until(&self, process: ProcessId) -> u64 {
        let heard = self.heard(process);
        let graced = if heard >= self.judged { self.grace + GRACE } else { 0 };
        graced.max(heard + LIVENESS)
    }

    /// Forgets processes that were silent for the longest lease: they have no places any more.
    pub(crate) fn sweep(&mut self, now: u64) {
        self.heard.retain(|_, heard| u128::from(now - *heard) < Ttl::MAX.as_micros());
    }
}
