//! The nemesis: injects faults into the processes, the connections and the server of a round.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

mod links;
mod neighbour;
mod processes;
mod store;

use std::process::{ChildStdin, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::server_monitor::ServerMonitor;
use super::stall_monitor::StallMonitor;
use super::work::Job;
use super::worker_view::WorkerView;
use super::{CampaignServer, Fault, Round};
use crate::history::{Recorder, What, file_name};
use stanchion_testbed::faults::{Clock, Process, Proxy};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The worker number of the nemesis in the history, and the number of the first worker.
const NEMESIS: u32 = 0;
const FIRST: u32 = 1;
/// The time limit for workers to start, and to end.
const PROCESS_LIMIT: Duration = Duration::from_secs(60);

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
    /// What a neighbour's deeds did so far.
    deeds: u64,
    _stalls: StallMonitor,
    _slowness: Option<ServerMonitor>,
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
        let of_stalls = recorder.task();
        // Without these lines the checkers are only stricter.
        let stalls = StallMonitor::start(move |end, length| {
            of_stalls.record_at(end, 0, None, What::StoodStill { length })
        });
        // Only there a call of a name must be answered in time while another name has a fault.
        let of_slowness = recorder.task();
        let spared = server.postgres().filter(|_| round.fault.spares_names());
        let slowness = spared.map(|postgres| {
            ServerMonitor::start(postgres.url(), move |end, length| {
                of_slowness.record_at(end, 0, None, What::StoodStill { length })
            })
        });
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
            deeds: 0,
            _stalls: stalls,
            _slowness: slowness.transpose()?,
        })
    }

    /// Starts the workers, and waits until each has its first grant.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        for _ in 0..self.round.workers {
            let proxy = Proxy::to(&self.server.proxied_url())?;
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
            Fault::CrowdKill => self.kill_crowd()?,
            Fault::HolderPause => self.stop()?,
            Fault::TaskCancel => self.cancel()?,
            Fault::ClientClockStep => self.step_clock()?,
            Fault::ReplyDrop | Fault::RequestDrop | Fault::CutMidFrame => self.lose()?,
            Fault::BlackHole | Fault::OneWayBlackHole => self.black_hole()?,
            Fault::WakeUpsDropped => self.swallow()?,
            Fault::NeighbourScript => self.keep_busy()?,
            Fault::RowsLocked
            | Fault::OldSnapshot
            | Fault::NotifyQueueFull
            | Fault::ReadOnlySwitch
            | Fault::StatementCancel
            | Fault::BackendTerminate
            | Fault::TableLocked => self.strike_as_neighbour()?,
            Fault::StoreStall
            | Fault::StoreCrash
            | Fault::ConnectionKill
            | Fault::ConnectionStorm
            | Fault::ServerClockStep
            | Fault::NodeStall
            | Fault::SlotMove => self.strike_store()?,
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
}
