//! One store under one fault.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::nemesis::Nemesis;
use super::work::Job;
use super::{Fault, CampaignServer, Deployment, Work};
use crate::history::{Bounds, History, Report};

/// After the last call, what is left ends: a lease, a tombstone of it, and the contract's allowances.
const QUIET: Duration = Duration::from_millis(2_500);

/// A lease that shortens the time limit of no request.
const UNHURRIED: Duration = Duration::from_secs(30);

/// A round: workers use a store while a fault strikes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Round {
    /// Which fault.
    pub fault: Fault,
    /// How long it strikes.
    pub length: Duration,
    /// What everything random comes from.
    pub seed: u64,
    /// Workers at once, at least 2.
    pub workers: u32,
    /// The lease of all holds, 100 ms to 24 h; for sessions that of the process.
    pub ttl: Duration,
    /// Where the history goes: a new folder.
    pub folder: PathBuf,
}

/// What came out of a round.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How holds were kept.
    pub deployment: Deployment,
    /// Under which fault.
    pub fault: Fault,
    /// How often it struck.
    pub strikes: u64,
    /// What the checkers say.
    pub report: Report,
}

impl Round {
    /// A round of 6 s with three workers and leases of 1 s.
    #[must_use]
    pub fn new(fault: Fault, seed: u64, folder: PathBuf) -> Self {
        let (length, ttl) = (Duration::from_secs(6), Duration::from_secs(1));
        Self { fault, length, seed, workers: 3, ttl, folder }
    }

    /// Strikes for so long.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length;
        self
    }

    /// Runs it, and blocks the thread for its length and some seconds more. `program` gives the command that runs a worker, to which
    /// [its arguments](Work::to_arguments) are added.
    ///
    /// # Errors
    /// What keeps it from being run: servers, processes, files. What the checkers find is no error.
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
        let strikes = nemesis.end()?;
        sleep(self.ttl + QUIET);
        nemesis.drain()?;
        server.record(&self.namespace(), &self.folder)?;
        let report = History::read(&self.folder)?.check_with(&Bounds::default());
        Ok(Outcome { deployment: server.deployment(), fault: self.fault, strikes, report })
    }

    /// The namespace of its objects.
    pub(super) fn namespace(&self) -> String {
        format!("{}-{:016x}", self.fault, self.seed)
    }

    pub(super) fn work(&self, server: &CampaignServer, job: Job, worker: u32, url: &str) -> Work {
        Work {
            job,
            folder: self.folder.clone(),
            worker,
            url: server.store_url(url, &self.namespace(), self.ttl),
            // Whoever takes what is left races nobody: its requests have all the time that they may have.
            ttl: if job == Job::Drain { UNHURRIED } else { self.ttl },
            kinds: server.deployment().kinds().to_vec(),
            seed: self.seed,
        }
    }
}

impl Outcome {
    /// Grants of all kinds.
    #[must_use]
    pub fn grants(&self) -> usize {
        self.report.tallies.iter().map(|(_, tally)| tally.grants).sum()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployment, fault, strikes, report } = self;
        let violations = report.violations.len();
        write!(
            f,
            "{deployment:<18} {fault:<18} {:>8} grants {strikes:>5} faults {violations:>4} violations",
            self.grants()
        )
    }
}
