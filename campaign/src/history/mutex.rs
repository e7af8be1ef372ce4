//! Mutexes: one holder at a time (M1).
//!
//! A holder believes from its grant up to the earliest of: the begin of its release, its last
//! renewed deadline, a loss that it saw, the death of its process. Stopping a process does not end
//! a belief; its deadline does. No two beliefs of a name overlap, their tokens grow, and the
//! guarded resource takes writes in the order of the tokens.
//!
//! # Assumes
//! The history has all holders of the name. Clocks are read on the side of the call that
//! [`What`](super::What) says, so a recorded belief is never longer than the real one.
//!
//! # Cannot see
//! Beliefs after a renewal that was not recorded; beliefs of a process that was killed before it
//! recorded its grant. A hold that was requested before the end of a forced release or an unsafe
//! fault counts as taken away when that event began. If the event has no definite end, no later
//! hold is judged either. A violation that only an unsafe fault excuses is reported separately, as
//! admitted.

use super::hold::Hold;
use super::{Event, ObjectId, Rule, Violation};

/// Checks the holds. `holds` are in the order of their grants.
pub(super) fn check(object: &ObjectId, holds: &[Hold<'_>], found: &mut Vec<Violation>) {
    let mut last: Option<&Hold<'_>> = None;
    for hold in holds.iter().filter(|hold| hold.is_believed()) {
        if let Some(earlier) = last.filter(|earlier| earlier.until > hold.from()) {
            let common = earlier.until.min(hold.until) - hold.from();
            let text = format!(
                "worker {} (op {}) and worker {} (op {}) both believed to hold it for {common} µs from {} on",
                earlier.granted.worker,
                earlier.granted.operation,
                hold.granted.worker,
                hold.granted.operation,
                hold.from(),
            );
            let events: Vec<Event> = [earlier.asked.events(), hold.asked.events()].concat();
            found.push(Violation::new(Rule::TwoHolders, Some(object), text, events));
        }
        if last.is_none_or(|earlier| earlier.until < hold.until) {
            last = Some(hold);
        }
    }
}
