//! The nemesis: injects faults into the processes, the connections and the server of a round.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::stall_monitor::StallMonitor;
use super::work::{CANCEL, Job, STOP};
use super::worker_view::WorkerView;
use super::{CampaignServer, Fault, Round};
use crate::history::{Change, Recorder, Target, file_name};
use stanchion_testbed::faults::{Action, Clock, Direction, Process, Proxy, Then, When};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The worker number of the nemesis in the history, and the number of the first worker.
const NEMESIS: u32 = 0;
const FIRST: u32 = 1;
/// The time limit for workers to start, and to end.
const PROCESS_LIMIT: Duration = Duration::from_secs(20);
/// The time limit for a rule of the proxy to match a request.
const MATCH_LIMIT: Duration = Duration::from_millis(500);

/// A slot for one worker process at a time. The proxy is kept when the process is replaced.
struct WorkerSlot {
    proxy: Proxy,
    worker: u32,
    process: Process,
    input: Option<ChildStdin>,
    view: WorkerView,
}

pub(super) struct Nemesis<'a> {
    round: &'a Round,
    server: &'a CampaignServer,
    program: &'a dyn Fn() -> Command,
    recorder: Recorder,
    dice: StdRng,
    slots: Vec<WorkerSlot>,
    next: u32,
    clock: Option<Clock>,
    strikes: u64,
    _stalls: StallMonitor,
}

impl<'a> Nemesis<'a> {
    pub(super) fn new(
        round: &'a Round,
        server: &'a CampaignServer,
        program: &'a dyn Fn() -> Command,
    ) -> Result<Self, Error> {
        let recorder = Recorder::create(&round.folder, NEMESIS)?;
        let clock = (round.fault == Fault::ClientClockStep).then(Clock::new).transpose()?;
        let dice = StdRng::seed_from_u64(round.seed);
        let stalls = StallMonitor::start(&recorder);
        Ok(Self {
            round,
            server,
            program,
            recorder,
            dice,
            slots: Vec::new(),
            next: FIRST,
            clock,
            strikes: 0,
            _stalls: stalls,
        })
    }

    /// Starts the workers, and waits until each has its first grant.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        for _ in 0..self.round.workers {
            let proxy = Proxy::to(&self.server.url())?;
            let (worker, process, input) = self.start(Job::Use, &proxy)?;
            self.slots.push(WorkerSlot { proxy, worker, process, input, view: WorkerView::new() });
        }
        let end = Instant::now() + PROCESS_LIMIT;
        loop {
            self.look();
            let idle = self.slots.iter().find(|slot| slot.view.grants == 0);
            let Some(idle) = idle else { return Ok(()) };
            if Instant::now() > end {
                return Err(format!("worker {} got no grant; {}", idle.worker, idle.proxy.report()).into());
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn start(&mut self, job: Job, proxy: &Proxy) -> Result<(u32, Process, Option<ChildStdin>), Error> {
        let worker = self.next;
        self.next += 1;
        let work = self.round.work(self.server, job, worker, &proxy.url(&self.server.url()));
        let mut command = (self.program)();
        if let Some(clock) = &self.clock {
            clock.shifts(&mut command);
        }
        command.args(work.to_arguments()).stdin(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let input = process.take_stdin();
        self.recorder.process(worker, Change::Started)?;
        Ok((worker, process, input))
    }

    fn look(&mut self) {
        for slot in &mut self.slots {
            slot.view.look(&self.round.folder.join(file_name(slot.worker)));
        }
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.dice.random_range(range))
    }

    fn any(&mut self) -> usize {
        self.dice.random_range(0..self.slots.len())
    }

    /// Returns a worker for which `is_so` is true, if one is found soon; otherwise any worker.
    fn one_that(&mut self, is_so: impl Fn(&WorkerView) -> bool) -> usize {
        for _ in 0..50 {
            self.look();
            let first = self.any();
            let count = self.slots.len();
            let found = (0..count).map(|at| (first + at) % count).find(|at| is_so(&self.slots[*at].view));
            if let Some(found) = found {
                return found;
            }
            sleep(Duration::from_millis(2));
        }
        self.any()
    }

    /// Injects the round's fault once, then lets the workers run for some time.
    pub(super) fn strike(&mut self) -> Result<(), Error> {
        self.strikes += 1;
        match self.round.fault {
            Fault::HolderKill => {
                let at = self.one_that(WorkerView::holds);
                self.replace(at)?;
            }
            Fault::WaiterKill => {
                let at = self.one_that(WorkerView::only_waits);
                self.replace(at)?;
            }
            Fault::HolderPause => self.stop()?,
            Fault::TaskCancel => self.cancel()?,
            Fault::ClientClockStep => self.step_clock()?,
            Fault::ReplyDrop | Fault::RequestDrop | Fault::CutMidFrame => self.lose()?,
            Fault::BlackHole | Fault::OneWayBlackHole => self.black_hole()?,
            Fault::WakeUpsDropped => self.swallow()?,
            Fault::StoreStall | Fault::StoreCrash | Fault::ConnectionKill => self.strike_store()?,
        }
        let rest = self.millis(20..150);
        sleep(rest);
        self.watch()
    }

    /// Returns an error if a worker has ended by itself.
    fn watch(&mut self) -> Result<(), Error> {
        for slot in &mut self.slots {
            if !slot.process.is_alive() {
                return Err(format!("worker {} has ended; its own output says why", slot.worker).into());
            }
        }
        Ok(())
    }

    /// Kills a worker, and starts another one in its slot.
    fn replace(&mut self, at: usize) -> Result<(), Error> {
        self.recorder.process(self.slots[at].worker, Change::Killed)?;
        self.slots[at].process.kill()?;
        let mut slot = self.slots.swap_remove(at);
        (slot.worker, slot.process, slot.input) = self.start(Job::Use, &slot.proxy)?;
        slot.view = WorkerView::new();
        self.slots.push(slot);
        let rest = self.millis(50..300);
        sleep(rest);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Error> {
        let at = self.one_that(WorkerView::holds);
        let worker = self.slots[at].worker;
        self.recorder.process(worker, Change::Stopped)?;
        self.slots[at].process.stop()?;
        let ttl = u64::try_from(self.round.ttl.as_millis())?;
        let length = self.millis(ttl / 2..ttl * 3 / 2);
        sleep(length);
        self.slots[at].process.resume()?;
        self.recorder.process(worker, Change::Resumed)?;
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), Error> {
        let at = self.any();
        let WorkerSlot { worker, input, .. } = &mut self.slots[at];
        let fault = self.recorder.fault_began("all calls dropped", Target::Worker(*worker), true)?;
        if let Some(input) = input {
            writeln!(input, "{CANCEL}")?;
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    fn step_clock(&mut self) -> Result<(), Error> {
        let hours = self.dice.random_range(-48..=48_i64);
        let fault = self.recorder.fault_began("the clients' clock", Target::Worker(FIRST), true)?;
        if let Some(clock) = &self.clock {
            clock.set(hours * 3_600_000_000)?;
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    /// Loses a request or a reply, whole or in part.
    fn lose(&mut self) -> Result<(), Error> {
        let at = self.any();
        let then = [Then::Fin, Then::Reset, Then::Silence][self.dice.random_range(0..3)];
        let half = self.dice.random_range(0..2) == 0;
        let action = match (self.round.fault, half) {
            (Fault::ReplyDrop, _) => Action::DropReply(then),
            (Fault::RequestDrop, _) => Action::DropRequest(then),
            (_, true) => Action::CutReply(then),
            (_, false) => Action::CutRequest(then),
        };
        let nth = self.dice.random_range(1..12);
        let WorkerSlot { worker, proxy, .. } = &self.slots[at];
        let safe = self.server.deployment().is_safe(self.round.fault);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Worker(*worker), safe)?;
        let rule = proxy.on(When::nth(nth), action);
        let end = Instant::now() + MATCH_LIMIT;
        while rule.fired() == 0 && Instant::now() < end {
            sleep(Duration::from_millis(1));
        }
        rule.remove();
        if matches!(then, Then::Silence) {
            // The client notices by its request's time limit.
            sleep(self.round.ttl / 3);
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    fn black_hole(&mut self) -> Result<(), Error> {
        let at = self.any();
        let direction = match (self.round.fault, self.dice.random_range(0..2)) {
            (Fault::BlackHole, _) => Direction::Both,
            (_, 0) => Direction::ToServer,
            _ => Direction::ToClient,
        };
        let (length, resets) = (self.millis(100..1_500), self.dice.random_range(0..2) == 0);
        let WorkerSlot { worker, proxy, .. } = &self.slots[at];
        // If the connections are reset, the server may end sessions.
        let safe = !resets || self.server.deployment().is_safe(Fault::ConnectionKill);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Worker(*worker), safe)?;
        proxy.black_hole(direction);
        sleep(length);
        if resets {
            proxy.heal_by_reset();
        } else {
            proxy.heal();
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    fn swallow(&mut self) -> Result<(), Error> {
        let length = self.millis(100..500);
        let fault = self.recorder.fault_began(self.round.fault.name(), Target::Store, true)?;
        for slot in &self.slots {
            slot.proxy.swallow_wake_ups();
        }
        sleep(length);
        for slot in &self.slots {
            slot.proxy.heal();
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    fn strike_store(&mut self) -> Result<(), Error> {
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
            _ => self.server.end_connections()?,
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    /// Stops the workers, and returns how often the fault struck.
    pub(super) fn end(&mut self) -> Result<u64, Error> {
        for mut slot in self.slots.drain(..) {
            if let Some(mut input) = slot.input.take() {
                writeln!(input, "{STOP}")?;
            }
            finish(&self.recorder, slot.worker, &mut slot.process)?;
        }
        Ok(self.strikes)
    }

    /// Runs a last worker that takes all free permits.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        let proxy = Proxy::to(&self.server.url())?;
        let (worker, mut process, _input) = self.start(Job::Drain, &proxy)?;
        finish(&self.recorder, worker, &mut process)
    }
}

fn finish(recorder: &Recorder, worker: u32, process: &mut Process) -> Result<(), Error> {
    let status = process.wait(PROCESS_LIMIT)?;
    if status.is_none() {
        recorder.process(worker, Change::Killed)?;
        process.kill()?;
        return Err(format!("worker {worker} did not end within {PROCESS_LIMIT:?}").into());
    }
    recorder.process(worker, Change::Ended)?;
    match status.filter(|status| !status.success()) {
        Some(status) => Err(format!("worker {worker} ended with {status}").into()),
        None => Ok(()),
    }
}
