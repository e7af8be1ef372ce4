//! Writes histories by hand.

use std::time::Duration;

use stanchion_campaign::history::{Call, Change, Event, History, ObjectId, Report, Rule, Target, What};
use stanchion_core::{DecidedBy, ErrorKind, FencingToken, Kind, Name, Quota, Ticket};

/// The lease of all holds, in µs.
pub(crate) const TTL: u64 = 1_000_000;
/// How long a holder believes in a grant without renewal, if the call was invoked at the time of
/// the grant.
pub(crate) const BELIEF: u64 = 940_000;
/// The worker that is the nemesis.
pub(crate) const NEMESIS: u32 = u32::MAX;

/// Writes events of one object, each as one line of a test.
pub(crate) struct Scribe {
    pub(crate) object: ObjectId,
    pub(crate) events: Vec<Event>,
}

impl Scribe {
    /// Creates a history in which workers 1 to 9 run from the start.
    pub(crate) fn new(kind: Kind) -> Self {
        let object = ObjectId::new(kind, Name::new("a name of 100%").unwrap());
        let mut scribe = Self { object, events: Vec::new() };
        for worker in 1..10 {
            scribe.process(0, worker, Change::Started);
        }
        scribe
    }

    pub(crate) fn process(&mut self, at: u64, worker: u32, change: Change) {
        self.events.push(Event::new(at, NEMESIS, 0, 0, What::Process { worker, change }));
    }

    pub(crate) fn fault(&mut self, from: u64, to: u64, target: Target, safe: bool) {
        let fault = u64::try_from(self.events.len()).unwrap();
        let what = What::FaultBegan { fault: "a fault".to_owned(), target, safe };
        self.events.push(Event::new(from, NEMESIS, 0, fault, what));
        self.events.push(Event::new(to, NEMESIS, 0, fault, What::FaultEnded));
    }

    /// Records that the machine was stalled until `at`.
    pub(crate) fn stood_still(&mut self, at: u64, length: u64) {
        self.events.push(Event::new(at, NEMESIS, 0, 0, What::StoodStill { length }));
    }

    /// Records an event. Operation `op` belongs to worker `op % 10`.
    pub(crate) fn event(&mut self, at: u64, op: u64, what: What) {
        let worker = u32::try_from(op % 10).unwrap();
        self.events.push(Event::new(at, worker, 0, op, what).of(self.object.clone()));
    }

    pub(crate) fn invoked(&mut self, at: u64, op: u64, call: Call) {
        self.event(at, op, What::Invoked { call, time_limit: None });
    }

    pub(crate) fn acquire(&mut self, at: u64, op: u64) {
        self.acquire_of(at, op, 1, None);
    }

    pub(crate) fn acquire_of(&mut self, at: u64, op: u64, weight: u32, permits: Option<u32>) {
        self.invoked(at, op, Call::Acquire { weight, permits, ttl: Some(TTL), waits: true });
    }

    pub(crate) fn granted(&mut self, at: u64, op: u64, token: u64) {
        self.granted_of(at, op, token, 1);
    }

    pub(crate) fn granted_of(&mut self, at: u64, op: u64, token: u64, weight: u32) {
        let deadline = Some(at + BELIEF);
        self.event(at, op, What::Granted { ticket: ticket(op), token: self::token(token), deadline, weight });
    }

    pub(crate) fn released(&mut self, from: u64, to: u64, op: u64) {
        self.event(from, op, What::Releasing { lease: None });
        self.event(to, op, What::Released);
    }

    /// Records a hold from its invocation to its release.
    pub(crate) fn held(&mut self, op: u64, token: u64, times: [u64; 4]) {
        self.acquire(times[0], op);
        self.granted(times[1], op, token);
        self.released(times[2], times[3], op);
    }

    pub(crate) fn failed(&mut self, at: u64, op: u64, error: ErrorKind) {
        self.event(at, op, What::Failed { error });
    }

    pub(crate) fn wrote(&mut self, began: u64, at: u64, op: u64, token: u64, sequence: u64) {
        let what = What::Wrote { began, token: self::token(token), ticket: ticket(op), sequence };
        self.event(at, op, what);
    }

    pub(crate) fn write_refused(&mut self, began: u64, at: u64, op: u64, token: u64) {
        self.event(at, op, What::WriteRefused { began, token: self::token(token), ticket: ticket(op) });
    }

    /// Records a call of a limiter, with or without the store's time.
    pub(crate) fn took(
        &mut self,
        op: u64,
        cost: u64,
        (from, to): (u64, u64),
        store_time: Option<u64>,
        allowed: bool,
    ) {
        self.invoked(from, op, Call::Take { cost, quota: quota() });
        let retry_after = (!allowed).then_some(1);
        self.event(to, op, What::Decided { allowed, store_time, retry_after, by: DecidedBy::Store });
    }

    pub(crate) fn report(&self) -> Report {
        let report = History::of(self.events.clone()).check();
        // The events of every test must also survive the line format.
        for event in &self.events {
            assert_eq!(event.to_string().parse(), Ok(event.clone()));
        }
        report
    }

    /// Asserts that no violation is found.
    pub(crate) fn is_right(&self) {
        let report = self.report();
        assert!(report.is_clean(), "{report}");
    }

    /// Asserts that exactly these rules are admitted as broken, under a fault of this history.
    #[track_caller]
    pub(crate) fn admits(&self, rules: &[Rule]) {
        let report = self.report();
        let found: Vec<Rule> = report.admitted.iter().map(|violation| violation.rule).collect();
        assert_eq!(found, rules, "{report}");
        assert!(report.admitted.iter().all(|violation| violation.under == ["a fault"]), "{report}");
        assert!(report.violations.iter().all(|violation| violation.under.is_empty()), "{report}");
    }

    /// Asserts that exactly these breaches are found.
    #[track_caller]
    pub(crate) fn breaks(&self, rules: &[Rule]) {
        let report = self.report();
        let found: Vec<Rule> = report.violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(found, rules, "{report}");
        assert!(report.violations.iter().all(|violation| !violation.events.is_empty()), "{report}");
    }
}

/// Returns a quota of ten a second with a burst of ten.
pub(crate) fn quota() -> Quota {
    Quota::per(10, Duration::from_secs(1))
}

pub(crate) fn ticket(op: u64) -> Ticket {
    Ticket::from(u128::from(op))
}

pub(crate) fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}
