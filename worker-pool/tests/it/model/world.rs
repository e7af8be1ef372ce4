//! Submitters, workers and an owner, as the kernel sees them. Nobody acts unless he was woken, or by chance.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[path = "checks.rs"]
mod checks;

use super::kernel::{End, Kernel, Mode, Next, Stop, StopFlag, TurnState, Wakes};

/// As many of the last jobs are cancelled, by chance; those before have mostly ended.
const RECENT: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    TrySubmit,
    Submit,
    PollTurn(usize),
    DropTurn(usize),
    StepWorker(usize),
    /// The store grants what one asks for.
    Grant(usize),
    Finish(usize),
    Cancel(usize),
    Resize(usize),
    Pause,
    Resume,
    Drain,
    Close,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Worker(usize),
    Submitter(u64),
}

/// A worker as its task would be.
struct Worker {
    stop: Arc<StopFlag>,
    registered: bool,
    seeking: bool,
    job: Option<u64>,
    /// Why the job that runs has to stop, by what the owner did.
    told: Option<Stop>,
}

pub(crate) struct World {
    kernel: Kernel<u64, Who>,
    gated: bool,
    capacity: usize,
    workers: BTreeMap<usize, Worker>,
    woken: BTreeSet<Who>,
    /// Submitters that wait: the kernel's turn, by a name of their own. In the order of arrival.
    waiting: BTreeMap<u64, u64>,
    promised: BTreeMap<u64, u64>,
    submitters: u64,
    queue: VecDeque<u64>,
    jobs: u64,
    ids: BTreeMap<u64, u64>,
    ends: BTreeMap<u64, End>,
}

impl World {
    pub(crate) fn new(capacity: usize, workers: usize, gated: bool) -> Self {
        let mut world = Self {
            kernel: Kernel::new(capacity),
            gated,
            capacity,
            workers: BTreeMap::new(),
            woken: BTreeSet::new(),
            waiting: BTreeMap::new(),
            promised: BTreeMap::new(),
            submitters: 0,
            queue: VecDeque::new(),
            jobs: 0,
            ids: BTreeMap::new(),
            ends: BTreeMap::new(),
        };
        world.act(Op::Resize(workers));
        world
    }

    pub(crate) fn act(&mut self, op: Op) {
        match op {
            Op::TrySubmit => self.try_submit(),
            Op::Submit => self.submit(),
            Op::PollTurn(chance) => {
                if let Some(submitter) = pick(self.waiting.keys().chain(self.promised.keys()), chance) {
                    self.poll_turn(submitter);
                }
            }
            Op::DropTurn(chance) => {
                if let Some(submitter) = pick(self.waiting.keys().chain(self.promised.keys()), chance) {
                    self.drop_turn(submitter);
                }
            }
            Op::StepWorker(chance) => {
                if let Some(seat) = pick(self.workers.keys(), chance) {
                    self.step(seat);
                }
            }
            Op::Grant(chance) => {
                let seeking = self.workers.iter().filter(|(_, worker)| worker.seeking);
                if let Some(seat) = pick(seeking.map(|(seat, _)| seat), chance) {
                    self.grant(seat);
                }
            }
            Op::Finish(chance) => {
                let running = self.workers.iter().filter(|(_, worker)| worker.job.is_some());
                if let Some(seat) = pick(running.map(|(seat, _)| seat), chance) {
                    self.finish(seat, if chance % 5 == 0 { End::Panicked } else { End::Done });
                }
            }
            Op::Cancel(chance) => {
                if let Some(job) = pick(self.ids.keys().rev().take(RECENT), chance) {
                    self.cancel(job);
                }
            }
            Op::Resize(wanted) => {
                if self.kernel.mode() == Mode::Open {
                    self.resize(wanted);
                }
            }
            Op::Pause => {
                if self.kernel.mode() == Mode::Open {
                    self.change(|kernel, wakes| kernel.pause(wakes));
                }
            }
            Op::Resume => self.change(|kernel, wakes| kernel.resume(wakes)),
            Op::Drain => self.end(|kernel, wakes| kernel.drain(wakes)),
            Op::Close => self.end(|kernel, wakes| kernel.close(wakes)),
            Op::Abort => {
                if self.kernel.mode() == Mode::Closed {
                    self.abort();
                }
            }
        }
        self.check();
    }

    /// Lets everybody who was woken act, and every job that runs end, until nobody has anything to do.
    pub(crate) fn settle(&mut self) {
        loop {
            let running = self.workers.iter().find(|(_, worker)| worker.job.is_some()).map(|(seat, _)| *seat);
            let seeking = self.workers.iter().find(|(_, worker)| worker.seeking).map(|(seat, _)| *seat);
            let woken = self.woken.pop_first();
            if woken.is_none() {
                assert!(
                    self.kernel.seeking() <= self.queue.len(),
                    "a worker asks the store on behalf of no job"
                );
            }
            match (woken, seeking.or(running)) {
                (Some(Who::Worker(seat)), _) if self.workers.contains_key(&seat) => self.step(seat),
                (Some(Who::Submitter(submitter)), _) if self.knows(submitter) => self.poll_turn(submitter),
                (Some(_), _) => {}
                (None, Some(seat)) if Some(seat) == seeking => self.grant(seat),
                (None, Some(seat)) => self.finish(seat, End::Done),
                (None, None) => break,
            }
            self.check();
        }
    }

    /// The runtime drops all tasks, in the order of their seats; submitters live on elsewhere.
    pub(crate) fn kill_all(&mut self) {
        while let Some((seat, worker)) = self.workers.pop_first() {
            if let Some(job) = worker.job {
                self.ends(job, End::Aborted);
            }
            self.change(|kernel, wakes| kernel.vacate(seat, wakes));
        }
        if self.kernel.mode() == Mode::Open {
            assert!(self.kernel.wanted() == 0, "a pool without workers takes jobs");
        }
        self.refuse_waiting();
    }

    fn try_submit(&mut self) {
        let open = self.kernel.mode() == Mode::Open;
        let room = self.has_room() && self.waiting.is_empty();
        let admitted = self.kernel.admit().is_ok();
        assert_eq!(admitted, open && room);
        if admitted {
            self.push();
        }
    }

    fn submit(&mut self) {
        if self.kernel.admit().is_ok() {
            self.push();
        } else if self.kernel.mode() == Mode::Open {
            let submitter = self.submitters;
            self.submitters += 1;
            let turn = self.kernel.line_up(Who::Submitter(submitter));
            self.waiting.insert(submitter, turn);
        }
    }

    fn poll_turn(&mut self, submitter: u64) {
        self.woken.remove(&Who::Submitter(submitter));
        let promised = self.promised.get(&submitter).copied();
        let turn = promised.or_else(|| self.waiting.get(&submitter).copied()).unwrap();
        match self.kernel.look(turn, Who::Submitter(submitter)) {
            TurnState::Admitted => {
                assert!(self.promised.remove(&submitter).is_some(), "nothing was promised to {submitter}");
                self.push();
            }
            TurnState::Waiting => assert!(promised.is_none(), "a promise to {submitter} was broken"),
            TurnState::Refused => panic!("refused by an open pool"),
        }
    }

    fn drop_turn(&mut self, submitter: u64) {
        let promised = self.promised.remove(&submitter);
        let turn = promised.or_else(|| self.waiting.remove(&submitter)).unwrap();
        self.change(|kernel, wakes| kernel.forget(turn, wakes));
    }

    fn push(&mut self) {
        let job = self.jobs;
        self.jobs += 1;
        self.queue.push_back(job);
        let id = self.change(|kernel, wakes| kernel.push(job, wakes));
        self.ids.insert(job, id);
    }

    fn step(&mut self, seat: usize) {
        self.woken.remove(&Who::Worker(seat));
        let worker = self.workers.get_mut(&seat).unwrap();
        if !std::mem::replace(&mut worker.registered, true) {
            self.kernel.register(seat, Who::Worker(seat));
        }
        if worker.job.is_some() {
            assert_eq!(worker.stop.get(), worker.told);
            match worker.stop.get() {
                None => {}
                Some(Stop::Cancel) => self.finish(seat, End::Cancelled),
                Some(Stop::Abort) => self.finish(seat, End::Aborted),
            }
        } else if !self.gated {
            self.take(seat);
        } else if !worker.seeking {
            match self.change(|kernel, wakes| kernel.seek(seat, wakes)) {
                Next::Go(()) => self.workers.get_mut(&seat).unwrap().seeking = true,
                Next::Wait => {}
                Next::Leave => drop(self.workers.remove(&seat)),
            }
        } else {
            self.keeps_seeking(seat);
        }
    }

    fn grant(&mut self, seat: usize) {
        if self.keeps_seeking(seat) {
            self.workers.get_mut(&seat).unwrap().seeking = false;
            self.take(seat);
        }
    }

    fn keeps_seeking(&mut self, seat: usize) -> bool {
        let keeps = self.change(|kernel, wakes| kernel.keeps_seeking(seat, wakes));
        if !keeps {
            self.workers.get_mut(&seat).unwrap().seeking = false;
            self.woken.insert(Who::Worker(seat));
        }
        keeps
    }

    fn take(&mut self, seat: usize) {
        let paused = self.kernel.is_paused();
        match self.change(|kernel, wakes| kernel.take(seat, |_| true, wakes)) {
            Next::Go((id, job)) => {
                assert!(!paused && self.kernel.mode() != Mode::Closed, "a job began that must not");
                assert_eq!(self.queue.pop_front(), Some(job), "jobs begin in the order of the queue");
                assert_eq!(self.ids[&job], id);
                let worker = self.workers.get_mut(&seat).unwrap();
                assert_eq!(worker.stop.get(), None, "a job is stopped in the place of another");
                worker.job = Some(job);
            }
            // With a gate it looks again for something to seek, as the task does.
            Next::Wait if self.gated => drop(self.woken.insert(Who::Worker(seat))),
            Next::Wait => assert!(self.queue.is_empty() || paused, "a worker rests beside a job"),
            Next::Leave => drop(self.workers.remove(&seat)),
        }
    }

    fn finish(&mut self, seat: usize, end: End) {
        let worker = self.workers.get_mut(&seat).unwrap();
        let job = worker.job.take().unwrap();
        worker.told = None;
        self.kernel.finish(seat, end);
        self.ends(job, end);
        self.woken.insert(Who::Worker(seat));
    }

    fn cancel(&mut self, job: u64) {
        let id = self.ids[&job];
        let waits = self.queue.contains(&job);
        self.queue.retain(|queued| *queued != job);
        let withdrawn = self.change(|kernel, wakes| kernel.withdraw(id, wakes));
        assert_eq!(withdrawn, waits.then_some(job));
        if waits {
            self.ends(job, End::Cancelled);
            return;
        }
        if let Some(worker) = self.workers.values_mut().find(|worker| worker.job == Some(job)) {
            worker.told.get_or_insert(Stop::Cancel);
        }
        self.change(|kernel, wakes| kernel.stop(id, wakes));
    }

    fn abort(&mut self) {
        for worker in self.workers.values_mut().filter(|worker| worker.job.is_some()) {
            worker.told.get_or_insert(Stop::Abort);
        }
        self.change(|kernel, wakes| kernel.abort(wakes));
        for seat in self.workers.iter().filter(|(_, worker)| worker.job.is_some()).map(|(seat, _)| *seat) {
            assert!(self.woken.contains(&Who::Worker(seat)), "nobody told the worker on {seat}");
        }
    }

    fn resize(&mut self, wanted: usize) {
        for (seat, stop) in self.change(|kernel, wakes| kernel.resize(wanted, wakes)) {
            let worker = Worker { stop, registered: false, seeking: false, job: None, told: None };
            assert!(self.workers.insert(seat, worker).is_none(), "two workers on one seat");
            self.woken.insert(Who::Worker(seat));
        }
    }

    fn end(&mut self, end: impl FnOnce(&mut Kernel<u64, Who>, &mut Wakes<Who>)) {
        self.change(end);
        self.refuse_waiting();
    }

    fn refuse_waiting(&mut self) {
        let refused = std::mem::take(&mut self.waiting).into_iter().chain(std::mem::take(&mut self.promised));
        for (submitter, turn) in refused {
            assert_eq!(self.kernel.look(turn, Who::Submitter(submitter)), TurnState::Refused);
            assert!(self.woken.contains(&Who::Submitter(submitter)), "{submitter} was not told of the end");
        }
    }

    /// Changes the kernel, and takes down who was woken. Who waits is promised places in the order of arrival.
    fn change<R>(&mut self, change: impl FnOnce(&mut Kernel<u64, Who>, &mut Wakes<Who>) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = change(&mut self.kernel, &mut wakes);
        for who in wakes {
            self.woken.insert(who);
            if let Who::Submitter(submitter) = who
                && self.kernel.mode() == Mode::Open
            {
                let (first, turn) = self.waiting.pop_first().unwrap();
                assert_eq!(first, submitter, "somebody overtook");
                self.promised.insert(first, turn);
            }
        }
        result
    }

    fn ends(&mut self, job: u64, end: End) {
        assert_eq!(self.ends.insert(job, end), None, "job {job} ended twice");
    }

    fn has_room(&self) -> bool {
        self.queue.len() + self.promised.len() < self.capacity
    }

    fn knows(&self, submitter: u64) -> bool {
        self.waiting.contains_key(&submitter) || self.promised.contains_key(&submitter)
    }
}

fn pick<'a, K: Copy + 'a>(mut from: impl Iterator<Item = &'a K> + Clone, chance: usize) -> Option<K> {
    let count = from.clone().count();
    (count > 0).then(|| from.nth(chance % count).copied()).flatten()
}
