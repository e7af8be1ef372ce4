//! The setup of one trial.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stanchion_core::Kind;

use super::Error;
use super::measures::LEASE;
use super::stalls::Stalls;
use super::trial_worker::TrialWorker;
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
    stalls: &'a Stalls,
}

impl<'a> TrialSetup<'a> {
    pub(super) fn new(
        server: &'a CampaignServer,
        program: &'a dyn Fn() -> Command,
        folder: &Path,
        trial: &str,
        run: u32,
        stalls: &'a Stalls,
    ) -> Self {
        let (folder, namespace) = (folder.to_owned(), format!("{trial}-{run}"));
        Self { server, program, folder, namespace, run, ttl: LEASE, workers: 0, stalls }
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

    /// Returns the time between two readings of the machine's clock in which the machine ran, in
    /// µs.
    pub(super) fn took(&self, from: u64, to: u64) -> i64 {
        self.stalls.took(from, to)
    }

    /// Returns a part of `period`, another one in each run, so that the runs are spread over the
    /// period.
    pub(super) fn part_of(&self, period: Duration) -> Duration {
        period * (self.run.wrapping_mul(37) % 100) / 100
    }

    pub(super) fn worker(&mut self) -> Result<TrialWorker, Error> {
        self.worker_at(&self.server.url())
    }

    /// Starts a worker that connects through `proxy`, if there is one.
    pub(super) fn worker_behind(&mut self, proxy: Option<&Proxy>) -> Result<TrialWorker, Error> {
        let url = self.server.url();
        self.worker_at(&proxy.map_or_else(|| url.clone(), |proxy| proxy.url(&url)))
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
            mutexes: 1,
            seed: 0,
        };
        let mut process = Process::spawn((self.program)().args(work.to_arguments()).stdin(Stdio::piped()))?;
        let input = process.take_stdin().ok_or("a worker has no input")?;
        Ok(TrialWorker::new(process, input, self.folder.join(file_name(self.workers))))
    }

    /// Starts a holder, `waiters` waiters that queue in order, and an observer that has counted
    /// them.
    pub(super) fn line(&mut self, waiters: usize) -> Result<(Vec<TrialWorker>, TrialWorker), Error> {
        self.line_of(waiters, |setup, _| setup.worker())
    }

    /// As [`line`](Self::line), but `start` starts the worker at each place; the holder's place is
    /// 0.
    pub(super) fn line_of(
        &mut self,
        waiters: usize,
        start: impl Fn(&mut Self, usize) -> Result<TrialWorker, Error>,
    ) -> Result<(Vec<TrialWorker>, TrialWorker), Error> {
        loop {
            let workers: Result<Vec<_>, _> = (0..=waiters).map(|at| start(self, at)).collect();
            let (mut workers, mut observer) = (workers?, self.worker()?);
            if queue(&mut workers, &mut observer)? {
                return Ok((workers, observer));
            }
            // The machine stood still for a lease. The next workers must not meet these ones, which
            // are killed.
            self.namespace.push('-');
        }
    }
}

/// Lets the workers lock the mutex in their order. Returns `false` if the first one lost it before
/// all were queued.
fn queue(workers: &mut [TrialWorker], observer: &mut TrialWorker) -> Result<bool, Error> {
    let Some((holder, waiters)) = workers.split_first_mut() else { return Ok(true) };
    holder.lock()?;
    holder.granted()?;
    for (waiter, count) in waiters.iter_mut().zip(1..) {
        waiter.lock()?;
        if !observer.await_waiters(count, holder)? {
            return Ok(false);
        }
    }
    Ok(true)
}
