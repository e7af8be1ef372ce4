//! The surroundings of the calls: processes and faults.

use std::borrow::Cow;
use std::collections::HashMap;

use super::spans::{Span, Spans};
use super::{Change, Event, ObjectId, Target, What};

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// The length in µs from which on a stall of the machine counts as a fault of the store, too. Calls
/// are allowed the time of shorter ones as well.
const FAULT: u64 = 100_000;

#[derive(Clone, Debug, Default)]
struct Process {
    started: bool,
    last_event: u64,
    dead: Option<u64>,
    /// It has ended by itself, at an unknown time after its last event.
    ended: bool,
    stopped_at: Option<u64>,
    stops: Vec<Span>,
    /// Faults of the process's connection to the store.
    cuts: Vec<Span>,
    /// When the process, or the whole machine, was stalled.
    still: Vec<Span>,
    stalls: Spans,
    /// `stops` and `cuts`: the store may not hear the process.
    silent: Spans,
    /// `cuts` and the store's faults: the process's requests may arrive later.
    held_up: Spans,
}

/// Processes and faults of a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    processes: HashMap<u32, Process>,
    /// The spans of the store's faults.
    store: Spans,
    /// The spans of the faults that concern one object each.
    objects: HashMap<ObjectId, Vec<Span>>,
    /// Unsafe faults, including those of one worker: they concern every caller.
    unsafe_faults: Vec<Span>,
    /// The begin of each unsafe fault, and its description.
    unsafe_names: Vec<(u64, String)>,
    /// The times at which faults began, including kills and stops of processes.
    faults: Vec<u64>,
    killed: usize,
    stopped: usize,
    end: u64,
}

impl Surroundings {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut all = Self { end: events.last().map_or(0, |event| event.at), ..Self::default() };
        let mut open: HashMap<(u32, u64), (&Event, Target, bool)> = HashMap::new();
        let (mut store, mut still) = (Vec::new(), Vec::new());
        for event in events {
            all.processes.entry(event.worker).or_default().last_event = event.at;
            match &event.what {
                What::Process { worker, change } => all.change(*worker, *change, event.at),
                What::FaultBegan { fault, target, safe } => {
                    all.faults.push(event.at);
                    if !safe {
                        all.unsafe_names.push((event.at, fault.clone()));
                    }
                    open.insert((event.worker, event.operation), (event, *target, *safe));
                }
                What::FaultEnded => {
                    if let Some((began, target, safe)) = open.remove(&(event.worker, event.operation)) {
                        all.fault(began, event.at.saturating_add(1), target, safe, &mut store);
                    }
                }
                What::StoodStill { length } => {
                    let span = (event.at.saturating_sub(*length), event.at.saturating_add(1));
                    // A worker tells its own stalls, any other process those of the machine.
                    match all.processes.get_mut(&event.worker) {
                        Some(worker) if worker.started => worker.still.push(span),
                        _ => still.push(span),
                    }
                }
                _ => {}
            }
        }
        // The store runs on the same machine.
        store.extend(still.iter().filter(|stall| stall.1 - stall.0 >= FAULT));
        for (began, target, safe) in open.into_values() {
            all.fault(began, NEVER, target, safe, &mut store);
        }
        for process in all.processes.values_mut() {
            process.stops.extend(process.stopped_at.map(|at| (at, NEVER)));
            process.stalls = Spans::of([process.still.clone(), still.clone()].concat());
            process.silent = Spans::of([process.stops.clone(), process.cuts.clone()].concat());
            process.held_up = Spans::of([process.cuts.clone(), store.clone()].concat());
        }
        all.store = Spans::of(store);
        all
    }

    fn change(&mut self, worker: u32, change: Change, at: u64) {
        let process = self.processes.entry(worker).or_default();
        match change {
            Change::Started => process.started = true,
            Change::Killed => {
                process.dead.get_or_insert(at);
                self.killed += 1;
                self.faults.push(at);
            }
            Change::Ended => {
                process.ended |= process.dead.is_none();
                process.dead.get_or_insert(at);
            }
            Change::Stopped => {
                process.stopped_at.get_or_insert(at);
                self.stopped += 1;
                self.faults.push(at);
            }
            Change::Resumed => {
                process.stops.extend(process.stopped_at.take().map(|from| (from, at.saturating_add(1))));
            }
        }
    }

    fn fault(&mut self, began: &Event, end: u64, target: Target, safe: bool, store: &mut Vec<Span>) {
        let span = (began.at, end);
        if !safe {
            self.unsafe_faults.push(span);
        }
        match target {
            Target::Store => store.push(span),
            Target::Worker(worker) => self.processes.entry(worker).or_default().cuts.push(span),
            Target::Object => {
                if let Some(object) = &began.object {
                    self.objects.entry(object.clone()).or_default().push(span);
                }
            }
        }
    }

    /// Returns the surroundings of one object's calls: a fault that concerns it is one of the
    /// store.
    pub(super) fn of_object(&self, object: &ObjectId) -> Cow<'_, Self> {
        let Some(own) = self.objects.get(object) else { return Cow::Borrowed(self) };
        let mut all = self.clone();
        all.store = all.store.and(own);
        for process in all.processes.values_mut() {
            process.held_up = process.held_up.and(own);
        }
        Cow::Owned(all)
    }

    /// Returns the spans of the faults that concern other objects.
    pub(super) fn elsewhere(&self, object: &ObjectId) -> Spans {
        let others = self.objects.iter().filter(|(other, _)| *other != object);
        Spans::of(others.flat_map(|(_, spans)| spans).copied().collect())
    }

    /// Returns the time of the last event, in µs.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the time from which on a process certainly does nothing more; [`NEVER`] for a
    /// process that lived on. Missing events prove nothing: a process that was started is alive
    /// until an event ends it.
    pub(super) fn death(&self, worker: u32) -> u64 {
        match self.processes.get(&worker) {
            Some(Process { dead: Some(at), .. }) => *at,
            Some(Process { started: true, .. }) => NEVER,
            Some(process) => process.last_event,
            None => 0,
        }
    }

    /// Returns the time up to which a process certainly ran, apart from stops.
    pub(super) fn alive_until(&self, worker: u32) -> u64 {
        match self.processes.get(&worker) {
            Some(process) if process.ended => process.last_event,
            _ => self.death(worker),
        }
    }

    /// Returns the stops of a process that overlap the span, both ends included.
    pub(super) fn stops(&self, worker: u32, (from, to): Span) -> &[Span] {
        let stops = self.processes.get(&worker).map_or(&[][..], |process| &process.stops);
        let first = stops.partition_point(|stop| stop.1 <= from);
        let count = stops[first..].partition_point(|stop| stop.0 <= to);
        &stops[first..first + count]
    }

    /// Returns the spans in which the store may not hear a living process: stopped or cut off.
    pub(super) fn silence(&self, worker: u32, span: Span) -> Vec<Span> {
        self.processes.get(&worker).map(|process| process.silent.within(span).collect()).unwrap_or_default()
    }

    /// Returns the latest time at which the store may execute a request that a process sent up to
    /// `sent`.
    pub(super) fn arrival(&self, worker: u32, sent: u64) -> u64 {
        // A request sent just before a fault may still be in flight when the fault begins.
        const UNDER_WAY: u64 = 500_000;
        let Some(process) = self.processes.get(&worker) else { return sent };
        let faults = process.held_up.within((sent, sent.saturating_add(UNDER_WAY)));
        faults.map(|fault| fault.1).last().unwrap_or(sent)
    }

    /// Returns whether a process could reach the store during the whole span.
    pub(super) fn undisturbed(&self, worker: u32, span: Span) -> bool {
        self.death(worker) >= span.1
            && self.silence(worker, span).is_empty()
            && self.store.within(span).next().is_none()
    }

    /// Returns for how much of a span a process, or the whole machine, was stalled.
    pub(super) fn stood_still(&self, worker: u32, (from, to): Span) -> u64 {
        let stalls = self.processes.get(&worker).map(|process| process.stalls.within((from, to)));
        stalls.into_iter().flatten().map(|still| still.1.min(to) - still.0.max(from)).sum()
    }

    /// Returns the faults of the store.
    pub(super) fn store_faults(&self) -> &Spans {
        &self.store
    }

    /// Returns the unsafe faults.
    pub(super) fn unsafe_faults(&self) -> &[Span] {
        &self.unsafe_faults
    }

    /// Returns the descriptions of the unsafe faults that began before that time.
    pub(super) fn unsafe_names(&self, before: u64) -> Vec<String> {
        let begun = self.unsafe_names.iter().filter(|(began, _)| *began < before);
        begun.map(|(_, name)| name.clone()).collect()
    }

    /// Returns the begins of all faults in order, the number of kills and the number of stops.
    pub(super) fn faults(&self) -> (&[u64], usize, usize) {
        (&self.faults, self.killed, self.stopped)
    }
}
