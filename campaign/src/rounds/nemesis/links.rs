//! Faults of the connections between the workers and the server.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::RngExt;

use super::super::Fault;
use super::{Error, Nemesis, WorkerSlot};
use crate::history::Target;
use stanchion_testbed::faults::{Action, Direction, Then, When};

/// The time limit for a rule of the proxy to match a request.
const MATCH_LIMIT: Duration = Duration::from_millis(500);

impl Nemesis<'_> {
    /// Loses a request or a reply, whole or in part.
    pub(super) fn lose(&mut self) -> Result<(), Error> {
        let at = self.any();
        let then = [Then::Fin, Then::Reset, Then::Silence][self.dice.random_range(0..3)];
        let half = self.dice.random_range(0..2) == 0;
        let action = match (self.round.fault, half) {
            (Fault::ReplyDrop, _) => Action::DropReply(then),
            (Fault::RequestDrop, _) => Action::DropRequest(then),
            (_, true) => Action::CutReply(then),
            (_, false) => Action::CutRequest(then),
        };
        let nth = self.dice.random_range(1..12);
        let WorkerSlot { worker, proxy, .. } = &self.slots[at];
        let safe = self.server.deployment().is_safe(self.round.fault);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Worker(*worker), safe)?;
        let rule = proxy.on(When::nth(nth), action);
        let end = Instant::now() + MATCH_LIMIT;
        while rule.fired() == 0 && Instant::now() < end {
            sleep(Duration::from_millis(1));
        }
        rule.remove();
        if matches!(then, Then::Silence) {
            // The client notices by its request's time limit.
            sleep(self.round.ttl / 3);
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    pub(super) fn black_hole(&mut self) -> Result<(), Error> {
        let at = self.any();
        let direction = match (self.round.fault, self.dice.random_range(0..2)) {
            (Fault::BlackHole, _) => Direction::Both,
            (_, 0) => Direction::ToServer,
            _ => Direction::ToClient,
        };
        let (length, resets) = (self.millis(100..1_500), self.dice.random_range(0..2) == 0);
        let WorkerSlot { worker, proxy, .. } = &self.slots[at];
        // If the connections are reset, the server may end sessions.
        let safe = !resets || self.server.deployment().is_safe(Fault::ConnectionKill);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Worker(*worker), safe)?;
        proxy.black_hole(direction);
        sleep(length);
        if resets {
            proxy.heal_by_reset();
        } else {
            proxy.heal();
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    pub(super) fn swallow(&mut self) -> Result<(), Error> {
        let length = self.millis(100..500);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Store, true)?;
        for slot in &self.slots {
            slot.proxy.swallow_wake_ups();
        }
        sleep(length);
        for slot in &self.slots {
            slot.proxy.heal();
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }
}
