//! Wait groups, driven by their steps.

use crate::steps::StepCalls;
use stanchion_core::spi::{Acquire, Ending, Kept, Look, Looked, NO_LIMIT, Object, Release, Split};
use stanchion_core::{Kind, Name, Ticket};

use super::super::Process;
use super::{ask_many, freeing, granted, one, ttl};

/// Returns the wait group of that name.
///
/// # Panics
/// If the name is invalid.
#[must_use]
pub fn wait_group(name: &str) -> Object {
    Object { kind: Kind::WaitGroup, name: Name::new(name).expect("a name") }
}

/// Returns a request for members of a group without a limit.
#[must_use]
pub fn members(object: &Object, weight: u32) -> Acquire {
    ask_many(object, weight, NO_LIMIT)
}

/// Adds a member to a group without a limit.
pub async fn added(process: &Process, object: &Object) -> Acquire {
    let member = members(object, 1);
    granted(process, &member).await;
    member
}

/// Ends a member.
pub async fn end(process: &Process, member: &Acquire, ending: Ending) -> Kept {
    let release = Release { ending, ..freeing(member, None) };
    one(process.own.release(&[release]).await)
}

/// Returns a look at a group that also asks for `hint` at the end of a generation.
#[must_use]
pub fn watching(object: &Object, watch: Option<u64>, hint: Ticket) -> Look {
    Look { object: object.clone(), watch, hint }
}

/// Looks at a group.
pub async fn look(process: &Process, object: &Object, watch: Option<u64>) -> Looked {
    one(process.callers.look(&[watching(object, watch, Ticket::from(1))]).await)
}

/// Returns how many members finished, were abandoned, and expired.
#[must_use]
pub fn ended(looked: Looked) -> Option<(u64, u64, u64)> {
    looked.ended.map(|outcome| (outcome.finished, outcome.abandoned, outcome.expired))
}

/// Runs one generation with one member.
pub async fn generation(process: &Process, object: &Object, ending: Ending) {
    let member = added(process, object).await;
    assert_eq!(end(process, &member, ending).await, Kept::Yes);
}

/// Returns a split into as many members as the whole weighs, with leases of 30 s. For a whole of
/// [`MAX_SPLIT`](stanchion_core::spi::MAX_SPLIT) at most.
#[must_use]
pub fn split_of(whole: &Acquire) -> Split {
    split_off(whole, whole.weight)
}

/// Returns a split of `count` members off the whole, with leases of 30 s.
#[must_use]
pub fn split_off(whole: &Acquire, count: u32) -> Split {
    let into = (0..count).map(|_| Ticket::random()).collect();
    Split { object: whole.object.clone(), from: whole.ticket, into, lease: ttl(30_000) }
}
