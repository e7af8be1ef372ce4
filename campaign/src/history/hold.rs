//! Holds: how long their holders believed in them, and how long the store may keep them.

use stanchion_core::{ErrorKind, FencingToken, Ticket};

use super::digest::{Dossier, RecordedCall};
use super::spans::Span;
use super::surroundings::{NEVER, Surroundings};
use super::{Bounds, Call, Event, What};

/// One grant.
#[derive(Clone, Debug)]
pub(super) struct Hold<'h> {
    pub(super) asked: &'h RecordedCall<'h>,
    /// The grant's event.
    pub(super) granted: &'h Event,
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) weight: u32,
    /// The end of the belief (exclusive); it begins with the grant.
    pub(super) until: u64,
    /// The time until which the store certainly keeps it (exclusive): the death of the process ends
    /// the belief, but not the lease.
    pub(super) live_until: u64,
}

impl Hold<'_> {
    pub(super) fn from(&self) -> u64 {
        self.granted.at
    }

    /// Returns `false` for a grant that came after its own deadline, or after an event that may
    /// have taken it away.
    pub(super) fn is_believed(&self) -> bool {
        self.from() < self.until
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.asked.call, Call::Attach { .. })
    }
}

/// Returns the holds of an object, in the order of their grants.
pub(super) fn holds<'h>(dossier: &'h Dossier<'h>, around: &Surroundings) -> Vec<Hold<'h>> {
    holds_under(around.unsafe_faults(), dossier, around)
}

/// Returns the holds as their holders believe in them, although an unsafe fault may have taken them
/// away.
pub(super) fn holds_as_believed<'h>(dossier: &'h Dossier<'h>, around: &Surroundings) -> Vec<Hold<'h>> {
    holds_under(&[], dossier, around)
}

fn holds_under<'h>(faults: &[Span], dossier: &'h Dossier<'h>, around: &Surroundings) -> Vec<Hold<'h>> {
    let ends = Takings::of(faults, dossier);
    let mut holds: Vec<Hold<'h>> =
        dossier.calls.iter().filter_map(|asked| hold(asked, &ends, around)).collect();
    holds.sort_by_key(Hold::from);
    holds
}

fn hold<'h>(asked: &'h RecordedCall<'h>, ends: &Takings, around: &Surroundings) -> Option<Hold<'h>> {
    let granted = asked.answer?;
    let What::Granted { ticket, token, weight, .. } = granted.what else { return None };
    // A recorded belief after the last recorded deadline proves a renewal that was not recorded.
    let deadline = asked.deadline.map_or(NEVER, |deadline| deadline.max(asked.held_at));
    let ended = [asked.releasing, asked.lost].into_iter().flatten().map(|event| event.at).min();
    let live_until = deadline.min(ended.unwrap_or(NEVER)).min(ends.first_after(asked.invoked.at));
    let until = live_until.min(around.alive_until(granted.worker));
    Some(Hold { asked, granted, ticket, token, weight, until, live_until })
}

/// Events that may take holds away before their holders know: forced releases and unsafe faults.
#[derive(Debug)]
struct Takings {
    /// In the order of their ends. The begin is the earliest begin of this event and of all that
    /// end later.
    by_end: Vec<Span>,
}

impl Takings {
    fn of(faults: &[Span], dossier: &Dossier<'_>) -> Self {
        let mut by_end: Vec<Span> = faults.to_vec();
        for asked in &dossier.calls {
            if let Call::Force { .. } = asked.call {
                by_end.push((asked.invoked.at, definite_end(asked).map_or(NEVER, |at| at.saturating_add(1))));
            }
        }
        by_end.sort_unstable_by_key(|span| span.1);
        let mut earliest = NEVER;
        for span in by_end.iter_mut().rev() {
            earliest = earliest.min(span.0);
            span.0 = earliest;
        }
        Self { by_end }
    }

    /// Returns the earliest time at which an event can have taken away a hold that was requested at
    /// `invoked`.
    fn first_after(&self, invoked: u64) -> u64 {
        let first = self.by_end.partition_point(|span| span.1 <= invoked);
        self.by_end.get(first).map_or(NEVER, |span| span.0)
    }
}

/// Returns the time from which on a call certainly changes nothing more; `None` if it is not known
/// to have ended.
pub(super) fn definite_end(asked: &RecordedCall<'_>) -> Option<u64> {
    let answer = asked.answer?;
    match answer.what {
        What::Cancelled => None,
        What::Failed { error } if !is_definite(error) => None,
        _ => Some(answer.at),
    }
}

/// Returns whether the error means that nothing was done.
pub(super) fn is_definite(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::Unavailable
            | ErrorKind::InvalidArgument
            | ErrorKind::ConfigMismatch
            | ErrorKind::Unauthorized
            | ErrorKind::Unsupported
            | ErrorKind::Overloaded
    )
}

/// Returns the span in which the store may keep the hold that a call got or may have got. It begins
/// with the answer. `None` if the call certainly got nothing, or has no answer yet.
pub(super) fn kept_until(asked: &RecordedCall<'_>, around: &Surroundings, bounds: &Bounds) -> Option<Span> {
    let worker = asked.invoked.worker;
    let lease = |ttl: Option<u64>| ttl.map_or(NEVER, |ttl| ttl.saturating_add(bounds.epsilon));
    let expiry = |from: u64, ttl| around.arrival(worker, from).saturating_add(lease(ttl));
    let ttl = asked.call.ttl();
    let Some(answer) = asked.answer else {
        let death = around.death(worker);
        return (death != NEVER).then(|| (death, expiry(death, ttl)));
    };
    let from = answer.at;
    match answer.what {
        What::Granted { .. } => {}
        What::Cancelled => {
            // C4: gone within 1 s while the store answers.
            let soon = from.saturating_add(bounds.recovery);
            let calm = around.undisturbed(worker, (asked.invoked.at, soon));
            let until = if calm { soon.saturating_add(bounds.epsilon) } else { expiry(from, ttl) };
            return Some((from, until.min(expiry(from, ttl))));
        }
        What::Failed { error } if !is_definite(error) => return Some((from, expiry(from, ttl))),
        _ => return None,
    }
    let mut until = around.death(worker);
    until = if until == NEVER { NEVER } else { expiry(until.max(from), ttl) };
    until = until.min(asked.lost.map_or(NEVER, |lost| expiry(lost.at, ttl)));
    if let Some(releasing) = asked.releasing {
        until = until.min(given_up(asked, releasing, &expiry));
    }
    // A process that is resumed in time still holds.
    let stops = around.stops(worker, (from, until));
    let long = stops.iter().map(|stop| (stop, expiry(stop.0, ttl))).find(|(stop, end)| stop.1 >= *end);
    until = until.min(long.map_or(NEVER, |(_, end)| end.max(from)));
    Some((from, until))
}

fn given_up(asked: &RecordedCall<'_>, releasing: &Event, expiry: &impl Fn(u64, Option<u64>) -> u64) -> u64 {
    let What::Releasing { lease } = releasing.what else { return NEVER };
    let ttl = lease.max(asked.call.ttl());
    match asked.released.map(|released| (released.at, &released.what)) {
        Some((at, What::Released)) if lease.is_none() => at,
        Some((at, What::ReleaseFailed { error: ErrorKind::Lost })) => at,
        Some((at, _)) => expiry(at, ttl),
        None => expiry(releasing.at, ttl),
    }
}
