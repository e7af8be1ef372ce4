//! Faults of the server.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::RngExt;

use super::super::Fault;
use super::{Error, Nemesis};
use crate::history::Target;

/// How far the server's clock is ahead, in seconds.
const AHEAD: u32 = 10;
/// The number of stripes that the names of a namespace are spread over.
const STRIPES: u32 = 16;
/// How long a neighbour's script runs, and how often.
const SCRIPT: Duration = Duration::from_millis(50);
const SCRIPT_INTERVAL: Duration = Duration::from_secs(1);

impl Nemesis<'_> {
    pub(super) fn strike_store(&mut self) -> Result<(), Error> {
        let safe = self.server.deployment().is_safe(self.round.fault);
        let length = self.millis(50..900);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Store, safe)?;
        match self.round.fault {
            Fault::StoreStall => {
                self.server.pause()?;
                sleep(length);
                self.server.resume()?;
            }
            Fault::StoreCrash => {
                self.server.kill()?;
                sleep(length / 4);
                self.server.restart()?;
            }
            Fault::ConnectionStorm => {
                let end = Instant::now() + length;
                while Instant::now() < end {
                    self.server.end_connections()?;
                    sleep(Duration::from_millis(20));
                }
            }
            Fault::ServerClockStep => self.server.shift_clock(AHEAD, length / 4)?,
            Fault::NodeStall => {
                let node = self.dice.random_range(0..16);
                self.server.pause_node(node, length)?;
            }
            Fault::SlotMove => {
                let stripe = self.dice.random_range(0..STRIPES);
                self.server.move_slot_of(&format!("{{{}/{stripe}}}", self.round.namespace()))?;
            }
            _ => self.server.end_connections()?,
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    /// Has a neighbour's script run once. It is no fault of the store: every call keeps its time
    /// limit.
    pub(super) fn keep_busy(&mut self) -> Result<(), Error> {
        self.server.occupy(SCRIPT)?;
        sleep(SCRIPT_INTERVAL - SCRIPT);
        Ok(())
    }
}
