//! Fencing tokens grow (M2), tickets are unique (C1).
//!
//! # Assumes
//! The history has all grants of the name, except grants whose process was killed before it could
//! record them.
//!
//! # Cannot see
//! The order in which the store granted concurrent calls, if one of them was never believed or the
//! object is a semaphore. An attached hold keeps its token, so the order of attaches is not judged.

use std::collections::HashMap;

use super::hold::Hold;
use super::{Event, ObjectId, Rule, Violation};

/// Checks the tokens. `holds` are in the order of their grants.
pub(super) fn check(object: &ObjectId, holds: &[Hold<'_>], exclusive: bool, found: &mut Vec<Violation>) {
    let own: Vec<&Hold<'_>> = holds.iter().filter(|hold| !hold.is_attached()).collect();
    let violation = |rule, text: &str, first: &Hold<'_>, second: &Hold<'_>| {
        let events: Vec<Event> =
            vec![first.granted.clone(), second.asked.invoked.clone(), second.granted.clone()];
        Violation::new(rule, Some(object), text.to_owned(), events)
    };
    let mut tickets = HashMap::new();
    for hold in holds {
        if let Some(first) = tickets.insert(hold.ticket, hold) {
            found.push(violation(Rule::SameTicket, "two grants have the same ticket", first, hold));
        }
    }
    let mut tokens = HashMap::new();
    for hold in &own {
        if let Some(first) = tokens.insert(hold.token, *hold) {
            found.push(violation(Rule::TokenOrder, "two grants have the same token", first, hold));
        }
    }
    // A call that was invoked after another one's grant was granted after it.
    let mut by_invocation = own.clone();
    by_invocation.sort_by_key(|hold| hold.asked.invoked.at);
    let (mut granted, mut largest) = (own.iter().peekable(), None::<&Hold<'_>>);
    for hold in by_invocation {
        while let Some(earlier) = granted.next_if(|earlier| earlier.from() < hold.asked.invoked.at) {
            largest = largest.filter(|largest| largest.token >= earlier.token).or(Some(earlier));
        }
        if let Some(largest) = largest.filter(|largest| largest.token > hold.token) {
            let text = "a grant that was asked for after another one was given has a smaller token";
            found.push(violation(Rule::TokenOrder, text, largest, hold));
        }
    }
    if !exclusive {
        return;
    }
    // Beliefs that cannot overlap follow one another in the order of the store's decisions.
    let mut largest = None::<&Hold<'_>>;
    for hold in own.into_iter().filter(|hold| hold.is_believed()) {
        match largest {
            Some(earlier) if earlier.token > hold.token => {
                // The rule above has reported it already.
                if earlier.from() >= hold.asked.invoked.at && earlier.from() < hold.from() {
                    let text = "a later holder has a smaller token";
                    found.push(violation(Rule::TokenOrder, text, earlier, hold));
                }
            }
            _ => largest = Some(hold),
        }
    }
}
