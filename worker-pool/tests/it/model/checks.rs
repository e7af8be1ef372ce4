//! Checks that hold at every instant, and at the end.

use std::collections::BTreeSet;

use super::World;
use crate::model::kernel::{End, Mode};

impl World {
    /// Checks that no work is left, no waiter was forgotten, and the number of workers is the
    /// configured one.
    pub(crate) fn check_idle(&self) {
        assert_eq!(self.kernel.queued(), 0, "a job waits although all workers are free");
        assert_eq!(self.waiting.len() + self.promised.len(), 0, "a submitter waits although there is room");
        assert_eq!((self.kernel.running(), self.kernel.seeking()), (0, 0));
        assert_eq!(self.kernel.workers(), self.kernel.wanted());
        self.check_ends();
    }

    pub(crate) fn check_ended(&mut self) {
        assert_eq!(self.kernel.workers(), 0, "a worker stayed");
        assert!(self.kernel.is_quiet());
        assert_eq!(
            self.waiting.len() + self.promised.len(),
            0,
            "a submitter waits for a pool that has ended"
        );
        for (id, job) in self.kernel.take_unrun() {
            assert_eq!(self.queue.pop_front(), Some(job));
            assert_eq!(self.ids[&job], id);
            self.ends(job, End::NotRun);
        }
        assert!(self.kernel.take_unrun().is_empty());
        self.check();
        self.check_ends();
    }

    /// Checks what holds at every instant.
    pub(super) fn check(&self) {
        let kernel = &self.kernel;
        assert_eq!(kernel.queued(), self.queue.len());
        assert!(self.queue.len() + self.promised.len() <= self.capacity);
        assert!(
            kernel.mode() != Mode::Open || self.waiting.is_empty() || !self.has_room(),
            "room is kept back"
        );
        assert_eq!(kernel.waiting(), self.waiting.len());
        let running: BTreeSet<_> = self.workers.values().filter_map(|worker| worker.job).collect();
        let known: BTreeSet<_> = kernel.jobs().map(|(id, _)| id).collect();
        assert_eq!(known, running.iter().map(|job| self.ids[job]).collect());
        assert_eq!(kernel.running(), running.len());
        assert_eq!(kernel.workers(), self.workers.len());
        let counts = kernel.counts;
        let ended = [counts.done, counts.panicked, counts.cancelled, counts.not_run, counts.aborted];
        assert_eq!(counts.submitted, self.jobs);
        let ended: u64 = ended.iter().sum();
        assert_eq!(ended, self.ends.len() as u64);
        assert_eq!(self.jobs, ended + (running.len() + self.queue.len()) as u64);
    }

    /// Checks that every job ended.
    fn check_ends(&self) {
        for job in 0..self.jobs {
            assert!(self.ends.contains_key(&job), "job {job} has no end");
        }
    }
}
