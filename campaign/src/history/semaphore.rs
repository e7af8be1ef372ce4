//! Semaphores: never more permits than the limit (S1, S6), and no permit lost in the end (S4).
//!
//! All permits that are believed in at one instant were out when the store granted the last of
//! them. That was between the last one's invocation and its grant. So their sum is at most the
//! largest limit that was possible between the latest invocation among them and that instant.
//!
//! # Assumes
//! The history has all holders and all resizes, and handles are made with the same limit before the
//! first resize.
//!
//! # Cannot see
//! Grants above a lowered limit, if the call had been waiting since before the limit was lowered. A
//! drain that finds too few permits is judged only if no permit can be out any more: every hold is
//! released or its lease is over.

use std::collections::BinaryHeap;

use super::digest::{Dossier, RecordedCall};
use super::hold::{Hold, definite_end, kept_until};
use super::surroundings::{NEVER, Surroundings};
use super::{Bounds, Call, Event, Rule, Violation, What};

/// Checks the holds. `holds` are in the order of their grants.
pub(super) fn check(
    dossier: &Dossier<'_>,
    holds: &[Hold<'_>],
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    let Some(limits) = Limits::of(dossier, around) else { return };
    sweep(dossier, holds, &limits, found);
    drains(dossier, &limits, around, bounds, found);
}

/// Checks the holds as their holders believe in them, without the drains.
pub(super) fn check_beliefs(
    dossier: &Dossier<'_>,
    holds: &[Hold<'_>],
    around: &Surroundings,
    found: &mut Vec<Violation>,
) {
    if let Some(limits) = Limits::of(dossier, around) {
        sweep(dossier, holds, &limits, found);
    }
}

fn sweep(dossier: &Dossier<'_>, holds: &[Hold<'_>], limits: &Limits, found: &mut Vec<Violation>) {
    let mut believed: Vec<&Hold<'_>> = holds.iter().filter(|hold| hold.is_believed()).collect();
    let mut ends: Vec<(u64, u64)> =
        believed.iter().map(|hold| (hold.until, u64::from(hold.weight))).collect();
    ends.sort_unstable();
    believed.sort_by_key(|hold| hold.from());
    let (mut out, mut over) = (0, ends.iter().peekable());
    let mut invocations = BinaryHeap::new();
    for hold in believed {
        let now = hold.from();
        while let Some((_, weight)) = over.next_if(|end| end.0 <= now) {
            out -= weight;
        }
        out += u64::from(hold.weight);
        invocations.push((hold.asked.invoked.at, hold.until));
        while invocations.peek().is_some_and(|(_, until)| *until <= now) {
            invocations.pop();
        }
        let since = invocations.peek().map_or(now, |(invoked, _)| *invoked);
        let limit = limits.largest(since, now);
        if out > limit {
            let text = format!(
                "{out} permits were believed in at {now}, the limit was at most {limit} since {since}"
            );
            found.push(Violation::new(Rule::OverTheLimit, Some(dossier.object), text, hold.asked.events()));
        }
    }
}

fn drains(
    dossier: &Dossier<'_>,
    limits: &Limits,
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    for event in &dossier.drains {
        let What::Drained { began, permits } = event.what else { continue };
        let permits = u64::from(permits);
        let possible: Vec<u64> = limits.possible(began, event.at).collect();
        let largest = possible.iter().copied().max().unwrap_or(0);
        if possible.contains(&permits) {
            continue;
        }
        let out = |asked: &&RecordedCall<'_>| may_be_out(asked, began, around, bounds);
        if permits < largest && dossier.calls.iter().any(|asked| out(&asked)) {
            continue;
        }
        let text = format!("{permits} permits could be taken in the end, the limit was {largest}");
        found.push(Violation::new(Rule::NotConserved, Some(dossier.object), text, vec![(*event).clone()]));
    }
}

fn may_be_out(asked: &RecordedCall<'_>, began: u64, around: &Surroundings, bounds: &Bounds) -> bool {
    let takes = matches!(asked.call, Call::Acquire { .. } | Call::Attach { .. });
    if !takes || asked.invoked.at >= began {
        return false;
    }
    match kept_until(asked, around, bounds) {
        Some((_, until)) => until > began,
        None => asked.answered().is_none_or(|at| at > began),
    }
}

/// The limits that may have been in force, each with its span.
#[derive(Debug)]
struct Limits {
    /// Begin, end and limit, in the order of the begins.
    all: Vec<(u64, u64, u64)>,
    /// For each limit, the latest end of it and all before it.
    latest: Vec<u64>,
}

impl Limits {
    /// Collects the limits; `None` if no call has a limit.
    fn of(dossier: &Dossier<'_>, around: &Surroundings) -> Option<Self> {
        let first = dossier.calls.iter().find_map(|asked| match asked.call {
            Call::Acquire { permits: Some(permits), .. } if may_have_done(asked) => Some(*permits),
            _ => None,
        })?;
        let resizes: Vec<(&RecordedCall<'_>, u32)> = dossier
            .calls
            .iter()
            .filter_map(|asked| match asked.call {
                Call::Resize { permits } if may_have_done(asked) => Some((asked, *permits)),
                _ => None,
            })
            .collect();
        // For each resize, the earliest end among it and all later ones that certainly took effect.
        let mut over = vec![NEVER; resizes.len() + 1];
        for (index, (asked, _)) in resizes.iter().enumerate().rev() {
            let done =
                asked.answer.filter(|answer| answer.what == What::Answered).map_or(NEVER, |answer| answer.at);
            over[index] = over[index + 1].min(done);
        }
        let replaced = |end: u64| {
            // A store that has lost data may have any of these limits again.
            if end == NEVER || !around.unsafe_faults().is_empty() {
                return NEVER;
            }
            over[resizes.partition_point(|(asked, _)| asked.invoked.at < end)].saturating_add(1)
        };
        let mut all = vec![(0, replaced(0), u64::from(first))];
        for (asked, permits) in &resizes {
            let end = definite_end(asked).unwrap_or(NEVER);
            all.push((asked.invoked.at, replaced(end), u64::from(*permits)));
        }
        let mut latest = Vec::with_capacity(all.len());
        for (_, end, _) in &all {
            latest.push(latest.last().copied().unwrap_or(0).max(*end));
        }
        Some(Self { all, latest })
    }

    /// Returns the limits that may have been in force at some instant of the span, both ends
    /// included.
    fn possible(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let first = self.latest.partition_point(|end| *end <= from);
        let begun = self.all[first..].iter().take_while(move |limit| limit.0 <= to);
        begun.filter(move |limit| limit.1 > from).map(|limit| limit.2)
    }

    fn largest(&self, from: u64, to: u64) -> u64 {
        self.possible(from, to).max().unwrap_or(0)
    }
}

/// Returns whether the call was not certainly refused.
fn may_have_done(asked: &RecordedCall<'_>) -> bool {
    let answer: Option<&Event> = asked.answer;
    answer.is_none_or(|answer| match answer.what {
        What::Refused => matches!(asked.call, Call::Acquire { .. }),
        What::Failed { .. } => definite_end(asked).is_none(),
        _ => true,
    })
}
