//! Faults of the worker processes.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::RngExt;

use super::super::work::{CANCEL, CROWD, Job, STOP};
use super::super::worker_view::WorkerView;
use super::{Error, FIRST, Nemesis, PROCESS_LIMIT, WorkerSlot};
use crate::history::{Change, Recorder, Target, file_name};
use stanchion_testbed::faults::{Process, Proxy};

/// The maximum time in which the crowd gathers.
const GATHER_LIMIT: Duration = Duration::from_secs(3);

impl Nemesis<'_> {
    pub(super) fn start(
        &mut self,
        job: Job,
        proxy: &Proxy,
    ) -> Result<(u32, Process, Option<ChildStdin>), Error> {
        let worker = self.next;
        self.next += 1;
        let url = self.server.worker_url(proxy);
        let work = self.round.work(self.server, job, worker, &url);
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

    /// Kills a worker, and starts another one in its slot.
    pub(super) fn replace(&mut self, at: usize) -> Result<(), Error> {
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

    /// Starts a process with many waiters, kills it, and waits until the others had the time to go
    /// on.
    pub(super) fn kill_crowd(&mut self) -> Result<(), Error> {
        let proxy = Proxy::to(&self.server.proxied_url())?;
        let (worker, mut process, _input) = self.start(Job::Crowd, &proxy)?;
        let history = self.round.folder.join(file_name(worker));
        let (mut view, end) = (WorkerView::new(), Instant::now() + GATHER_LIMIT);
        while view.waiting() < CROWD * 9 / 10 && Instant::now() < end {
            sleep(Duration::from_millis(10));
            view.look(&history);
        }
        // The last requests are on their way.
        let rest = self.millis(0..200);
        sleep(rest);
        self.recorder.process(worker, Change::Killed)?;
        process.kill()?;
        let rest = self.millis(1_000..3_000);
        sleep(rest);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<(), Error> {
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

    pub(super) fn cancel(&mut self) -> Result<(), Error> {
        let at = self.any();
        let WorkerSlot { worker, input, .. } = &mut self.slots[at];
        let fault = self.recorder.fault_began("all calls dropped", Target::Worker(*worker), true)?;
        if let Some(input) = input {
            writeln!(input, "{CANCEL}")?;
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    pub(super) fn step_clock(&mut self) -> Result<(), Error> {
        let hours = self.dice.random_range(-48..=48_i64);
        let fault = self.recorder.fault_began("the clients' clock", Target::Worker(FIRST), true)?;
        if let Some(clock) = &self.clock {
            clock.set(hours * 3_600_000_000)?;
        }
        self.recorder.fault_ended(fault)?;
        Ok(())
    }

    /// Stops the workers, and returns how often the fault struck, and what a neighbour's deeds did.
    pub(in crate::rounds) fn end(&mut self) -> Result<(u64, u64), Error> {
        for mut slot in self.slots.drain(..) {
            if let Some(mut input) = slot.input.take() {
                writeln!(input, "{STOP}")?;
            }
            finish(&self.recorder, slot.worker, &mut slot.process)?;
        }
        Ok((self.strikes, self.deeds))
    }

    /// Runs a last worker that takes all free permits.
    pub(in crate::rounds) fn drain(&mut self) -> Result<(), Error> {
        let proxy = Proxy::to(&self.server.proxied_url())?;
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
