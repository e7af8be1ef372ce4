//! Mutexes: one holder at a time (M1).
//!
//! A holder believes from its grant up to the earliest of: the begin of its release, its deadline as renewed last, a
//! loss that it saw, the death of its process. That a process is stopped ends no belief; its deadline does. No two
//! beliefs of a name have an instant in common; their tokens grow, and the guarded resource keeps to them.
//!
//! # Assumes
//! The history has all holders of the name. Clocks are read on the side of the call that [`What`](super::What) says, so
//! a belief that is written down is never longer than the belief.
//!
//! # Cannot see
//! Beliefs after a renewal that nobody has recorded; beliefs of a process that was killed before it wrote its grant.
//! What was asked for before a forced release or an unsafe fault was over counts as taken away when that began; if it
//! has no definite end, nothing later is judged either. What is excused in that way by an unsafe fault, and by nothing
//! else, is reported apart, as admitted.

use super::hold::Hold;
use super::{Event, ObjectId, Rule, Violation};

/// `holds` in the order of their grants.
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
