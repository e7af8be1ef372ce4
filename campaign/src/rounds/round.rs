//! One store under one fault.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::nemesis::Nemesis;
use super::work::Job;
use super::{CampaignServer, Deployment, Fault, Work};
use crate::history::{Bounds, History, Report};

/// Wait after the last call until everything left has ended: a lease, its tombstone, and the
/// contract's allowances.
const SETTLE_TIME: Duration = Duration::from_millis(2_500);

/// A lease with which a request's time limit is longer than ε, so that a delay is seen before the
/// request fails.
const LEASE_OF_BYSTANDERS: Duration = Duration::from_secs(2);

/// A lease that is long enough to leave every request its full time limit.
const LONG_LEASE: Duration = Duration::from_secs(30);

/// A round: workers use a store while a fault strikes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Round {
    /// The fault.
    pub fault: Fault,
    /// The time during which the fault strikes.
    pub length: Duration,
    /// The seed of all randomness.
    pub seed: u64,
    /// The number of concurrent workers, at least 2.
    pub workers: u32,
    /// The lease of all holds, 100 ms to 24 h; for sessions, the lease of the process.
    pub ttl: Duration,
    /// A new folder for the history.
    pub folder: PathBuf,
}

/// The result of a round.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The deployment.
    pub deployment: Deployment,
    /// The fault.
    pub fault: Fault,
    /// How often the fault struck.
    pub strikes: u64,
    /// How much a neighbour's deeds did, in the unit that [`Fault::deed`] says.
    pub deeds: u64,
    /// The report of the checkers.
    pub report: Report,
}

impl Round {
    /// Creates a round of 6 s with three workers and leases of 1 s, or 2 s where a fault concerns
    /// some names only.
    #[must_use]
    pub fn new(fault: Fault, seed: u64, folder: PathBuf) -> Self {
        let ttl = if fault.spares_names() { LEASE_OF_BYSTANDERS } else { Duration::from_secs(1) };
        let length = Duration::from_secs(6);
        Self { fault, length, seed, workers: 3, ttl, folder }
    }

    /// Sets the time during which the fault strikes.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length;
        self
    }

    /// Runs the round. Blocks the thread for its length and some seconds more. `program` returns
    /// the command that starts a worker; [its arguments](Work::to_arguments) are added.
    ///
    /// # Errors
    /// If a server, a process or a file fails. Violations are no error; they are in the report.
    pub fn run(
        &self,
        server: &CampaignServer,
        program: &dyn Fn() -> Command,
    ) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
        let mut nemesis = Nemesis::new(self, server, program)?;
        nemesis.begin()?;
        let end = Instant::now() + self.length;
        while Instant::now() < end {
            nemesis.strike()?;
        }
        let (strikes, deeds) = nemesis.end()?;
        if let Some(unit) = self.fault.deed().filter(|_| deeds == 0) {
            return Err(format!("the round has seen no {unit}").into());
        }
        sleep(self.ttl + SETTLE_TIME);
        nemesis.drain()?;
        server.record(&self.namespace(), &self.folder)?;
        let report = History::read(&self.folder)?.check_with(&Bounds::default());
        Ok(Outcome { deployment: server.deployment(), fault: self.fault, strikes, deeds, report })
    }

    /// Returns the namespace of its objects.
    pub(super) fn namespace(&self) -> String {
        format!("{}-{:016x}", self.fault, self.seed)
    }

    /// Returns the number of its mutexes: one more where a fault of the first must spare the
    /// others.
    pub(super) fn mutexes(&self) -> usize {
        if self.fault.spares_names() { 2 } else { 1 }
    }

    pub(super) fn work(&self, server: &CampaignServer, job: Job, worker: u32, url: &str) -> Work {
        // The worker that drains has no competitors: its requests may take as long as they need.
        let ttl = if job == Job::Drain { LONG_LEASE } else { self.ttl };
        Work {
            job,
            folder: self.folder.clone(),
            worker,
            url: server.store_url(url, &self.namespace(), ttl),
            ttl,
            kinds: server.deployment().kinds().to_vec(),
            mutexes: self.mutexes(),
            seed: self.seed,
        }
    }
}

impl Outcome {
    /// Returns the number of grants of all kinds.
    #[must_use]
    pub fn grants(&self) -> usize {
        self.report.tallies.iter().map(|(_, tally)| tally.grants).sum()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployment, fault, strikes, deeds, report } = self;
        let violations = report.violations.len();
        write!(
            f,
            "{deployment:<18} {fault:<18} {:>8} grants {strikes:>5} faults {violations:>4} violations",
            self.grants()
        )?;
        fault.deed().map_or(Ok(()), |unit| write!(f, " {deeds:>6} {unit}"))
    }
}
