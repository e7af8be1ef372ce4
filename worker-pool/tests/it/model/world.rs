//! Submitters, workers and an owner, as the kernel sees them. Each acts only when it was woken, or
//! at random.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[path = "checks.rs"]
mod checks;

use super::kernel::{End, Kernel, Mode, Next, Stop, StopFlag, SubmitterState, Wakes};

/// Number of the latest jobs among which one is cancelled at random; earlier ones have mostly
/// ended.
const RECENT: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    TrySubmit,
    Submit,
    PollSubmit(usize),
    DropSubmit(usize),
    StepWorker(usize),
    /// The store grants the request of a worker.
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
enum Actor {
    Worker(usize),
    Submitter(u64),
}

/// A worker, as its task sees itself.
struct Worker {
    stop: Arc<StopFlag>,
    registered: bool,
    seeking: bool,
    job: Option<u64>,
    /// Why the running job has to stop, according to what the owner did.
    told: Option<Stop>,
}

pub(crate) struct World {
    kernel: Kernel<u64, Actor>,
    limited: bool,
    capacity: usize,
    workers: BTreeMap<usize, Worker>,
    woken: BTreeSet<Actor>,
    /// Waiting submitters in the order of arrival: the model's number, and the kernel's.
    waiting: BTreeMap<u64, u64>,
    promised: BTreeMap<u64, u64>,
    submitters: u64,
    queue: VecDeque<u64>,
    jobs: u64,
    ids: BTreeMap<u64, u64>,
    ends: BTreeMap<u64, End>,
}

impl World {
    pub(crate) fn new(capacity: usize, workers: usize, limited: bool) -> Self {
        let mut world = Self {
            kernel: Kernel::new(capacity),
            limited,
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
            Op::PollSubmit(chance) => {
                if let Some(submitter) = pick(self.waiting.keys().chain(self.promised.keys()), chance) {
                    self.poll_submit(submitter);
                }
            }
            Op::DropSubmit(chance) => {
                if let Some(submitter) = pick(self.waiting.keys().chain(self.promised.keys()), chance) {
                    self.drop_submit(submitter);
                }
            }
            Op::StepWorker(chance) => {
                if let Some(number) = pick(self.workers.keys(), chance) {
                    self.step(number);
                }
            }
            Op::Grant(chance) => {
                let seeking = self.workers.iter().filter(|(_, worker)| worker.seeking);
                if let Some(number) = pick(seeking.map(|(number, _)| number), chance) {
                    self.grant(number);
                }
            }
            Op::Finish(chance) => {
                let running = self.workers.iter().filter(|(_, worker)| worker.job.is_some());
                if let Some(number) = pick(running.map(|(number, _)| number), chance) {
                    self.finish(number, if chance % 5 == 0 { End::Panicked } else { End::Done });
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

    /// Lets every woken worker and submitter act, and every running job end, until no work is left.
    pub(crate) fn settle(&mut self) {
        loop {
            let running =
                self.workers.iter().find(|(_, worker)| worker.job.is_some()).map(|(number, _)| *number);
            let seeking = self.workers.iter().find(|(_, worker)| worker.seeking).map(|(number, _)| *number);
            let woken = self.woken.pop_first();
            if woken.is_none() {
                assert!(
                    self.kernel.seeking() <= self.queue.len(),
                    "a worker asks the store on behalf of no job"
                );
            }
            match (woken, seeking.or(running)) {
                (Some(Actor::Worker(number)), _) if self.workers.contains_key(&number) => self.step(number),
                (Some(Actor::Submitter(submitter)), _) if self.knows(submitter) => {
                    self.poll_submit(submitter)
                }
                (Some(_), _) => {}
                (None, Some(number)) if Some(number) == seeking => self.grant(number),
                (None, Some(number)) => self.finish(number, End::Done),
                (None, None) => break,
            }
            self.check();
        }
    }

    /// Drops all worker tasks in the order of their numbers, as a runtime does; submitters live on
    /// elsewhere.
    pub(crate) fn kill_all(&mut self) {
        while let Some((number, worker)) = self.workers.pop_first() {
            if let Some(job) = worker.job {
                self.ends(job, End::Aborted);
            }
            self.change(|kernel, wakes| kernel.remove_worker(number, wakes));
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
            let number = self.kernel.add_submitter(Actor::Submitter(submitter));
            self.waiting.insert(submitter, number);
        }
    }

    fn poll_submit(&mut self, submitter: u64) {
        self.woken.remove(&Actor::Submitter(submitter));
        let promised = self.promised.get(&submitter).copied();
        let number = promised.or_else(|| self.waiting.get(&submitter).copied()).unwrap();
        match self.kernel.poll_submitter(number, Actor::Submitter(submitter)) {
            SubmitterState::Admitted => {
                assert!(self.promised.remove(&submitter).is_some(), "nothing was promised to {submitter}");
                self.push();
            }
            SubmitterState::Waiting => assert!(promised.is_none(), "a promise to {submitter} was broken"),
            SubmitterState::Refused => panic!("refused by an open pool"),
        }
    }

    fn drop_submit(&mut self, submitter: u64) {
        let promised = self.promised.remove(&submitter);
        let number = promised.or_else(|| self.waiting.remove(&submitter)).unwrap();
        self.change(|kernel, wakes| kernel.remove_submitter(number, wakes));
    }

    fn push(&mut self) {
        let job = self.jobs;
        self.jobs += 1;
        self.queue.push_back(job);
        let id = self.change(|kernel, wakes| kernel.push(job, wakes));
        self.ids.insert(job, id);
    }

    fn step(&mut self, number: usize) {
        self.woken.remove(&Actor::Worker(number));
        let worker = self.workers.get_mut(&number).unwrap();
        if !std::mem::replace(&mut worker.registered, true) {
            self.kernel.register(number, Actor::Worker(number));
        }
        if worker.job.is_some() {
            assert_eq!(worker.stop.get(), worker.told);
            match worker.stop.get() {
                None => {}
                Some(Stop::Cancel) => self.finish(number, End::Cancelled),
                Some(Stop::Abort) => self.finish(number, End::Aborted),
            }
        } else if !self.limited {
            self.take(number);
        } else if !worker.seeking {
            match self.change(|kernel, wakes| kernel.seek(number, wakes)) {
                Next::Go(()) => self.workers.get_mut(&number).unwrap().seeking = true,
                Next::Wait => {}
                Next::Leave => drop(self.workers.remove(&number)),
            }
        } else {
            self.keeps_seeking(number);
        }
    }

    fn grant(&mut self, number: usize) {
        if self.keeps_seeking(number) {
            self.workers.get_mut(&number).unwrap().seeking = false;
            self.take(number);
        }
    }

    fn keeps_seeking(&mut self, number: usize) -> bool {
        let keeps = self.change(|kernel, wakes| kernel.keeps_seeking(number, wakes));
        if !keeps {
            self.workers.get_mut(&number).unwrap().seeking = false;
            self.woken.insert(Actor::Worker(number));
        }
        keeps
    }

    fn take(&mut self, number: usize) {
        let paused = self.kernel.is_paused();
        match self.change(|kernel, wakes| kernel.take(number, |_| true, wakes)) {
            Next::Go((id, job)) => {
                assert!(!paused && self.kernel.mode() != Mode::Closed, "a job began that must not");
                assert_eq!(self.queue.pop_front(), Some(job), "jobs begin in the order of the queue");
                assert_eq!(self.ids[&job], id);
                let worker = self.workers.get_mut(&number).unwrap();
                assert_eq!(worker.stop.get(), None, "a job is stopped in the place of another");
                worker.job = Some(job);
            }
            // With cluster limits it seeks again, as the task does.
            Next::Wait if self.limited => drop(self.woken.insert(Actor::Worker(number))),
            Next::Wait => assert!(self.queue.is_empty() || paused, "a worker rests beside a job"),
            Next::Leave => drop(self.workers.remove(&number)),
        }
    }

    fn finish(&mut self, number: usize, end: End) {
        let worker = self.workers.get_mut(&number).unwrap();
        let job = worker.job.take().unwrap();
        worker.told = None;
        self.kernel.finish(number, end);
        self.ends(job, end);
        self.woken.insert(Actor::Worker(number));
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
        for number in
            self.workers.iter().filter(|(_, worker)| worker.job.is_some()).map(|(number, _)| *number)
        {
            assert!(self.woken.contains(&Actor::Worker(number)), "worker {number} was not told to stop");
        }
    }

    fn resize(&mut self, wanted: usize) {
        for (number, stop) in self.change(|kernel, wakes| kernel.resize(wanted, wakes)) {
            let worker = Worker { stop, registered: false, seeking: false, job: None, told: None };
            assert!(self.workers.insert(number, worker).is_none(), "two workers with one number");
            self.woken.insert(Actor::Worker(number));
        }
    }

    fn end(&mut self, end: impl FnOnce(&mut Kernel<u64, Actor>, &mut Wakes<Actor>)) {
        self.change(end);
        self.refuse_waiting();
    }

    fn refuse_waiting(&mut self) {
        let refused = std::mem::take(&mut self.waiting).into_iter().chain(std::mem::take(&mut self.promised));
        for (submitter, number) in refused {
            assert_eq!(
                self.kernel.poll_submitter(number, Actor::Submitter(submitter)),
                SubmitterState::Refused
            );
            assert!(self.woken.contains(&Actor::Submitter(submitter)), "{submitter} was not told of the end");
        }
    }

    /// Changes the kernel, and records every wake-up. Waiting submitters are promised places in the
    /// order of arrival.
    fn change<R>(&mut self, change: impl FnOnce(&mut Kernel<u64, Actor>, &mut Wakes<Actor>) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = change(&mut self.kernel, &mut wakes);
        for actor in wakes {
            self.woken.insert(actor);
            if let Actor::Submitter(submitter) = actor
                && self.kernel.mode() == Mode::Open
            {
                let (first, number) = self.waiting.pop_first().unwrap();
                assert_eq!(first, submitter, "a submitter overtook another");
                self.promised.insert(first, number);
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
