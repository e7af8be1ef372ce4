//! The setup of one trial.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stanchion_core::Kind;

use super::measures::LEASE;
use super::trial_worker::TrialWorker;
use super::{Bound, Error, Measure};
use crate::history::file_name;
use crate::rounds::work::Job;
use crate::rounds::{CampaignServer, Work};
use stanchion_testbed::faults::{Process, Proxy};

/// A trial's own namespace on a server, and its workers.
pub(super) struct TrialSetup<'a> {
    server: &'a CampaignServer,
    program: &'a dyn Fn() -> Command,
    folder: PathBuf,
    namespace: String,
    run: u32,
    ttl: Duration,
    workers: u32,
}

impl<'a> TrialSetup<'a> {
    pub(super) fn new(
        server: &'a CampaignServer,
        program: &'a dyn Fn() -> Command,
        folder: &Path,
        trial: &str,
        run: u32,
    ) -> Self {
        let (folder, namespace) = (folder.to_owned(), format!("{trial}-{run}"));
        Self { server, program, folder, namespace, run, ttl: LEASE, workers: 0 }
    }

    pub(super) fn server(&self) -> &CampaignServer {
        self.server
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Sets the lease of the workers that are started later.
    pub(super) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = ttl;
    }

    /// Returns the bound of a measure for this deployment.
    pub(super) fn bound(&self, measure: Measure) -> Option<Bound> {
        measure.bound(self.server.deployment())
    }

    /// Returns a part of `period`, another one in each run, so that the runs are spread over the period.
    pub(super) fn part_of(&self, period: Duration) -> Duration {
        period * (self.run.wrapping_mul(37) % 100) / 100
    }

    pub(super) fn worker(&mut self) -> Result<TrialWorker, Error> {
        self.worker_at(&self.server.url())
    }

    /// Starts a worker that connects through `proxy`.
    pub(super) fn worker_behind(&mut self, proxy: &Proxy) -> Result<TrialWorker, Error> {
        self.worker_at(&proxy.url(&self.server.url()))
    }

    fn worker_at(&mut self, url: &str) -> Result<TrialWorker, Error> {
        self.workers += 1;
        let work = Work {
            job: Job::RunCommands,
            folder: self.folder.clone(),
            worker: self.workers,
            url: self.server.store_url(url, &self.namespace, self.ttl),
            ttl: self.ttl,
            kinds: vec![Kind::Mutex],
            seed: 0,
        };
        let mut process = Process::spawn((self.program)().args(work.to_arguments()).stdin(Stdio::piped()))?;
        let input = process.take_stdin().ok_or("a worker has no input")?;
        Ok(TrialWorker::new(process, input, self.folder.join(file_name(self.workers))))
    }

    /// Starts a holder, `waiters` waiters that queue in order, and an observer that has counted them.
    pub(super) fn line(&mut self, waiters: usize) -> Result<(Vec<TrialWorker>, TrialWorker), Error> {
        let workers: Result<Vec<_>, _> = (0..=waiters).map(|_| self.worker()).collect();
        let (mut workers, mut observer) = (workers?, self.worker()?);
        for (at, worker) in workers.iter_mut().enumerate() {
            worker.lock()?;
            if at == 0 {
                worker.granted()?;
            }
            observer.await_waiters(u64::try_from(at)?)?;
        }
        Ok((workers, observer))
    }
}
