//! Guarded resources: they take writes in the order of the tokens (M9).
//!
//! # Assumes
//! Each object guards one resource, which raises a sequence number with each write that it takes,
//! and returns it.
//!
//! # Cannot see
//! Writes whose outcome their writer does not know, unless a later write shows it. A refusal is
//! judged only if the writer believed from before the write until after it, and no larger token is
//! known to have been granted before.

use std::collections::{HashMap, HashSet};

use stanchion_core::FencingToken;

use super::digest::Dossier;
use super::hold::Hold;
use super::{Event, Rule, Violation, What};

/// Checks the writes. `holds` are in the order of their grants.
pub(super) fn check(dossier: &Dossier<'_>, holds: &[Hold<'_>], found: &mut Vec<Violation>) {
    if dossier.writes.is_empty() {
        return;
    }
    order(dossier, holds, found);
    refusals(dossier, holds, found);
}

fn order(dossier: &Dossier<'_>, holds: &[Hold<'_>], found: &mut Vec<Violation>) {
    let attached: HashSet<FencingToken> =
        holds.iter().filter(|hold| hold.is_attached()).map(|hold| hold.token).collect();
    let mut taken: Vec<_> = dossier
        .writes
        .iter()
        .filter_map(|(_, event)| match event.what {
            What::Wrote { token, ticket, sequence, .. } => Some((sequence, token, ticket, *event)),
            _ => None,
        })
        .collect();
    taken.sort_by_key(|write| write.0);
    let Some(mut largest) = taken.first().copied() else { return };
    for pair in taken.windows(2) {
        let (before, write) = (pair[0], pair[1]);
        let text = if before.0 == write.0 {
            "two writes have the same place in the order of the resource"
        } else if write.1 < largest.1 {
            "the resource took a write with a smaller token after one with a larger"
        } else if write.1 == largest.1 && write.2 != largest.2 && !attached.contains(&write.1) {
            "the resource took writes with the same token from two tickets"
        } else {
            largest = write;
            continue;
        };
        let events = vec![largest.3.clone(), write.3.clone()];
        found.push(Violation::new(Rule::StaleWriteTaken, Some(dossier.object), text.to_owned(), events));
    }
}

fn refusals(dossier: &Dossier<'_>, holds: &[Hold<'_>], found: &mut Vec<Violation>) {
    let by_call: HashMap<(u32, u64), &Hold<'_>> =
        holds.iter().map(|hold| ((hold.granted.worker, hold.granted.operation), hold)).collect();
    let mut largest: Vec<FencingToken> = Vec::with_capacity(holds.len());
    for hold in holds {
        largest.push(largest.last().map_or(hold.token, |before| hold.token.max(*before)));
    }
    for (index, event) in &dossier.writes {
        let What::WriteRefused { began, token, ticket } = event.what else { continue };
        let asked = &dossier.calls[*index];
        let Some(hold) = by_call.get(&(asked.invoked.worker, asked.invoked.operation)) else { continue };
        let own = (token, ticket) == (hold.token, hold.ticket);
        let before = holds.partition_point(|other| other.from() <= event.at);
        let newest = before.checked_sub(1).is_none_or(|last| largest[last] <= token);
        // An attached hold may write once the resource knows its ticket; that time is not recorded.
        if own && newest && !hold.is_attached() && hold.from() <= began && event.at < hold.until {
            let text = "the resource refused a write of the holder with the largest token, which believed all the time";
            let events: Vec<Event> = hold.asked.events().into_iter().chain([(*event).clone()]).collect();
            found.push(Violation::new(
                Rule::RightfulWriteRefused,
                Some(dossier.object),
                text.to_owned(),
                events,
            ));
        }
    }
}
