//! Legal histories, made by sequential models of the four objects.

use std::time::Duration;

use stanchion_campaign::history::{Call, Change, Event, ObjectId, What};
use stanchion_core::limiter::Bucket;
use stanchion_core::{DecidedBy, ErrorKind, Kind, Name, Quota};

use crate::history::scribe::{BELIEF, NEMESIS, TTL, ticket, token};

/// A random generator, deterministic for each seed (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a number from 0 to `sides - 1`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

/// A simulated run of one object.
pub(crate) struct Model {
    dice: Dice,
    object: ObjectId,
    /// Whether processes die and stop, and outcomes stay unknown.
    faults: bool,
    first_worker: u32,
    now: u64,
    operations: u64,
    workers: Vec<u32>,
    pub(crate) events: Vec<Event>,
}

impl Model {
    pub(crate) fn new(kind: Kind, first_worker: u32, seed: u64, faults: bool) -> Self {
        let object = ObjectId::new(kind, Name::new(&format!("name {first_worker}")).unwrap());
        let mut model = Self {
            dice: Dice::new(seed),
            object,
            faults,
            first_worker,
            now: 1_000_000,
            operations: 0,
            workers: Vec::new(),
            events: Vec::new(),
        };
        (0..4).for_each(|_| model.start());
        model
    }

    fn start(&mut self) {
        let worker = self.first_worker + u32::try_from(self.operations).unwrap();
        self.operations += 1;
        self.process(worker, Change::Started);
        self.workers.push(worker);
    }

    fn process(&mut self, worker: u32, change: Change) {
        self.events.push(Event::new(self.now, NEMESIS, 0, 0, What::Process { worker, change }));
    }

    fn pass(&mut self, most: u64) -> u64 {
        self.now += 1 + self.dice.below(most);
        self.now
    }

    fn worker(&mut self) -> u32 {
        let count = u64::try_from(self.workers.len()).unwrap();
        self.workers[usize::try_from(self.dice.below(count)).unwrap()]
    }

    fn kill(&mut self, worker: u32) {
        self.process(worker, Change::Killed);
        self.workers.retain(|known| *known != worker);
        self.start();
    }

    fn event(&mut self, at: u64, (worker, op): (u32, u64), what: What) {
        self.events.push(Event::new(at, worker, 0, op, what).of(self.object.clone()));
    }

    fn invoke(&mut self, at: u64, call: Call, time_limit: Option<u64>) -> (u32, u64) {
        let worker = self.worker();
        self.operations += 1;
        self.event(at, (worker, self.operations), What::Invoked { call, time_limit });
        (worker, self.operations)
    }

    fn grant(&mut self, key: (u32, u64), weight: u32) {
        let what = What::Granted {
            ticket: ticket(key.1),
            token: token(self.now),
            deadline: Some(self.now + BELIEF),
            weight,
        };
        self.event(self.now, key, what);
    }

    fn release(&mut self, key: (u32, u64)) {
        self.event(self.now, key, What::Releasing { lease: None });
        if !self.dice.one_in(4) {
            let at = self.pass(50);
            self.event(at, key, What::Released);
        }
    }

    fn acquire(weight: u32, permits: Option<u32>) -> Call {
        Call::Acquire { weight, permits, ttl: Some(TTL), waits: true }
    }

    /// Adds a call that gets nothing, or whose outcome is unknown.
    fn in_vain(&mut self, call: Call) {
        let from = self.now.saturating_sub(self.dice.below(500));
        let key = self.invoke(from, call, Some(1_000));
        let at = self.pass(300);
        match self.dice.below(if self.faults { 4 } else { 2 }) {
            0 => self.event(at, key, What::Refused),
            1 => self.event(at, key, What::Cancelled),
            2 => self.event(at, key, What::Failed { error: ErrorKind::Unknown }),
            _ => self.kill(key.0),
        }
    }

    /// Runs one holder after the other; the holders write to a guarded resource.
    pub(crate) fn mutex(mut self, rounds: usize) -> Vec<Event> {
        for _ in 0..rounds {
            let asked = self.now.saturating_sub(self.dice.below(20_000));
            let key = self.invoke(asked, Self::acquire(1, None), None);
            self.pass(1_000);
            self.grant(key, 1);
            let own = token(self.now);
            for _ in 0..self.dice.below(4) {
                let began = self.now;
                self.pass(100);
                let what = What::Wrote { began, token: own, ticket: ticket(key.1), sequence: self.now };
                self.event(self.now, key, what);
                let deadline = Some(self.now + BELIEF);
                self.event(self.now, key, What::Believed { held: true, deadline });
            }
            if self.dice.one_in(3) {
                self.in_vain(Self::acquire(1, None));
            }
            self.pass(1_000);
            // One of the failed calls may have killed the holder's process.
            let dead = !self.workers.contains(&key.0);
            let fate = if self.faults { self.dice.below(8) } else { 7 };
            match fate {
                _ if dead => self.now += TTL,
                0 => {
                    self.kill(key.0);
                    self.now += TTL;
                }
                1 => {
                    self.process(key.0, Change::Stopped);
                    self.now += TTL;
                    self.process(key.0, Change::Resumed);
                    self.event(self.now, key, What::Lost);
                }
                _ => self.release(key),
            }
            self.pass(1_000);
        }
        self.events
    }

    /// Runs holders of a semaphore that is resized, and a drain at the end.
    pub(crate) fn semaphore(mut self, rounds: usize) -> Vec<Event> {
        let first = 5;
        let (mut limit, mut held) = (first, Vec::<((u32, u64), u32, u64)>::new());
        for _ in 0..rounds {
            self.pass(2_000);
            let weight = 1 + u32::try_from(self.dice.below(3)).unwrap();
            let out: u32 = held.iter().map(|one| one.1).sum();
            if out + weight <= limit {
                let asked = self.now.saturating_sub(self.dice.below(500));
                let key = self.invoke(asked, Self::acquire(weight, Some(first)), None);
                self.grant(key, weight);
                held.push((key, weight, self.now));
            }
            if self.dice.one_in(20) {
                let permits = 3 + u32::try_from(self.dice.below(5)).unwrap();
                let key = self.invoke(self.now, Call::Resize { permits }, None);
                let at = self.pass(100);
                self.event(at, key, What::Answered);
                limit = permits;
            }
            if self.dice.one_in(3) && self.faults {
                self.in_vain(Self::acquire(1, Some(first)));
            }
            self.pass(100);
            // Dead holders keep their permits until their leases end.
            held.retain(|one| self.workers.contains(&one.0.0) || self.now < one.2 + TTL + 1_000_000);
            let count = u64::try_from(held.len()).unwrap();
            if count > 0 && self.dice.one_in(2) {
                let one = held.swap_remove(usize::try_from(self.dice.below(count)).unwrap());
                if self.workers.contains(&one.0.0) {
                    self.release(one.0);
                } else {
                    held.push(one);
                }
            }
        }
        for (key, ..) in held {
            self.pass(10);
            if self.workers.contains(&key.0) {
                self.release(key);
            }
        }
        self.now += 3 * TTL;
        let key = (self.workers[0], 0);
        let what = What::Drained { began: self.now - 100, permits: limit };
        self.event(self.now, key, what);
        self.events
    }

    /// Runs members that come and go, and waits that end with the last member.
    pub(crate) fn wait_group(mut self, rounds: usize) -> Vec<Event> {
        let (mut members, mut waits) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            self.pass(2_000);
            match self.dice.below(6) {
                0..=2 if members.len() < 3 => {
                    let call = Call::Add { limit: Some(3), ttl: Some(TTL) };
                    let key = self.invoke(self.now, call, None);
                    self.pass(100);
                    self.grant(key, 1);
                    members.push(key);
                }
                3 => waits.push(self.invoke(self.now, Call::Wait, None)),
                4 => {
                    let key = self.invoke(self.now, Call::Count, Some(1_000));
                    let at = self.pass(50);
                    let count = u64::try_from(members.len()).unwrap();
                    self.event(at, key, What::Counted { count });
                }
                _ => {}
            }
            // In a run without faults, no belief lasts longer than its recorded deadline.
            while members.len() > 2 || !members.is_empty() && self.dice.one_in(3) {
                let key = members.remove(0);
                self.pass(500);
                if self.faults && self.dice.one_in(4) {
                    self.event(self.now, key, What::Lost);
                    self.now += TTL;
                } else {
                    self.event(self.now, key, What::Releasing { lease: None });
                    let at = self.pass(50);
                    self.event(at, key, What::Released);
                }
            }
            if members.is_empty() {
                for key in std::mem::take(&mut waits) {
                    self.pass(10);
                    let what = What::Waited { finished: 1, abandoned: 0, expired: 1 };
                    self.event(self.now, key, what);
                }
            }
        }
        self.events
    }

    /// Runs decisions of a bucket; some answers are lost.
    pub(crate) fn limiter(mut self, rounds: usize, exact: bool) -> Vec<Event> {
        // The store's clock is ahead of the workers' clock.
        const AHEAD: u64 = 1 << 40;
        let quota = Quota::per(7, Duration::from_millis(30)).burst(12);
        let mut bucket = Bucket::new(quota.validate().unwrap(), self.now + AHEAD);
        for _ in 0..rounds {
            let cost = 1 + self.dice.below(4);
            let key = self.invoke(self.now, Call::Take { cost, quota }, None);
            let lost = self.faults && self.dice.one_in(10);
            if lost && self.dice.one_in(2) {
                self.event(self.now + 1, key, What::Failed { error: ErrorKind::Unknown });
                continue;
            }
            let at = self.pass(8_000);
            let verdict = bucket.take(at + AHEAD, cost).unwrap();
            let ended = self.now + self.dice.below(5_000);
            let decided = What::Decided {
                allowed: verdict.allowed,
                store_time: exact.then_some(at + AHEAD),
                retry_after: verdict.retry_after,
                by: DecidedBy::Store,
            };
            self.event(ended, key, if lost { What::Cancelled } else { decided });
        }
        self.events
    }
}
