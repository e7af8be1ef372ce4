//! Liveness: no call waits long for an object that is not held, and calls keep their time limits.
//!
//! A name is idle while no hold of it is kept. No holder believes, and the store cannot still have
//! a hold that was given up without an answer, dropped, cancelled or left by a dead or stopped
//! process (TTL + ε, C8). While the name is idle and the store has worked for 1 s (C18), a waiting
//! call is granted within 2 s + ε (C5). For each other waiter that may be silent (stopped, cut
//! off), and for each dead process, the store may take one more TTL + ε to notice (M7): of a dead
//! process only a request on its way can still be granted. For a wait group, the holds are its
//! members, and the waiting calls are `wait`. No time counts while the machine itself is stalled,
//! nor that of a call with a time limit while its process got no processor.
//!
//! # Assumes
//! The same as the checkers of holds. A process that was recorded as started lives until the record
//! of its end.
//!
//! # Cannot see
//! A lost wake-up of one semaphore waiter while others hold; a wait that is too long although the
//! name changed hands; an `add` that waits for a wait group's limit.

use std::collections::HashMap;

use super::digest::{Dossier, RecordedCall};
use super::hold::kept_until;
use super::spans::{Crowd, Span, Spans};
use super::surroundings::{NEVER, Surroundings};
use super::{Bounds, Call, Rule, Violation, What};

pub(super) fn check(
    dossier: &Dossier<'_>,
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    limits(dossier, around, bounds, found);
    stuck(dossier, around, bounds, found);
}

fn limits(dossier: &Dossier<'_>, around: &Surroundings, bounds: &Bounds, found: &mut Vec<Violation>) {
    for asked in &dossier.calls {
        let Some(limit) = asked.time_limit else { continue };
        let (worker, from) = (asked.invoked.worker, asked.invoked.at);
        let to = asked.answered().unwrap_or(around.end()).min(around.death(worker).max(from));
        let stopped = !around.stops(worker, (from, to)).is_empty();
        let allowed =
            limit.saturating_add(bounds.epsilon).saturating_add(around.stood_still(worker, (from, to)));
        if to - from > allowed && !stopped {
            let ended = if asked.answer.is_some() { "has taken" } else { "has not ended after" };
            let text = format!("a call with a time limit of {limit} µs {ended} {} µs", to - from);
            found.push(Violation::new(Rule::TooLate, Some(dossier.object), text, asked.events()));
        }
    }
}

fn stuck(dossier: &Dossier<'_>, around: &Surroundings, bounds: &Bounds, found: &mut Vec<Violation>) {
    let bound = bounds.silence.saturating_add(bounds.epsilon);
    let kept = Spans::of(
        dossier
            .calls
            .iter()
            .filter_map(|asked| cover(asked, around, bounds))
            .chain(
                around.store_faults().iter().map(|fault| (fault.0, fault.1.saturating_add(bounds.recovery))),
            )
            .collect(),
    );
    let idle: Vec<Span> = kept
        .gaps((0, around.end().saturating_add(1)))
        .into_iter()
        .filter(|gap| gap.1 - gap.0 > bound)
        .collect();
    if idle.is_empty() {
        return;
    }
    let lease = dossier.calls.iter().filter_map(|asked| asked.call.ttl()).max().unwrap_or(0);
    let term = lease.saturating_add(bounds.epsilon);
    let silent = Crowd::of(&silent(dossier, around, term));
    let mut reported = 0;
    for asked in dossier.calls.iter().filter(|asked| waits(asked)) {
        for piece in heard(asked, around, bounds) {
            let first = idle.partition_point(|gap| gap.1 <= piece.0);
            for gap in idle[first..].iter().take_while(|gap| gap.0 < piece.1) {
                let (from, to) = (gap.0.max(piece.0), gap.1.min(piece.1));
                let dead = u64::try_from(silent.in_part_of((from, to))).unwrap_or(NEVER);
                let allowed = bound.saturating_add(term.saturating_mul(dead));
                if to - from > allowed && gap.1 > reported {
                    reported = gap.1;
                    let text = format!(
                        "nothing was held and the store was well from {from} to {to}, {} µs, and this call waited; \
                         with {dead} silent waiters {allowed} µs are allowed",
                        to - from,
                    );
                    found.push(Violation::new(Rule::Stuck, Some(dossier.object), text, asked.events()));
                }
            }
        }
    }
}

/// Returns the span in which a call kept its name from others, or may have.
fn cover(asked: &RecordedCall<'_>, around: &Surroundings, bounds: &Bounds) -> Option<Span> {
    let kept = kept_until(asked, around, bounds);
    match asked.call {
        Call::Acquire { .. } | Call::Attach { .. } => kept,
        // A member may be live before its caller has the answer.
        Call::Add { .. } => {
            let until = kept.map(|kept| kept.1).or(asked.answered()).unwrap_or(NEVER);
            Some((asked.invoked.at, until))
        }
        _ => None,
    }
}

fn waits(asked: &RecordedCall<'_>) -> bool {
    matches!(asked.call, Call::Acquire { waits: true, .. } | Call::Wait)
}

/// Returns the span in which a call waited.
fn waiting(asked: &RecordedCall<'_>, around: &Surroundings) -> Span {
    let from = asked.invoked.at;
    let to = asked.answered().unwrap_or(around.end()).min(around.death(asked.invoked.worker));
    (from, to.max(from))
}

/// Returns the parts of a call's wait in which the store certainly could hear it.
fn heard(asked: &RecordedCall<'_>, around: &Surroundings, bounds: &Bounds) -> Vec<Span> {
    let all = waiting(asked, around);
    let silence = around.silence(asked.invoked.worker, (all.0.saturating_sub(bounds.recovery), all.1));
    let recovered = silence.into_iter().map(|span| (span.0, span.1.saturating_add(bounds.recovery)));
    Spans::of(recovered.collect()).gaps(all)
}

/// Returns the spans in which a silent waiter may stand in front of others: while it is silent, and
/// one term longer.
fn silent(dossier: &Dossier<'_>, around: &Surroundings, term: u64) -> Vec<Span> {
    let (mut silent, mut dead) = (Vec::new(), HashMap::<_, u64>::new());
    for asked in dossier.calls.iter().filter(|asked| !matches!(asked.call, Call::Wait)) {
        let (worker, all) = (asked.invoked.worker, waiting(asked, around));
        let mut parts = around.silence(worker, (all.0, all.1.saturating_add(1)));
        if asked.answer.is_none() && around.death(worker) != NEVER {
            let latest = dead.entry(worker).or_default();
            *latest = (*latest).max(all.1);
        }
        if matches!(asked.answer.map(|answer| &answer.what), Some(What::Cancelled)) {
            parts.retain(|part| part.1 > all.1);
        }
        silent.extend(
            parts.into_iter().map(|part| (part.0, around.arrival(worker, part.1).saturating_add(term))),
        );
    }
    silent.extend(
        dead.into_iter().map(|(worker, at)| (at, around.arrival(worker, at + 1).saturating_add(term))),
    );
    silent
}
