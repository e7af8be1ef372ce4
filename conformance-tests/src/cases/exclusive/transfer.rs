//! Transfers of holds: detach and attach.

use std::time::Duration;

use stanchion_core::{Detached, ErrorKind, Fenced, HoldOptions, Ticket, Ttl};

use super::super::lock_fixture::{LockFixture, LockKind};
use crate::harness::Harness;
use crate::support::{
    CANCELLED, EPSILON, TICK, belief, kind_of, lease_of, leased, long_ttl, now, pause, spawn, unrenewed,
    within,
};

/// The lease of a detached hold.
fn lease() -> Ttl {
    lease_of(Duration::from_secs(20))
}

pub(crate) async fn c24_attach_takes_the_hold_over(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let from = fixture.client(HoldOptions::default()).await;
    let to = fixture.client(HoldOptions::default()).await;
    let guard = from.lock().await.expect("lock");
    let (old, token) = (guard.ticket(), guard.fencing_token());
    let detached = guard.detach(lease()).await.expect("detach");
    // It is passed on as text.
    let detached: Detached = detached.to_string().parse().expect("what is printed can be parsed");
    let attached = to.attach(&detached).await.expect("attach");
    assert_eq!(attached.fencing_token(), token, "the token is kept (M2)");
    assert_ne!(attached.ticket(), old, "the ticket is a new one");
    assert!(attached.is_held());
    let state = from.inspect().await.expect("inspect");
    assert_eq!(
        state.holders.iter().map(|holder| holder.ticket).collect::<Vec<_>>(),
        [Some(attached.ticket())]
    );
    assert_eq!(state.holders[0].token, Some(token));
    attached.release().await.expect("the hold is the new guard's");
    assert!(from.try_lock().await.expect("a definite answer").is_some());
}

/// C24: no other caller is granted at any time during the transfer.
pub(crate) async fn c24_exclusion_is_unbroken(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let intruder = fixture.client(HoldOptions::default()).await;
    let prober = intruder.clone();
    let mut guard = clients[0].lock().await.expect("lock");
    let probing = spawn(async move {
        loop {
            assert!(prober.try_lock().await.expect("a definite answer").is_none(), "somebody got in between");
            pause(Duration::from_micros(200)).await;
        }
    });
    let waiting = spawn(async move { intruder.lock().await.map(|guard| guard.fencing_token()) });
    let (token, resource) = (guard.fencing_token(), Fenced::new(()));
    for round in 1..=20 {
        resource.write(&guard, |()| ()).expect("the holder writes");
        let detached = guard.detach(lease()).await.expect("detach");
        guard = clients[round % 2].attach(&detached).await.expect("attach");
        resource.hand_over(&guard).expect("the write right follows");
        assert!(!probing.is_finished() && !waiting.is_finished(), "exclusion is broken");
    }
    probing.cancel().await;
    guard.release().await.expect("release");
    let next = within(Duration::from_secs(2), "the waiter's turn", waiting.join()).await.expect("lock");
    assert!(next > token);
}

pub(crate) async fn c24_the_second_attach_is_lost(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    for round in 0..5 {
        let guard = clients[0].lock().await.expect("lock");
        let detached = guard.detach(lease()).await.expect("detach");
        let (one, two) = tokio::join!(clients[0].attach(&detached), clients[1].attach(&detached));
        let winner = match (one, two) {
            (Ok(guard), Err(error)) | (Err(error), Ok(guard)) => {
                assert_eq!(error.kind(), ErrorKind::Lost);
                guard
            }
            both => panic!("one wins: {both:?}"),
        };
        let late = clients[round % 2].attach(&detached).await;
        assert_eq!(kind_of(late), Some(ErrorKind::Lost));
        assert!(winner.is_held());
        winner.release().await.expect("the winner's");
        let gone = clients[1].attach(&detached).await;
        assert_eq!(kind_of(gone), Some(ErrorKind::Lost), "nothing is left to take over");
    }
    let detached = clients[0].lock().await.expect("lock").detach(lease()).await.expect("detach");
    let unheard = clients[0].attach(&detached.with_ticket(Ticket::detached())).await;
    assert_eq!(kind_of(unheard), Some(ErrorKind::Lost));
}

pub(crate) async fn c24_a_detached_hold_expires_by_its_lease(h: &dyn Harness, kind: LockKind) {
    let lease = h.ttl() * 2;
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    let other = fixture.client(HoldOptions::default()).await;
    let guard = lock.lock().await.expect("lock");
    let before = now();
    let detached = guard.detach(lease_of(lease)).await.expect("detach");
    let next = within(lease + EPSILON, "the detached lease ends", other.lock()).await.expect("lock");
    assert!(now() + TICK >= before + lease, "freed {:?} early", before + lease - now());
    assert_eq!(kind_of(lock.attach(&detached).await), Some(ErrorKind::Lost));
    next.release().await.expect("an attach that lost harms nobody");
}

/// C24: a detached hold is not renewed; an attached hold is renewed again.
pub(crate) async fn c24_an_attached_hold_is_renewed(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let renewed = fixture.lease(long_ttl(h));
    let from = fixture.client(leased(renewed)).await;
    let to = fixture.client(leased(renewed)).await;
    let detached = from.lock().await.expect("lock").detach(lease()).await.expect("detach");
    let before = now();
    let attached = to.attach(&detached).await.expect("attach");
    if let Some(deadline) = attached.renewed_deadline() {
        assert!(before + belief(renewed) <= deadline, "the lease is the new guard's");
        assert!(deadline <= now() + belief(renewed), "the lease is the new guard's");
    }
    tokio::select! {
        () = attached.lost() => panic!("lost while its renewals succeed"),
        granted = from.lock_for(renewed * 4 / 3) => assert!(granted.expect("a definite answer").is_none()),
    }
    attached.release().await.expect("held to the end");
}

pub(crate) async fn c24_a_lost_hold_is_not_detached(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let gone = fixture.client(unrenewed(h.ttl())).await.lock().await.expect("lock");
    pause(h.ttl() + EPSILON).await;
    assert_eq!(kind_of(gone.detach(lease()).await), Some(ErrorKind::Lost));
}

/// C24: whoever knows the ticket of a guard, as `inspect` shows it, cannot take its hold away.
pub(crate) async fn c24_a_live_guard_keeps_its_hold(h: &dyn Harness, kind: LockKind) {
    let fixture = LockFixture::new(h, kind).await;
    let clients =
        [fixture.client(HoldOptions::default()).await, fixture.client(HoldOptions::default()).await];
    let detached = clients[0].lock().await.expect("lock").detach(lease()).await.expect("detach");
    let guard = clients[0].attach(&detached).await.expect("attach");
    for client in &clients {
        let shown = client.inspect().await.expect("inspect").holders[0].ticket;
        let taken = client.attach(&detached.with_ticket(shown.expect("a ticket"))).await;
        assert_eq!(kind_of(taken), Some(ErrorKind::Lost));
        assert!(client.try_lock().await.expect("a definite answer").is_none(), "it is still held");
    }
    guard.release().await.expect("nobody took it away");
}

/// C24: a hold is one of its object alone.
pub(crate) async fn c24_a_hold_of_another_name_is_refused(h: &dyn Harness, kind: LockKind) {
    let [one, other] = [LockFixture::new(h, kind).await, LockFixture::new(h, kind).await];
    let (lock, foreign) =
        (one.client(HoldOptions::default()).await, other.client(HoldOptions::default()).await);
    let detached = lock.lock().await.expect("lock").detach(lease()).await.expect("detach");
    assert_eq!(kind_of(foreign.attach(&detached).await), Some(ErrorKind::InvalidArgument));
    lock.attach(&detached).await.expect("attach").release().await.expect("release");
}

/// C4, C24: a dropped attach leaves no hold for ever: the hold stays detached or is released.
pub(crate) async fn c4_c24_a_dropped_attach_keeps_no_hold(h: &dyn Harness, kind: LockKind) {
    let lease = h.ttl() * 2;
    let fixture = LockFixture::new(h, kind).await;
    let lock = fixture.client(HoldOptions::default()).await;
    for polls in 0..12 {
        let detached = lock.lock().await.expect("lock").detach(lease_of(lease)).await.expect("detach");
        let cut = crate::support::drop_after(polls, lock.attach(&detached)).await;
        let ended = matches!(cut, crate::support::Cut::Ended(_));
        drop(cut);
        let next = within(lease + CANCELLED, "free by the lease", lock.lock()).await.expect("lock");
        next.release().await.expect("release");
        if ended {
            break;
        }
    }
}
