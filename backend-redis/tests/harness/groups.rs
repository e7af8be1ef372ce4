//! Wait groups, driven by their steps.

use stanchion_core::engine::steps::{
    Acquire, Ending, GroupSteps, Kept, Look, Looked, NO_LIMIT, Object, PermitSteps, Release, Split,
};
use stanchion_core::{Kind, Name, Ticket};
use stanchion_redis::StepsOfStore;

use super::{ask_many, freeing, granted, one, ttl};

pub(crate) fn wait_group(name: &str) -> Object {
    Object { kind: Kind::WaitGroup, name: Name::new(name).expect("a name") }
}

/// A request for members of a group without a limit.
pub(crate) fn members(object: &Object, weight: u32) -> Acquire {
    ask_many(object, weight, NO_LIMIT)
}

pub(crate) async fn added(process: &StepsOfStore, object: &Object) -> Acquire {
    let member = members(object, 1);
    granted(process, &member).await;
    member
}

pub(crate) async fn end(process: &StepsOfStore, member: &Acquire, ending: Ending) -> Kept {
    let release = Release { ending, ..freeing(member, None) };
    one(process.own.release(&[release]).await)
}

pub(crate) fn watching(object: &Object, watch: Option<u64>, hint: Ticket) -> Look {
    Look { object: object.clone(), watch, hint }
}

pub(crate) async fn look(process: &StepsOfStore, object: &Object, watch: Option<u64>) -> Looked {
    one(process.callers.look(&[watching(object, watch, Ticket::from(1))]).await)
}

/// Finished, abandoned, expired.
pub(crate) fn ended(looked: Looked) -> Option<(u64, u64, u64)> {
    looked.ended.map(|outcome| (outcome.finished, outcome.abandoned, outcome.expired))
}

/// One generation with one member.
pub(crate) async fn generation(process: &StepsOfStore, object: &Object, ending: Ending) {
    let member = added(process, object).await;
    assert_eq!(end(process, &member, ending).await, Kept::Yes);
}

/// Into as many as it weighs, with leases of 5 s.
pub(crate) fn split_of(whole: &Acquire) -> Split {
    let into = (0..whole.weight).map(|_| Ticket::random()).collect();
    Split { object: whole.object.clone(), from: whole.ticket, into, lease: ttl(5_000) }
}
