//! Limiters: never more than burst and rate in any window (L1), and no refusal while there was
//! room.
//!
//! If the store's time of every decision is known, windows are of that time and exact. Otherwise a
//! decision lies at an unknown instant between its invocation and its answer. A window then counts
//! the decisions that lie wholly inside, and the rate is taken 1 % higher, because the store's
//! clock may run faster than this machine's.
//!
//! # Assumes
//! The history has all calls of the name from its first use, when the bucket was full. Handles are
//! made with the same quota.
//!
//! # Cannot see
//! A call without a certain outcome may or may not have been charged. It is not counted as
//! admitted. It takes room from its invocation until it has certainly arrived, and then counts as
//! charged at that late time. The same holds for a reservation that was refused later than its own
//! limit: the store may have kept its place until the caller continued. Calls that touch a `reset`,
//! a change of the quota or an unsafe fault are not counted; refusals are judged before the first
//! of these events only. Decisions of an outage policy or of the local cache are not judged. Of
//! each stretch between such events, the first excess is reported.

use stanchion_core::{DecidedBy, Quota};

use super::digest::{Dossier, RecordedCall};
use super::hold::definite_end;
use super::room;
use super::spans::{Span, Spans};
use super::surroundings::{NEVER, Surroundings};
use super::windows::{Charge, Rate, first_excess};
use super::{Bounds, Call, Event, Rule, Violation, What};

pub(super) fn check(
    dossier: &Dossier<'_>,
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    let first = dossier.calls.iter().find_map(|asked| match asked.call {
        Call::Take { quota, .. } | Call::Reserve { quota, .. } => Some(*quota),
        _ => None,
    });
    let Some(first) = first else { return };
    let exact = dossier.calls.iter().all(knows_its_time);
    let (breaks, changes) = (breaks(dossier, around), changes(dossier));
    let begun = |time| dossier.calls.partition_point(|asked| asked.invoked.at < time);
    for (index, (from, to)) in breaks.gaps((0, NEVER)).into_iter().enumerate() {
        let Some(quota) = quota_at(&changes, around, first, from) else { return };
        let asked = &dossier.calls[begun(from)..begun(to)];
        let inside: Vec<&RecordedCall<'_>> = asked.iter().filter(|asked| ended_before(asked, to)).collect();
        windows(dossier, &inside, quota, exact, found);
        if index == 0 && from == 0 {
            let open: Vec<&RecordedCall<'_>> = asked.iter().collect();
            room::check(dossier.object, &open, to, quota, exact, (around, bounds), found);
        }
    }
}

/// Returns the events that divide the history: resets, changes of the quota, unsafe faults.
fn breaks(dossier: &Dossier<'_>, around: &Surroundings) -> Spans {
    let mut breaks: Vec<Span> = around.unsafe_faults().to_vec();
    for asked in &dossier.calls {
        if let Call::SetQuota { .. } | Call::Reset = asked.call {
            breaks.push((asked.invoked.at, definite_end(asked).map_or(NEVER, |at| at.saturating_add(1))));
        }
    }
    Spans::of(breaks)
}

/// Returns the changes of the quota that certainly took effect, in the order of invocation: the
/// invocation, the latest end of this change and all before it, and the quota.
fn changes(dossier: &Dossier<'_>) -> Vec<(u64, u64, Quota)> {
    let mut changes: Vec<(u64, u64, Quota)> = Vec::new();
    for asked in &dossier.calls {
        if let (Call::SetQuota { quota }, true) = (asked.call, done(asked)) {
            let ended = asked.answered().unwrap_or(NEVER).max(changes.last().map_or(0, |change| change.1));
            changes.push((asked.invoked.at, ended, *quota));
        }
    }
    changes
}

/// Returns the quota after the break that ends at `from`; `None` if it is not certain.
fn quota_at(changes: &[(u64, u64, Quota)], around: &Surroundings, first: Quota, from: u64) -> Option<Quota> {
    let before = changes.partition_point(|change| change.0 < from);
    let Some(last) = before.checked_sub(1) else { return Some(first) };
    // Of two concurrent changes, either may have been the last. A store that lost its data takes a
    // handle's own quota again.
    let alone = last == 0 || changes[last - 1].1 < changes[last].0;
    let kept = !around.unsafe_faults().iter().any(|fault| fault.0 < from);
    (alone && kept).then_some(changes[last].2)
}

fn done(asked: &RecordedCall<'_>) -> bool {
    asked.answer.is_some_and(|answer| answer.what == What::Answered)
}

fn ended_before(asked: &RecordedCall<'_>, time: u64) -> bool {
    asked.answered().is_some_and(|at| at < time)
}

fn knows_its_time(asked: &RecordedCall<'_>) -> bool {
    if let Call::Reserve { .. } = asked.call {
        return false;
    }
    !matches!(
        asked.answer.map(|answer| &answer.what),
        Some(What::Decided { store_time: None, by: DecidedBy::Store, .. })
    )
}

/// Returns cost and store time of a call that the store certainly admitted.
fn admitted(asked: &RecordedCall<'_>) -> Option<(u64, Option<u64>)> {
    let (Call::Take { cost, .. } | Call::Reserve { cost, .. }) = asked.call else { return None };
    match asked.answer?.what {
        What::Decided { allowed: true, store_time, by: DecidedBy::Store, .. } => Some((*cost, store_time)),
        _ => None,
    }
}

fn windows(
    dossier: &Dossier<'_>,
    calls: &[&RecordedCall<'_>],
    quota: Quota,
    exact: bool,
    found: &mut Vec<Violation>,
) {
    let Some(rate) = Rate::of(quota, if exact { 100 } else { 101 }) else { return };
    let mut charges: Vec<(Charge, &RecordedCall<'_>)> = calls
        .iter()
        .filter_map(|asked| {
            let (cost, store_time) = admitted(asked)?;
            let (earliest, latest) = match store_time.filter(|_| exact) {
                Some(time) => (time, time),
                None => (asked.invoked.at, asked.answered()?.saturating_add(1)),
            };
            Some((Charge { earliest, latest, cost }, *asked))
        })
        .collect();
    charges.sort_by_key(|(charge, _)| charge.latest);
    let plain: Vec<Charge> = charges.iter().map(|(charge, _)| *charge).collect();
    if let Some(excess) = first_excess(&plain, rate) {
        let to = plain[excess.last].latest;
        let text = format!(
            "{} tokens were admitted from {} to {to} µs{}; {quota} allows {} in {} µs",
            excess.admitted,
            excess.from,
            if exact { " of store time" } else { "" },
            allowed(rate, to - excess.from),
            to - excess.from,
        );
        let first = charges.iter().find(|(charge, _)| charge.earliest == excess.from);
        let mut events: Vec<Event> = first.map(|(_, asked)| asked.events()).unwrap_or_default();
        events.extend(charges[excess.last].1.events());
        found.push(Violation::new(Rule::OverTheRate, Some(dossier.object), text, events));
    }
}

fn allowed(rate: Rate, length: u64) -> u128 {
    u128::from(rate.burst) + u128::from(rate.amount) * u128::from(length) / u128::from(rate.period)
}
