//! Joining and leaving.

use std::collections::BTreeSet;
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{ErrorKind, HoldOptions, Member, Ticket};

use super::{client, default_group};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, Cut, EPSILON, POLL_FLOOR, QUEUED, TICK, belief, definite, drop_after, eventually, join_all,
    kind_of, lease_of, leased, long_ttl, now, on_bare_thread, pause, spawn, unique, unrenewed, within,
};

pub(crate) async fn c1_members_have_their_own_tickets(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let mut members = group.add_many(50).await.expect("add");
    members.push(other.add().await.expect("add"));
    let state = group.inspect().await.expect("inspect");
    assert_eq!(state.holders.len(), 51);
    let mut held: Vec<_> = members.iter().map(|member| Some(member.ticket())).collect();
    let mut seen: Vec<_> = state.holders.iter().map(|holder| holder.ticket).collect();
    held.sort_unstable();
    seen.sort_unstable();
    assert_eq!(held, seen, "the store knows the members by their tickets");
    held.dedup();
    assert_eq!(held.len(), 51);
    assert!(state.holders.iter().all(|holder| holder.weight == 1));
}

pub(crate) async fn w2_done_counts_once(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let kept = group.add().await.expect("add");
    assert_eq!(kind_of(group.done(Ticket::random()).await), Some(ErrorKind::Lost), "an unknown member");
    assert_eq!(group.count().await.expect("count"), 1);
    let member = group.add().await.expect("add");
    other.done(member.ticket()).await.expect("the first done");
    for group in [&group, &other] {
        assert_eq!(kind_of(group.done(member.ticket()).await), Some(ErrorKind::Lost), "a finished member");
    }
    assert_eq!(kind_of(member.done().await), Some(ErrorKind::Lost), "a finished member");
    assert_eq!(group.count().await.expect("count"), 1, "never one too few");
    kept.done().await.expect("done");
    let outcome = group.wait().await.expect("wait");
    assert_eq!((outcome.finished, outcome.abandoned), (2, 0), "each once");
    assert_eq!(kind_of(group.done(Ticket::random()).await), Some(ErrorKind::Lost), "never below zero");
    assert_eq!(group.count().await.expect("count"), 0);
}

/// C9, W4: a member that is lost is told so by `done`, and the group does not count it as finished.
pub(crate) async fn c9_w4_done_after_the_deadline_is_lost_and_not_finished(h: &dyn Harness) {
    let (name, ttl) = (unique("group"), long_ttl(h));
    let group = client(h, &name, None, unrenewed(ttl)).await;
    for _ in 0..3 {
        let member = group.add().await.expect("add");
        member.lost().await;
        // The store still has it: its lease ends a little later.
        assert_eq!(kind_of(member.done().await), Some(ErrorKind::Lost), "a lost member stays lost");
        let outcome = within(ttl + POLL_FLOOR + EPSILON, "it ends", group.wait()).await.expect("wait");
        assert_eq!(outcome.finished, 0, "no silent success");
        assert_eq!(outcome.abandoned + outcome.expired, 1, "it is told");
    }
}

/// C11, W2: a member that expired is gone, and its late `done` ends no other member.
pub(crate) async fn c11_w2_a_late_done_is_lost(h: &dyn Harness) {
    let ttl = h.ttl();
    let name = unique("group");
    let group = default_group(h, &name).await;
    // It is live first: the late one alone would end its generation.
    let kept = group.add().await.expect("add");
    let asked = now();
    let late = client(h, &name, None, unrenewed(ttl)).await.add().await.expect("add");
    let was_late = asked.elapsed() >= ttl / 3;
    within(belief(ttl) + EPSILON, "lost() at D", late.lost()).await;
    assert!(!late.is_held());
    pause(EPSILON).await;
    assert_eq!(kind_of(group.done(late.ticket()).await), Some(ErrorKind::Lost));
    assert_eq!(kind_of(late.done().await), Some(ErrorKind::Lost));
    assert_eq!(group.count().await.expect("count"), 1);
    kept.done().await.expect("done");
    let outcome = group.wait().await.expect("wait");
    // After a late answer the call asked again, and the member of its first request expired, too.
    let expired = if was_late { outcome.expired.max(1) } else { 1 };
    assert_eq!((outcome.finished, outcome.expired, outcome.abandoned), (1, expired, 0));
}

pub(crate) async fn c12_a_dropped_member_is_abandoned(h: &dyn Harness) {
    let group = default_group(h, &unique("group")).await;
    let member = group.add().await.expect("add");
    drop(group.add().await.expect("add"));
    on_bare_thread(move || drop(member)).expect("no panic without a runtime");
    let outcome = within(QUEUED, "the queued ends", group.wait()).await.expect("wait");
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (0, 2, 0));
}

/// C9, C13: members are renewed like guards.
pub(crate) async fn c9_c13_a_live_member_is_renewed(h: &dyn Harness) {
    let ttl = long_ttl(h);
    let name = unique("group");
    let member = client(h, &name, None, leased(ttl)).await.add().await.expect("add");
    let other = default_group(h, &name).await;
    tokio::select! {
        () = member.lost() => panic!("lost while its renewals succeed"),
        ended = definite(|| other.wait_for(ttl * 2)) => assert!(ended.expect("wait").is_none(), "a member is live"),
    }
    assert!(member.is_held());
    member.done().await.expect("held to the end");
}

pub(crate) async fn w8_done_by_ticket_from_another_client(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let member = group.add().await.expect("add");
    let ticket: Ticket = member.ticket().to_string().parse().expect("a printed ticket parses");
    let waiter = Arc::clone(&group);
    let waiting = spawn(async move { waiter.wait().await.expect("wait") });
    other.done(ticket).await.expect("done");
    let outcome = within(POLL_FLOOR + EPSILON, "zero", waiting.join()).await;
    assert_eq!((outcome.finished, outcome.abandoned), (1, 0));
    drop(member);
    pause(EPSILON).await;
    let outcome = group.wait().await.expect("wait");
    assert_eq!((outcome.finished, outcome.abandoned), (1, 0), "it ended once");
}

pub(crate) async fn c27_a_call_adds_ten_thousand_members_at_most(h: &dyn Harness) {
    let group = default_group(h, &unique("group")).await;
    assert_eq!(kind_of(group.add_many(10_001).await), Some(ErrorKind::InvalidArgument));
    assert_eq!(group.count().await.expect("count"), 0);
}

pub(crate) async fn c27_many_members_are_added_in_parts(h: &dyn Harness) {
    let group = default_group(h, &unique("group")).await;
    let members = group.add_many(1_201).await.expect("added");
    let tickets: BTreeSet<_> = members.iter().map(Member::ticket).collect();
    assert_eq!((members.len(), tickets.len()), (1_201, 1_201));
    assert_eq!(group.count().await.expect("count"), 1_201);
    assert!(members.iter().all(Member::is_held));
    let ending = members.into_iter().map(|member| spawn(async { member.done().await.expect("ended") }));
    join_all(ending.collect()).await;
    let outcome = group.wait().await.expect("zero");
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (1_201, 0, 0));
}

pub(crate) async fn c24_w8_attach_takes_a_member_over(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let member = group.add().await.expect("add");
    let token = member.fencing_token();
    let detached = member.detach(lease_of(Duration::from_secs(20))).await.expect("detach");
    assert_eq!(other.count().await.expect("count"), 1, "a detached member is live");
    let attached = other.attach(&detached).await.expect("attach");
    assert_ne!(attached.ticket(), detached.ticket(), "the ticket is a new one");
    assert_eq!(attached.fencing_token(), token, "the token is kept");
    assert_eq!(kind_of(group.attach(&detached).await), Some(ErrorKind::Lost), "the first wins");
    assert_eq!(
        kind_of(group.done(detached.ticket()).await),
        Some(ErrorKind::Lost),
        "the old ticket is spent"
    );
    assert!(group.wait_for(Duration::ZERO).await.expect("wait").is_none());
    attached.done().await.expect("done");
    let outcome = group.wait().await.expect("wait");
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (1, 0, 0));
}

/// C24: a detached member expires if no process attaches it or finishes it by its ticket.
pub(crate) async fn c24_w4_a_detached_member_ends(h: &dyn Harness) {
    let lease = h.ttl() * 2;
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    let lasting = lease_of(Duration::from_secs(20));
    let finished = group.add().await.expect("add").detach(lasting).await.expect("detach");
    other.done(finished.ticket()).await.expect("done by its ticket");
    let keep = group.add().await.expect("add");
    let before = now();
    let forgotten = keep.detach(lease_of(lease)).await.expect("detach");
    let outcome = within(lease + POLL_FLOOR + EPSILON, "the detached lease ends", other.wait()).await;
    assert!(now() + TICK >= before + lease);
    assert_eq!(outcome.expect("wait").expired, 1);
    assert_eq!(kind_of(other.attach(&forgotten).await), Some(ErrorKind::Lost));
}

/// C4: a dropped add leaves no member, at whatever poll it is dropped.
pub(crate) async fn c4_dropped_add_leaves_nothing(h: &dyn Harness) {
    let name = unique("group");
    let (group, other) = (default_group(h, &name).await, default_group(h, &name).await);
    for polls in 0..24 {
        let ended = match drop_after(polls, group.add_many(3)).await {
            Cut::Ended(members) => {
                for member in members.expect("add") {
                    member.done().await.expect("done");
                }
                true
            }
            Cut::Dropped | Cut::Waiting => false,
        };
        // A dropped request may still reach a networked store after the first answer, until its
        // cancel does.
        eventually(CANCELLED, "nothing is left behind", || async {
            let state = other.inspect().await.expect("inspect");
            let count = other.count().await.expect("count");
            state.holders.is_empty() && state.waiters == 0 && count == 0
        })
        .await;
        if ended {
            return;
        }
    }
    panic!("an add without a limit ends");
}

pub(crate) async fn c23_inspect_tells_the_members(h: &dyn Harness) {
    let ttl = Duration::from_secs(20);
    let mut options = unrenewed(ttl);
    options.label = Some("worker 7".into());
    let name = unique("group");
    let group = client(h, &name, Some(5), options).await;
    let member = group.add().await.expect("add");
    let state = client(h, &name, Some(5), HoldOptions::default()).await.inspect().await.expect("inspect");
    assert_eq!((state.holders.len(), state.waiters, state.limit), (1, 0, Some(5)));
    let holder = &state.holders[0];
    assert_eq!((holder.ticket, holder.token), (Some(member.ticket()), Some(member.fencing_token())));
    assert_eq!(holder.label.as_deref(), Some("worker 7"));
    assert!(holder.lease_left.is_some_and(|left| left <= ttl));
    forget(client(h, &name, Some(5), unrenewed(h.ttl())).await.add().await.expect("add"));
    pause(h.ttl() + TICK).await;
    assert_eq!(group.inspect().await.expect("inspect").holders.len(), 1, "expired members do not count");
    assert_eq!(group.count().await.expect("count"), 1, "expired members do not count");
    member.done().await.expect("done");
}

/// M2: every member has a token larger than those of all earlier members of its group.
pub(crate) async fn m2_member_tokens_grow(h: &dyn Harness) {
    let name = unique("group");
    let groups = [default_group(h, &name).await, default_group(h, &name).await];
    let mut largest = None;
    for round in 0..10 {
        let member = groups[round % 2].add().await.expect("add");
        assert!(Some(member.fencing_token()) > largest);
        largest = Some(member.fencing_token());
        member.done().await.expect("done");
    }
}
