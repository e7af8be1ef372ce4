//! Where one trial takes place.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stanchion_core::Kind;

use super::actor::Actor;
use super::measures::LEASE;
use super::{Bound, Error, Measure};
use crate::history::file_name;
use crate::rounds::work::Job;
use crate::rounds::{Site, Work};
use stanchion_testbed::faults::{Process, Proxy};

/// A trial's own namespace on a site, and its workers.
pub(super) struct Stage<'a> {
    site: &'a Site,
    program: &'a dyn Fn() -> Command,
    folder: PathBuf,
    namespace: String,
    run: u32,
    ttl: Duration,
    workers: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        site: &'a Site,
        program: &'a dyn Fn() -> Command,
        folder: &Path,
        trial: &str,
        run: u32,
    ) -> Self {
        let (folder, namespace) = (folder.to_owned(), format!("{trial}-{run}"));
        Self { site, program, folder, namespace, run, ttl: LEASE, workers: 0 }
    }

    pub(super) fn site(&self) -> &Site {
        self.site
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Workers to come hold with another lease.
    pub(super) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = ttl;
    }

    /// What the contract says about a measure here.
    pub(super) fn bound(&self, measure: Measure) -> Option<Bound> {
        measure.bound(self.site.stand())
    }

    /// A part of a period that is another one in each run, so that runs are spread over it.
    pub(super) fn part_of(&self, period: Duration) -> Duration {
        period * (self.run.wrapping_mul(37) % 100) / 100
    }

    pub(super) fn actor(&mut self) -> Result<Actor, Error> {
        self.actor_at(&self.site.url())
    }

    /// One whose way to the store is that proxy.
    pub(super) fn actor_behind(&mut self, proxy: &Proxy) -> Result<Actor, Error> {
        self.actor_at(&proxy.url(&self.site.url()))
    }

    fn actor_at(&mut self, url: &str) -> Result<Actor, Error> {
        self.workers += 1;
        let work = Work {
            job: Job::Obey,
            folder: self.folder.clone(),
            worker: self.workers,
            url: self.site.store_url(url, &self.namespace, self.ttl),
            ttl: self.ttl,
            kinds: vec![Kind::Mutex],
            seed: 0,
        };
        let mut process = Process::spawn((self.program)().args(work.to_arguments()).stdin(Stdio::piped()))?;
        let input = process.take_stdin().ok_or("a worker has no input")?;
        Ok(Actor::new(process, input, self.folder.join(file_name(self.workers))))
    }

    /// A holder and so many that wait behind it, in that order, and one who has counted them.
    pub(super) fn line(&mut self, waiters: usize) -> Result<(Vec<Actor>, Actor), Error> {
        let actors: Result<Vec<_>, _> = (0..=waiters).map(|_| self.actor()).collect();
        let (mut actors, mut observer) = (actors?, self.actor()?);
        for (at, actor) in actors.iter_mut().enumerate() {
            actor.lock()?;
            if at == 0 {
                actor.granted()?;
            }
            observer.await_waiters(u64::try_from(at)?)?;
        }
        Ok((actors, observer))
    }
}
