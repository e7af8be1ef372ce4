//! How members of wait groups come and go, over a model of a store with faults to order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::engine::Engine;
use stanchion_core::{ErrorKind, Member, Outcome, Ticket, Ttl, WaitGroup, WaitGroupOptions};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(3);
/// Within this time a store that is back is used, and what is given up is gone.
const SOON: Duration = Duration::from_secs(1).saturating_add(EPSILON);

fn group(engine: &Engine) -> Arc<dyn WaitGroup> {
    engine.wait_group("g", WaitGroupOptions::default().ttl(TTL)).unwrap()
}

fn counted(outcome: Outcome) -> (u64, u64, u64) {
    (outcome.finished, outcome.abandoned, outcome.expired)
}

fn next_call(model: &Model) -> u64 {
    model.faults.calls.load(SeqCst) + 1
}

/// Waits until so many members are there and nobody queues.
async fn left(model: &Model, members: usize) {
    let seen = async {
        while model.left() != (members, 0) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, seen).await.unwrap_or_else(|_| panic!("not {members} but {:?}", model.left()));
}

#[tokio::test]
async fn c2_lost_replies_add_and_end_each_member_once() {
    let (model, engine) = model();
    let group = group(&engine);
    // Of the acquisition, and of the split.
    for lost in 0..2 {
        model.faults.lose_reply.store(next_call(&model) + lost, SeqCst);
        let members = group.add_many(3).await.unwrap();
        assert_eq!((members.len(), group.count().await.unwrap()), (3, 3));
        let inspection = group.inspect().await.unwrap();
        let known =
            |member: &Member| inspection.holders.iter().any(|holder| holder.ticket == Some(member.ticket()));
        assert!(members.iter().all(known));
        assert_eq!(inspection.limit, None);
        for member in members {
            model.faults.lose_reply.store(next_call(&model), SeqCst);
            member.done().await.unwrap();
        }
        assert_eq!(counted(group.wait().await.unwrap()), (3, 0, 0));
    }
}

#[tokio::test]
async fn w2_w8_done_by_ticket_is_answered_as_the_first_when_it_is_sent_again() {
    let (model, engine) = model();
    let (group, other) = (group(&engine), group(&engine));
    let member = group.add().await.unwrap();
    model.faults.lose_reply.store(next_call(&model), SeqCst);
    other.done(member.ticket()).await.unwrap();
    for ticket in [member.ticket(), Ticket::random()] {
        model.faults.lose_reply.store(next_call(&model), SeqCst);
        let error = other.done(ticket).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "not by this call");
    }
    timeout(TTL / 3 + EPSILON, member.lost()).await.expect("its guard is told");
    assert_eq!(counted(group.wait().await.unwrap()), (1, 0, 0));
    drop(member);
    model.faults.away.store(true, SeqCst);
    assert_eq!(other.done(Ticket::random()).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn c4_a_dropped_add_leaves_no_member_and_counts_none() {
    let (model, engine) = model();
    let group = group(&engine);
    group.add().await.unwrap().done().await.unwrap();
    // Longer each time, until a call ends before it is dropped.
    for polls in 0.. {
        model.faults.delay_ms.store(8, SeqCst);
        let members = drop_after(polls, group.add_many(3)).await;
        let ended = members.is_some();
        drop(members);
        model.faults.delay_ms.store(0, SeqCst);
        left(&model, 0).await;
        let outcome = counted(group.wait().await.unwrap());
        if ended {
            assert_eq!(outcome, (0, 3, 0));
            return;
        }
        assert_eq!(outcome, (1, 0, 0), "cancelled calls are none");
    }
}

#[tokio::test]
async fn c27_many_members_are_split_off_in_parts() {
    let (model, engine) = model();
    let members = group(&engine).add_many(1_201).await.unwrap();
    assert_eq!((members.len(), model.left()), (1_201, (1_201, 0)));
}

#[tokio::test]
async fn c17_add_many_begins_again_where_its_hold_ended_before_the_split() {
    // Its end is the scenario; a third of it is the time limit of a request.
    const SHORT: Duration = Duration::from_millis(1_500);
    let (model, engine) = model();
    let group = engine.wait_group("g", WaitGroupOptions::default().ttl(SHORT)).unwrap();
    model.faults.delay_ms.store(400, SeqCst);
    let adding = {
        let group = Arc::clone(&group);
        tokio::spawn(async move { group.add_many(3).await })
    };
    sleep(Duration::from_millis(300)).await;
    model.faults.away.store(true, SeqCst);
    model.faults.delay_ms.store(0, SeqCst);
    sleep(SHORT * 2).await;
    assert_eq!(model.left(), (0, 0));
    model.faults.away.store(false, SeqCst);
    let members = timeout(SOON, adding).await.expect("works within 1 s").unwrap().unwrap();
    assert_eq!((members.len(), model.left()), (3, (3, 0)));
    assert!(members.iter().all(Member::is_held));
}

#[tokio::test]
async fn c24_w4_a_dropped_attach_abandons_the_member() {
    let (model, engine) = model();
    let group = group(&engine);
    // Longer each time, until an attach ends before it is dropped.
    for polls in 0.. {
        let detached = group.add().await.unwrap().detach(Ttl::new(TTL * 5).unwrap()).await.unwrap();
        model.faults.delay_ms.store(8, SeqCst);
        let attached = drop_after(polls, group.attach(&detached)).await;
        model.faults.delay_ms.store(0, SeqCst);
        if let Some(member) = attached {
            member.unwrap().done().await.unwrap();
            assert_eq!(counted(group.wait().await.unwrap()), (1, 0, 0));
            return;
        }
        // The member is still the detached one, or it was taken over and has to be given up.
        let expected = match group.done(detached.ticket()).await {
            Ok(()) => (1, 0, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                left(&model, 0).await;
                (0, 1, 0)
            }
        };
        assert_eq!(counted(group.wait().await.unwrap()), expected);
    }
}

#[tokio::test]
async fn c20_no_limit_is_told_in_words() {
    let (_model, engine) = model();
    let unlimited = group(&engine);
    let member = unlimited.add().await.unwrap();
    assert_eq!(unlimited.inspect().await.unwrap().limit, None);
    let limited = engine.wait_group("g", WaitGroupOptions::default().limit(7)).unwrap();
    let error = limited.add().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("the limit of members given is 7, the store's is none"), "{error}");
    assert_eq!(limited.add_many(8).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(member);
}
