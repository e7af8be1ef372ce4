//! The state alone, with sessions that are played.

use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::steps::{Acquire, Acquired, Cancel, Ending, Kept, Object, ParameterCheck, Release};
use stanchion_core::{Error, ErrorKind, Kind, Name, Ticket, Ttl};

use crate::session::asks::Asked;
use crate::session::desk::{Desk, Event, State};
use crate::session::entry::{Place, Tried};
use crate::session::post::{Batch, Eviction, PostId};
use crate::session::wire::{NO_PLACE, Stepped, Taken};
use crate::session::work::Work;

/// A desk of a process.
fn desk() -> Desk {
    Desk::new(Ttl::new(Duration::from_secs(10)).unwrap(), Duration::from_secs(2), Ticket::from(77))
}

fn name() -> Name {
    Name::new("x").unwrap()
}

fn object() -> Object {
    Object { kind: Kind::Mutex, name: name() }
}

fn ask(ticket: u128) -> Acquire {
    Acquire {
        object: object(),
        ticket: Ticket::from(ticket),
        weight: 1,
        lease: Ttl::new(Duration::from_secs(10)).unwrap(),
        limit: 1,
        check: ParameterCheck::Follow,
        queue: false,
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

/// Has the ticket wait in the queue.
fn place(state: &mut State, ticket: u128) {
    state.places.insert(Ticket::from(ticket), Place { epoch: Some(1), unanswered: 0 });
}

/// The statement that a session sends next.
fn sent(state: &mut State, id: PostId) -> Batch {
    match state.work(id, now()) {
        Work::Send(batch) => batch,
        other => panic!("{other:?}"),
    }
}

/// The session carries a statement out; each try is answered so.
fn answer_with(state: &mut State, id: PostId, batch: Batch, taken: Taken) {
    let stepped = Stepped {
        unlocked: vec![true; batch.unlocks.len()],
        taken: vec![taken; batch.tries.len()],
        firsts: Vec::new(),
        lefts: Vec::new(),
        load: Some((0, 1_000_000)),
    };
    state.stepped(id, batch, stepped, now(), now());
}

fn answer(state: &mut State, id: PostId, batch: Batch, token: i64) {
    answer_with(state, id, batch, Taken { answer: token, head: None });
}

/// What was said by now.
fn said<T: std::fmt::Debug>(asked: Asked<T>) -> Option<Result<T, Error>> {
    match asked {
        Asked::Done(answer) => Some(answer),
        Asked::Sent(_, mut answer) => answer.try_recv().ok(),
        Asked::Probed(_) => panic!("{asked:?}"),
    }
}

fn is_granted(asked: Asked<Tried>) -> bool {
    matches!(said(asked), Some(Ok(Tried::Answered(Acquired::Granted { .. }) | Tried::Leaving(..))))
}

/// Whether it was refused, and the ticket has a place.
fn refused(asked: Asked<Tried>) -> Option<bool> {
    match said(asked) {
        Some(Ok(Tried::Refused { has_place })) => Some(has_place),
        _ => None,
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
    let asked = state.acquire(&ask(ticket), now());
    let batch = sent(state, id);
    answer(state, id, batch, 7);
    assert!(is_granted(asked));
    id
}

/// Has the first ticket wait in the queue, and then locked over the shared session.
fn granted_after_a_wait(state: &mut State) -> PostId {
    let id = shared(state);
    place(state, 1);
    let asked = state.acquire(&ask(1), now());
    let batch = sent(state, id);
    answer_with(state, id, batch, Taken { answer: 7, head: Some(Ticket::from(1)) });
    assert!(is_granted(asked));
    id
}

#[test]
fn c3_those_who_ask_together_share_a_try() {
    desk().with(|state| {
        let id = shared(state);
        let asked = [1, 2, 3].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = sent(state, id);
        assert_eq!(batch.tries.len(), 1, "one of a name at a time");
        answer(state, id, batch, 7);
        let [first, second, third] = asked;
        assert!(is_granted(first));
        assert_eq!([refused(second), refused(third)], [Some(false); 2]);
    });
}

#[test]
fn c3_a_try_that_is_not_answered_tells_nobody_no() {
    desk().with(|state| {
        let id = shared(state);
        let first = state.acquire(&ask(1), now());
        let mut batch = sent(state, id);
        let behind = state.acquire(&ask(2), now());
        state.overdue(id, &mut batch, &Error::new(ErrorKind::Unknown, "stuck"));
        let kinds = [first, behind].map(|asked| said(asked).unwrap().unwrap_err().kind());
        assert_eq!(kinds, [ErrorKind::Unknown, ErrorKind::Unavailable]);
    });
}

#[test]
fn c3_a_try_is_for_whoever_is_not_cancelled() {
    desk().with(|state| {
        let id = shared(state);
        let [first, second] = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = sent(state, id);
        state.cancel(&cancel(1), now());
        answer(state, id, batch, 7);
        assert!(matches!(said(first), Some(Ok(Tried::Answered(Acquired::Cancelled)))));
        assert!(is_granted(second));
    });
}

#[test]
fn c4_a_grant_that_nobody_wants_is_unlocked() {
    desk().with(|state| {
        let id = shared(state);
        let asked = state.acquire(&ask(1), now());
        let batch = sent(state, id);
        state.cancel(&cancel(1), now());
        answer(state, id, batch, 7);
        assert!(matches!(said(asked), Some(Ok(Tried::Answered(Acquired::Cancelled)))));
        assert_eq!(sent(state, id).unlocks.len(), 1);
        assert!(state.names.is_empty());
    });
}

#[test]
fn c3_a_try_is_not_told_no_by_one_that_was_sent_before_it() {
    desk().with(|state| {
        let id = shared(state);
        let first = state.acquire(&ask(1), now());
        let batch = sent(state, id);
        let second = state.acquire(&ask(2), now());
        answer(state, id, batch, 0);
        assert_eq!(refused(first), Some(false));
        let batch = sent(state, id);
        assert_eq!(batch.tries.len(), 1);
        answer(state, id, batch, 8);
        assert!(is_granted(second));
    });
}

#[test]
fn c4_a_claim_that_waits_for_its_probe_finds_its_cancel() {
    desk().with(|state| {
        let id = locked(state, 1);
        state.posts.get_mut(&id).unwrap().heard = now().checked_sub(Duration::from_secs(1));
        assert!(matches!(state.acquire(&ask(1), now()), Asked::Probed(_)));
        state.cancel(&cancel(1), now());
        assert_eq!(state.claimed(&ask(1), now()), None);
        let again = said(state.acquire(&ask(1), now()));
        assert!(matches!(again, Some(Ok(Tried::Answered(Acquired::Cancelled)))), "{again:?}");
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
fn c16_a_grant_goes_to_the_ticket_whose_turn_it_is() {
    desk().with(|state| {
        let id = shared(state);
        place(state, 2);
        let [first, second] = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = sent(state, id);
        assert_eq!((batch.tries[0].ticket, batch.tries[0].reads_queue), (Ticket::from(2), true));
        answer_with(state, id, batch, Taken { answer: 7, head: Some(Ticket::from(2)) });
        assert_eq!(refused(first), Some(false));
        assert!(is_granted(second));
        assert_eq!(state.departures.len(), 1, "its place is given up");
    });
}

#[test]
fn c16_a_turn_of_a_ticket_that_has_not_asked_is_its_own() {
    desk().with(|state| {
        let id = shared(state);
        place(state, 2);
        place(state, 3);
        let asked = state.acquire(&ask(3), now());
        let batch = sent(state, id);
        answer_with(state, id, batch, Taken { answer: 7, head: Some(Ticket::from(2)) });
        assert_eq!(refused(asked), Some(true));
        let ring = Ticket::from(2);
        assert!(matches!(state.events[..], [Event::Ring(ticket)] if ticket == ring), "{:?}", state.events);
        assert_eq!(sent(state, id).unlocks.len(), 1);
    });
}

#[test]
fn c5_a_place_that_outlives_its_hold_is_given_up_with_a_hint() {
    desk().with(|state| {
        granted_after_a_wait(state);
        let mut departing = state.departing();
        drop(state.release(&release(1), now()));
        // It was sent while the mutex was held. Whoever tried since then has seen the place.
        state.departed(departing.remove(0), now());
        let again = state.departing();
        assert!(matches!(&again[..], [departure] if departure.is_free));
        for departure in again {
            state.departed(departure, now());
        }
        assert!(state.departures.is_empty());
    });
}

#[test]
fn c5_a_queue_is_looked_into_before_a_newcomer_is_refused() {
    desk().with(|state| {
        let id = shared(state);
        let asked = state.acquire(&ask(1), now());
        let batch = sent(state, id);
        assert!(!batch.tries[0].reads_queue);
        answer(state, id, batch, NO_PLACE);
        let batch = sent(state, id);
        assert!(batch.tries[0].reads_queue);
        answer(state, id, batch, 7);
        assert!(is_granted(asked), "all in it were dead");
    });
}

#[test]
fn c16_whoever_has_lost_its_place_is_told_so() {
    desk().with(|state| {
        let id = shared(state);
        place(state, 1);
        place(state, 2);
        let asked = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = sent(state, id);
        answer(state, id, batch, NO_PLACE);
        assert_eq!(asked.map(refused), [Some(false); 2]);
        assert_eq!(state.places.len(), 2, "they may have one: a cancel asks the server");
    });
}

#[test]
fn c16_places_that_a_crash_may_bring_back_are_given_up_again() {
    desk().with(|state| {
        let id = granted_after_a_wait(state);
        let departing = state.departing();
        assert_eq!((departing.len(), state.departures.len()), (1, 0));
        for departure in departing {
            state.departed(departure, now());
        }
        state.closed(id, Some(Error::new(ErrorKind::Unavailable, "a crash")), now());
        assert_eq!(state.departures.len(), 1);
        assert!(matches!(state.events[..], [Event::Gone(_)]));
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
        let closed = now();
        state.closed(id, Some(Error::new(ErrorKind::Unknown, "stuck")), closed);
        assert!(state.leaving.is_empty());
        assert_eq!(said(state.cancel(&cancel(1), now())).unwrap().unwrap(), Kept::No);
        // The server may keep it until it has ended the session, too (C3).
        let ttl = state.ttl.get();
        let early = said(state.release(&release(1), closed + ttl)).unwrap().unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Unknown);
        let late = said(state.release(&release(1), closed + ttl + Duration::from_secs(1)));
        assert_eq!(late.unwrap().unwrap(), Kept::No);
    });
}

#[test]
fn a_session_with_nothing_to_do_ends_after_a_while() {
    desk().with(|state| {
        let id = locked(state, 1);
        let later = now() + Duration::from_secs(3_600);
        assert!(matches!(state.work(id, later), Work::Send(_)), "it is due to be probed");
        assert!(matches!(state.work(id, later), Work::Sleep(_)), "it keeps a mutex");
        drop(state.release(&release(1), now()));
        let batch = sent(state, id);
        answer(state, id, batch, 0);
        assert!(matches!(state.work(id, now()), Work::Sleep(_)));
        assert!(matches!(state.work(id, later), Work::Close));
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

#[test]
fn c16_what_was_to_be_given_up_of_a_ticket_that_queues_anew_stays() {
    desk().with(|state| {
        let id = granted_after_a_wait(state);
        let departing = state.departing_at_once();
        assert!(!state.stays(Ticket::from(1)), "it is being given up at this moment");
        state.depart_later(departing);
        assert!(state.stays(Ticket::from(1)));
        assert!(state.departures.is_empty());
        state.closed(id, Some(Error::new(ErrorKind::Unavailable, "a crash")), now());
        assert!(state.departures.is_empty());
    });
}
