//! The circumstances of a step: the time, the client, and the live processes.

use std::time::Duration;

use stanchion_core::Ttl;
use stanchion_core::clock::micros;
use stanchion_core::spi::ProcessId;

use crate::client::Client;
use crate::liveness::Liveness;
use crate::mistake::Mistake;

/// The time and the client of a step.
pub(crate) struct Moment<'a> {
    pub(crate) now: u64,
    pub(crate) client: Client,
    pub(crate) liveness: &'a mut Liveness,
}

impl Moment<'_> {
    pub(crate) fn mark_live(&mut self) {
        self.liveness.mark_live(self.client.process, self.now);
    }

    pub(crate) fn is_live(&self, process: ProcessId) -> bool {
        self.liveness.until(process) > self.now
    }

    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.client.mistake == Some(mistake)
    }

    pub(crate) fn end_of(&self, lease: Ttl) -> u64 {
        self.now + micros(lease.get())
    }

    pub(crate) fn until(&self, time: u64) -> Duration {
        Duration::from_micros(time.saturating_sub(self.now))
    }

    pub(crate) fn since(&self, time: u64) -> Duration {
        Duration::from_micros(self.now.saturating_sub(time))
    }
}
