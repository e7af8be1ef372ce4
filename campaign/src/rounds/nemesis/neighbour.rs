//! A neighbour's deeds on Postgres.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::thread::sleep;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::super::Fault;
use super::super::deeds::{self, Signal};
use super::super::workload::{names, object};
use super::{Error, Nemesis};
use crate::history::Target;
use stanchion_core::Kind;
use stanchion_testbed::servers::PostgresServer;

/// Where the rows of a name stand, and the tables with which every name but a limiter's has to do.
const ROWS: [&str; 3] = ["objects", "holds", "waiters"];
const TABLES: [&str; 4] = ["objects", "holds", "waiters", "processes"];
const LIMITERS: &str = "limiters";
/// Maximum number of attempts until a deed meets something of ours.
const ATTEMPTS: usize = 20;
/// The intervals between two signals to backends.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);
const TERMINATE_INTERVAL: Duration = Duration::from_millis(100);
/// A rest after which every waiter must have gone on: recovery (C18), dead waiters in front (C5),
/// and ε.
const CALM: Duration = Duration::from_millis(4_500);

impl Nemesis<'_> {
    pub(super) fn strike_as_neighbour(&mut self) -> Result<(), Error> {
        let server = self.server.postgres().ok_or("these deeds need a Postgres")?;
        self.deeds += match self.round.fault {
            Fault::RowsLocked => self.lock_rows(server)?,
            Fault::TableLocked => self.lock_table(server)?,
            // These two are no faults of the store: every call is served as always, wake-ups apart
            // (C14).
            Fault::OldSnapshot => deeds::keep_snapshot(server, self.round.length)?,
            Fault::NotifyQueueFull => deeds::refuse_hints(server, self.millis(1_500..4_000))?,
            _ => self.disturb_all(server)?,
        };
        Ok(())
    }

    /// Locks rows of the names of one kind that has some at the moment. A mutex beside the first is
    /// spared.
    fn lock_rows(&mut self, server: &PostgresServer) -> Result<u64, Error> {
        for _ in 0..ATTEMPTS {
            let kind = self.any_of(self.server.deployment().kinds(), Kind::Mutex);
            let table = if kind == Kind::Limiter { LIMITERS } else { self.any_of(&ROWS, ROWS[0]) };
            let length = self.millis(500..5_000);
            let (namespace, locked) = (self.round.namespace(), names(kind, 1));
            let done = self.concerning(table, &[(kind, 1)], || {
                deeds::lock_rows(server, &namespace, kind, &locked, table, length)
            })?;
            if done > 0 {
                return Ok(done);
            }
        }
        Ok(0)
    }

    fn lock_table(&mut self, server: &PostgresServer) -> Result<u64, Error> {
        let kinds = self.server.deployment().kinds();
        let of_limiters = kinds.contains(&Kind::Limiter) && self.dice.random_range(0..4) == 0;
        let table = if of_limiters { LIMITERS } else { self.any_of(&TABLES, TABLES[0]) };
        let length = self.millis(200..2_000);
        let mutexes = self.round.mutexes();
        let concerned: Vec<_> = kinds
            .iter()
            .filter(|kind| (**kind == Kind::Limiter) == of_limiters)
            .map(|kind| (*kind, mutexes))
            .collect();
        self.concerning(table, &concerned, || deeds::lock_table(server, table, length))
    }

    fn any_of<T: Copy>(&mut self, all: &[T], otherwise: T) -> T {
        all.choose(&mut self.dice).copied().unwrap_or(otherwise)
    }

    /// Does a deed to a table that concerns the names of some kinds only, each with a number of
    /// mutexes.
    fn concerning(
        &self,
        table: &str,
        kinds: &[(Kind, usize)],
        deed: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let (mut faults, fault) = (Vec::new(), format!("{} {table}", self.round.fault));
        for (kind, mutexes) in kinds {
            for name in names(*kind, *mutexes) {
                let object = object(*kind, &name)?;
                faults.push(self.recorder.fault_of_object_began(&fault, &object)?);
            }
        }
        let done = deed()?;
        for fault in faults {
            self.recorder.fault_ended(fault)?;
        }
        Ok(done)
    }

    fn disturb_all(&mut self, server: &PostgresServer) -> Result<u64, Error> {
        let safe = self.server.deployment().is_safe(self.round.fault);
        let (length, times) = (self.millis(1_000..3_000), self.dice.random_range(1..20));
        let until_met = |signal, times, interval| {
            let mut strikes = (0..ATTEMPTS).map(|_| deeds::signal_backends(server, signal, times, interval));
            strikes.find(|done| !matches!(done, Ok(0))).unwrap_or(Ok(0))
        };
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Store, safe)?;
        let done = match self.round.fault {
            Fault::ReadOnlySwitch => deeds::switch_read_only(server, length)?,
            Fault::StatementCancel => until_met(Signal::Cancel, times, CANCEL_INTERVAL)?,
            _ => until_met(Signal::Terminate, times / 4 + 1, TERMINATE_INTERVAL)?,
        };
        self.recorder.fault_ended(fault)?;
        if self.dice.random_range(0..3) == 0 {
            sleep(CALM);
        }
        Ok(done)
    }
}
