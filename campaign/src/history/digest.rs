//! A history sorted by object and operation, in one pass.

use std::collections::HashMap;

use super::surroundings::Surroundings;
use super::{Call, Event, ObjectId, Rule, Violation, What};

/// One call, with its answer and its later events.
#[derive(Clone, Debug)]
pub(super) struct RecordedCall<'h> {
    pub(super) invoked: &'h Event,
    pub(super) call: &'h Call,
    pub(super) time_limit: Option<u64>,
    pub(super) answer: Option<&'h Event>,
    /// The latest deadline that was recorded.
    pub(super) deadline: Option<u64>,
    /// The last time at which its holder certainly believed in it.
    pub(super) held_at: u64,
    /// The first event by which its holder no longer believed in it.
    pub(super) lost: Option<&'h Event>,
    pub(super) releasing: Option<&'h Event>,
    pub(super) released: Option<&'h Event>,
}

/// All events of one object.
#[derive(Clone, Debug)]
pub(super) struct Dossier<'h> {
    pub(super) object: &'h ObjectId,
    /// In the order of invocation.
    pub(super) calls: Vec<RecordedCall<'h>>,
    /// Guarded writes, with the index of their call.
    pub(super) writes: Vec<(usize, &'h Event)>,
    /// The counts of free permits at the end.
    pub(super) drains: Vec<&'h Event>,
}

/// The whole history, by object.
#[derive(Debug, Default)]
pub(super) struct Digest<'h> {
    /// In the order of the objects' first events.
    pub(super) dossiers: Vec<Dossier<'h>>,
    pub(super) around: Surroundings,
    /// Impossible events, whatever the store did: the history itself is wrong.
    pub(super) violations: Vec<Violation>,
}

impl<'h> Digest<'h> {
    pub(super) fn of(events: &'h [Event]) -> Self {
        let mut digest = Self { around: Surroundings::of(events), ..Self::default() };
        let mut objects: HashMap<&ObjectId, usize> = HashMap::new();
        let mut calls: HashMap<(u32, u64), (usize, usize)> = HashMap::new();
        for event in events {
            match &event.what {
                What::Process { .. }
                | What::FaultBegan { .. }
                | What::FaultEnded
                | What::StoodStill { .. } => continue,
                _ => {}
            }
            let Some(object) = &event.object else {
                digest.broken("it names no object", &[event]);
                continue;
            };
            let key = (event.worker, event.operation);
            match &event.what {
                What::Invoked { call, time_limit } => {
                    let at = digest.dossier(&mut objects, object);
                    let dossier = &mut digest.dossiers[at];
                    let before = calls.insert(key, (at, dossier.calls.len()));
                    dossier.calls.push(RecordedCall::new(event, call, *time_limit));
                    if let Some((at, index)) = before {
                        let first = digest.dossiers[at].calls[index].invoked;
                        digest.broken("its operation was begun twice", &[first, event]);
                    }
                }
                What::Drained { .. } => {
                    let at = digest.dossier(&mut objects, object);
                    digest.dossiers[at].drains.push(event);
                }
                _ => match calls.get(&key) {
                    Some(&(at, index)) => digest.add(at, index, event),
                    None => digest.broken("its operation was never begun", &[event]),
                },
            }
        }
        digest
    }

    fn dossier(&mut self, objects: &mut HashMap<&'h ObjectId, usize>, object: &'h ObjectId) -> usize {
        *objects.entry(object).or_insert_with(|| {
            self.dossiers.push(Dossier { object, calls: Vec::new(), writes: Vec::new(), drains: Vec::new() });
            self.dossiers.len() - 1
        })
    }

    fn add(&mut self, at: usize, index: usize, event: &'h Event) {
        let dossier = &mut self.dossiers[at];
        let asked = &mut dossier.calls[index];
        let (answered, granted, releasing) =
            (asked.answer.is_some(), asked.is_granted(), asked.releasing.is_some());
        let fits = match &event.what {
            What::Releasing { .. } => granted && !releasing,
            What::Released | What::ReleaseFailed { .. } => releasing && asked.released.is_none(),
            What::Renewed { .. } | What::Believed { .. } | What::Lost => granted,
            What::Wrote { .. } | What::WriteRefused { .. } => granted,
            _ => !answered,
        };
        if event.object.as_ref() != Some(dossier.object) || !fits {
            let first = asked.invoked;
            return self
                .broken("it does not follow from what its operation has recorded before", &[first, event]);
        }
        match &event.what {
            What::Releasing { .. } => asked.releasing = Some(event),
            What::Released | What::ReleaseFailed { .. } => asked.released = Some(event),
            What::Renewed { deadline } => asked.deadline = asked.deadline.max(Some(*deadline)),
            What::Believed { held: true, .. } => {
                asked.held_at = event.at;
                self.check_belief(at, index, event);
            }
            What::Believed { .. } | What::Lost => asked.lost = asked.lost.or(Some(event)),
            What::Wrote { .. } | What::WriteRefused { .. } => dossier.writes.push((index, event)),
            what => {
                if let What::Granted { deadline, .. } = what {
                    asked.deadline = *deadline;
                }
                asked.answer = Some(event);
            }
        }
    }

    /// C10: a hold is not believed from its deadline on, and never again after `is_held` was false.
    fn check_belief(&mut self, at: usize, index: usize, event: &'h Event) {
        // The clock and the deadline are readings of one clock through different calls.
        const GRAIN: u64 = 100;
        let (object, asked) = (self.dossiers[at].object, &self.dossiers[at].calls[index]);
        let text = match event.what {
            What::Believed { deadline: Some(deadline), .. } if event.at >= deadline.saturating_add(GRAIN) => {
                format!("`is_held` was true {} µs after the deadline", event.at - deadline)
            }
            // Another task may call `is_held` between this task's reading of the clock and its own
            // `is_held`.
            _ => match asked.lost {
                Some(lost) if lost.what == What::Lost || lost.task == event.task => {
                    "`is_held` was true after it had been false, or after a loss".to_owned()
                }
                _ => return,
            },
        };
        let events = asked.answer.into_iter().chain([event]).cloned().collect();
        self.violations.push(Violation::new(Rule::BelievedTooLong, Some(object), text, events));
    }

    fn broken(&mut self, text: &str, events: &[&Event]) {
        let object = events.last().and_then(|event| event.object.as_ref());
        let events = events.iter().copied().cloned().collect();
        self.violations.push(Violation::new(Rule::BrokenRecord, object, text.to_owned(), events));
    }
}

impl<'h> RecordedCall<'h> {
    fn new(invoked: &'h Event, call: &'h Call, time_limit: Option<u64>) -> Self {
        Self {
            invoked,
            call,
            time_limit,
            answer: None,
            deadline: None,
            held_at: 0,
            lost: None,
            releasing: None,
            released: None,
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.answer.is_some_and(|answer| matches!(answer.what, What::Granted { .. }))
    }

    /// Returns the time of the answer.
    pub(super) fn answered(&self) -> Option<u64> {
        self.answer.map(|answer| answer.at)
    }

    /// Returns the invocation and the events after it, for a violation.
    pub(super) fn events(&self) -> Vec<Event> {
        let all = [Some(self.invoked), self.answer, self.releasing, self.released];
        all.into_iter().flatten().cloned().collect()
    }
}
