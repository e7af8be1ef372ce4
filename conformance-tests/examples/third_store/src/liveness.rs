//! Which waiting processes are live (C5, C16).

use std::collections::HashMap;

use stanchion_core::Ttl;
use stanchion_core::spi::ProcessId;

/// Time after which the waiters of an unheard process are passed over, in µs. The engine polls
/// three times in this time.
const LIVENESS: u64 = 1_000_000;
/// If no process at all was heard for this long, the server itself may have been stalled. In µs.
const UNHEARD: u64 = 600_000;
/// Grace period after such a silence, in which no process is judged dead. In µs.
const GRACE: u64 = 2_000_000;

/// When each process was heard, in µs by the server's clock. A process is heard when it acquires or
/// polls.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    heard: HashMap<ProcessId, u64>,
    /// When any process was heard last.
    last: u64,
    /// When the last grace period began.
    grace: u64,
    /// When the grace period before it began. A process that was silent ever since gets no other
    /// grace period: dead processes alone must not start one each time.
    judged: u64,
}

impl Liveness {
    /// Begins a grace period, if one is due. Called once at the beginning of every step, before any
    /// process is heard.
    pub(crate) fn begin(&mut self, now: u64) {
        let silence = self.last > 0 && self.last + UNHEARD < now;
        if silence && self.grace + GRACE <= now && self.last >= self.grace {
            (self.judged, self.grace) = (self.grace, now);
        }
    }

    pub(crate) fn mark_live(&mut self, process: ProcessId, now: u64) {
        self.heard.insert(process, now);
        self.last = now;
    }

    pub(crate) fn heard(&self, process: ProcessId) -> u64 {
        self.heard.get(&process).copied().unwrap_or_default()
    }

    /// Returns until when a process counts as live, if it stays silent.
    pub(crate) fn until(&self, process: ProcessId) -> u64 {
        let heard = self.heard(process);
        let graced = if heard >= self.judged { self.grace + GRACE } else { 0 };
        graced.max(heard + LIVENESS)
    }

    /// Forgets processes that were silent for the longest lease: they have no queued waiters any
    /// more.
    pub(crate) fn sweep(&mut self, now: u64) {
        self.heard.retain(|_, heard| u128::from(now - *heard) < Ttl::MAX.as_micros());
    }
}
