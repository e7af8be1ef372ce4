//! The state alone, with sessions that are played.

use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::steps::{Acquire, Acquired, Cancel, Ending, Kept, Object, ParameterCheck, Release};
use stanchion_core::{Error, ErrorKind, FencingToken, Kind, Name, Ticket, Ttl};

use crate::session::asks::{Asked, WAITING};
use crate::session::desk::{Desk, State};
use crate::session::post::{Batch, Eviction, PostId};
use crate::session::wire::Stepped;
use crate::session::work::Work;

/// A desk, and whether a session waits beside the shared one.
fn desk() -> Desk {
    Desk::new(Ttl::new(Duration::from_secs(10)).unwrap(), Duration::from_secs(2), 4)
}

fn name() -> Name {
    Name::new("x").unwrap()
}

fn object() -> Object {
    Object { kind: Kind::Mutex, name: name() }
}

fn ask(ticket: u128, queue: bool) -> Acquire {
    Acquire {
        object: object(),
        ticket: Ticket::from(ticket),
        weight: 1,
        lease: Ttl::new(Duration::from_secs(10)).unwrap(),
        limit: 1,
        check: ParameterCheck::Follow,
        queue,
        max_waiters: None,
        label: None,
    }
}

fn release(ticket: u128) -> Release {
    let ticket = Ticket::from(ticket);
    Release { object: object(), ticket, ending: Ending::Finished, tombstone: None, call: None }
}

fn cancel(ticket: u128) -> Cancel {
    Cancel {
        object: object(),
        ticket: Ticket::from(ticket),
        lease: Ttl::new(Duration::from_secs(10)).unwrap(),
    }
}

/// The statement that a session sends next.
fn sent(state: &mut State, id: PostId) -> Batch {
    match state.work(id, now()) {
        Work::Send(batch) => batch,
        other => panic!("{other:?}"),
    }
}

/// The session carries a statement out; each try is answered by that token.
fn answer(state: &mut State, id: PostId, batch: Batch, token: i64) {
    let stepped = Stepped {
        unlocked: vec![true; batch.unlocks.len()],
        tokens: vec![token; batch.tries.len()],
        load: Some((0, 1_000_000)),
    };
    state.stepped(id, batch, &stepped, now(), now());
}

/// What was said by now.
fn said<T: std::fmt::Debug>(asked: Asked<T>) -> Option<Result<T, Error>> {
    match asked {
        Asked::Done(answer) => Some(answer),
        Asked::Sent(_, mut answer) => answer.try_recv().ok(),
        other => panic!("{other:?}"),
    }
}

/// The shared session, open.
fn shared(state: &mut State) -> PostId {
    let id = state.shared();
    state.opened(id, 1, now());
    id
}

/// Has a ticket locked over the shared session.
fn locked(state: &mut State, ticket: u128) -> PostId {
    let id = shared(state);
    let asked = state.acquire(&ask(ticket, false), now());
    let batch = sent(state, id);
    answer(state, id, batch, 7);
    assert!(matches!(said(asked), Some(Ok(Acquired::Granted { .. }))));
    id
}

/// The session that waits for it at the server, open.
fn waiting(state: &mut State) -> PostId {
    let id = state.names[&name()].waits.unwrap();
    state.opened(id, 2, now());
    while let Work::Send(batch) = state.work(id, now()) {
        answer(state, id, batch, 0);
    }
    id
}

#[test]
fn c3_a_try_waits_for_the_outcome_of_another() {
    desk().with(|state| {
        let id = shared(state);
        let asked = [1, 2, 3].map(|ticket| state.acquire(&ask(ticket, false), now()));
        let batch = sent(state, id);
        assert_eq!(batch.tries.len(), 1, "one of a name at a time");
        answer(state, id, batch, 7);
        let answers = asked.map(|asked| said(asked).unwrap().unwrap());
        assert!(matches!(answers[0], Acquired::Granted { .. }));
        assert_eq!(answers[1..], [WAITING, WAITING]);
    });
}

#[test]
fn c3_a_try_behind_one_that_is_not_answered_is_not_told_no() {
    desk().with(|state| {
        let id = shared(state);
        let asked = [1, 2].map(|ticket| state.acquire(&ask(ticket, false), now()));
        let mut batch = sent(state, id);
        state.overdue(id, &mut batch, &Error::new(ErrorKind::Unknown, "stuck"));
        let kinds = asked.map(|asked| said(asked).unwrap().unwrap_err().kind());
        assert_eq!(kinds, [ErrorKind::Unknown, ErrorKind::Unavailable]);
    });
}

#[test]
fn c3_a_try_behind_one_that_is_cancelled_is_made() {
    desk().with(|state| {
        let id = shared(state);
        let [_, second] = [1, 2].map(|ticket| state.acquire(&ask(ticket, false), now()));
        let batch = sent(state, id);
        state.cancel(&cancel(1), now());
        answer(state, id, batch, 7);
        let batch = sent(state, id);
        assert_eq!((batch.unlocks.len(), batch.tries.len()), (1, 1), "unlocked, and tried for the second");
        answer(state, id, batch, 8);
        let granted = said(second).unwrap().unwrap();
        assert!(matches!(granted, Acquired::Granted { token, .. } if token.get() == 8));
    });
}

#[test]
fn c4_a_claim_that_waits_for_its_probe_finds_its_cancel() {
    desk().with(|state| {
        locked(state, 1);
        assert_eq!(said(state.acquire(&ask(2, true), now())).unwrap().unwrap(), WAITING);
        let id = waiting(state);
        let long_ago = now().checked_sub(Duration::from_secs(1)).unwrap();
        state.granted(id, &name(), FencingToken::new(8).unwrap(), long_ago);
        let claim = state.acquire(&ask(2, true), now());
        assert!(matches!(claim, Asked::Probed(_)));
        state.cancel(&cancel(2), now());
        assert_eq!(state.claimed(&ask(2, true), now()), None);
        assert_eq!(said(state.acquire(&ask(2, true), now())).unwrap().unwrap(), Acquired::Cancelled);
    });
}

#[test]
fn c26_a_ticket_joins_a_bounded_queue_once() {
    desk().with(|state| {
        locked(state, 1);
        let bounded = Acquire { max_waiters: Some(5), ..ask(2, true) };
        // A request and its copy are counted, and then both join.
        assert!(matches!(state.acquire(&bounded, now()), Asked::Counted));
        for _ in 0..2 {
            assert_eq!(said(state.join_bounded(&bounded, 0, now())).unwrap().unwrap(), WAITING);
        }
        assert_eq!(state.names[&name()].queue.len(), 1);
    });
}

#[test]
fn c3_whoever_ends_a_hold_that_is_being_ended_waits_for_it() {
    desk().with(|state| {
        let id = locked(state, 1);
        let first = state.release(&release(1), now());
        let batch = sent(state, id);
        let (second, cancelled) = (state.release(&release(1), now()), state.cancel(&cancel(1), now()));
        answer(state, id, batch, 0);
        for asked in [first, second, cancelled] {
            assert_eq!(said(asked).unwrap().unwrap(), Kept::Yes);
        }
        assert_eq!(said(state.release(&release(1), now())).unwrap().unwrap(), Kept::No);
        assert!(state.leaving.is_empty());
    });
}

#[test]
fn c4_a_session_that_is_to_end_hands_nothing_out() {
    desk().with(|state| {
        locked(state, 1);
        said(state.acquire(&ask(2, true), now()));
        let id = waiting(state);
        state.cancel(&cancel(2), now());
        assert_eq!(said(state.acquire(&ask(3, true), now())).unwrap().unwrap(), WAITING);
        state.granted(id, &name(), FencingToken::new(8).unwrap(), now());
        assert_eq!(state.names[&name()].held.as_ref().map(|held| held.ticket), Some(Ticket::from(1)));
        assert!(matches!(state.work(id, now()), Work::Close));
        state.closed(id, None);
        assert_eq!(state.names[&name()].queue.len(), 1, "the third waits on");
        assert_ne!(state.names[&name()].waits, Some(id));
    });
}

#[test]
fn c16_a_session_that_keeps_what_it_waited_for_leaves_its_place_to_wait_to_others() {
    desk().with(|state| {
        shared(state);
        for index in 0..8 {
            let object = Object { kind: Kind::Mutex, name: Name::new(&format!("n{index}")).unwrap() };
            let name = object.name.clone();
            let asked = state.acquire(&Acquire { object, ..ask(index, true) }, now());
            let id = state.shared();
            let batch = sent(state, id);
            answer(state, id, batch, 0);
            assert_eq!(said(asked).unwrap().unwrap(), WAITING);
            let id = state.names[&name].waits.expect("a session waits in line");
            state.opened(id, 2, now());
            state.granted(id, &name, FencingToken::new(8).unwrap(), now());
        }
    });
}

#[test]
fn c12_a_session_that_ends_while_it_unlocks_answers_whoever_asks() {
    desk().with(|state| {
        let id = locked(state, 1);
        let first = state.release(&release(1), now());
        let mut batch = sent(state, id);
        assert!(state.overdue(id, &mut batch, &Error::new(ErrorKind::Unknown, "stuck")).is_none());
        // Who asks a session that is known to be stuck is not kept waiting.
        let second = said(state.release(&release(1), now())).unwrap().unwrap_err();
        assert_eq!([said(first).unwrap().unwrap_err().kind(), second.kind()], [ErrorKind::Unknown; 2]);
        drop(batch);
        state.closed(id, Some(Error::new(ErrorKind::Unknown, "stuck")));
        assert!(state.leaving.is_empty());
        assert_eq!(said(state.cancel(&cancel(1), now())).unwrap().unwrap(), Kept::No);
    });
}

#[test]
fn c3_a_try_is_not_told_no_by_one_that_was_sent_before_it() {
    desk().with(|state| {
        let id = shared(state);
        let first = state.acquire(&ask(1, false), now());
        let batch = sent(state, id);
        let second = state.acquire(&ask(2, false), now());
        answer(state, id, batch, 0);
        assert_eq!(said(first).unwrap().unwrap(), WAITING);
        let batch = sent(state, id);
        assert_eq!(batch.tries.len(), 1);
        answer(state, id, batch, 8);
        assert!(matches!(said(second).unwrap().unwrap(), Acquired::Granted { .. }));
    });
}

#[test]
fn c16_the_shared_session_stays_while_another_waits() {
    desk().with(|state| {
        let id = locked(state, 1);
        said(state.acquire(&ask(2, true), now()));
        state.release(&release(1), now());
        let batch = sent(state, id);
        answer(state, id, batch, 0);
        let later = now() + Duration::from_secs(3_600);
        assert!(matches!(state.work(id, later), Work::Send(_)), "it is due to be probed");
        assert!(matches!(state.work(id, later), Work::Sleep(_)));
        state.cancel(&cancel(2), now());
        let waited = state.posts.keys().copied().find(|other| *other != id).unwrap();
        state.closed(waited, None);
        assert!(matches!(state.work(id, later), Work::Close));
    });
}

#[test]
fn c18_a_session_that_took_its_time_to_fail_is_replaced_at_once() {
    desk().with(|state| {
        let id = shared(state);
        state.posts.get_mut(&id).unwrap().begun = now().checked_sub(Duration::from_secs(2)).unwrap();
        state.closed(id, Some(Error::new(ErrorKind::Unknown, "stuck")));
        assert!(state.waits_at <= now());
        let id = state.shared();
        state.closed(id, Some(Error::new(ErrorKind::Unavailable, "refused")));
        assert!(state.waits_at > now(), "and one that failed at once after a pause");
    });
}

#[test]
fn m8_a_request_for_an_earlier_grant_is_declined() {
    desk().with(|state| {
        let id = locked(state, 1);
        let eviction = |id, token| Eviction { id, name: "x".to_owned(), token };
        state.evict(id, &eviction(1, 6));
        assert!(state.names[&name()].held.is_some());
        state.evict(id, &eviction(2, 7));
        assert!(!state.names.contains_key(&name()));
        let answered = sent(state, id).answered;
        assert_eq!((answered.declined, answered.obeyed), (vec![1], vec![2]));
    });
}
