//! The shared state alone, without connections: the tests play the sessions.

use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::spi::{
    Acquire, Acquired, Cancel, Ending, Kept, Object, ParameterCheck, Purpose, Release,
};
use stanchion_core::{Error, ErrorKind, Kind, Name, Ticket, Ttl};

use crate::session::attempts::TryOutcome;
use crate::session::lock_sessions::LockSessions;
use crate::session::messages::{Batch, BatchAnswer, ForceUnlockRequest, NOT_QUEUED, SessionId, TryAnswer};
use crate::session::outbound::NextAction;
use crate::session::reply::{Reply, waiting};
use crate::session::state::{Event, SharedState};

/// The lock sessions of a process.
fn lock_sessions() -> LockSessions {
    LockSessions::new(Ttl::new(Duration::from_secs(10)).unwrap(), Duration::from_secs(2), Ticket::from(77))
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
        purpose: Purpose::Guard,
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
        tombstone: Some(Ttl::new(Duration::from_secs(10)).unwrap()),
    }
}

/// Gives the ticket a place in the queue.
fn add_place(state: &mut SharedState, ticket: u128) {
    let ask = Acquire { queue: true, ..ask(ticket) };
    state.places.joining(ask.ticket);
    assert!(state.places.joined(&ask, &Ok(waiting(1))));
}

/// Returns the batch that a session sends next.
fn next_batch(state: &mut SharedState, id: SessionId) -> Batch {
    match state.next_action(id, now()) {
        NextAction::Send(batch) => batch,
        other => panic!("{other:?}"),
    }
}

/// Answers a batch of the session; each try gets `answer`.
fn answer_with(state: &mut SharedState, id: SessionId, batch: Batch, answer: TryAnswer) {
    let batch_answer = BatchAnswer {
        unlocked: vec![true; batch.unlocks.len()],
        try_answers: vec![answer; batch.try_locks.len()],
        next_waiters: Vec::new(),
        still_recorded: Vec::new(),
        lock_table: Some((0, 1_000_000)),
    };
    state.batch_answered(id, batch, batch_answer, now(), now());
}

fn answer(state: &mut SharedState, id: SessionId, batch: Batch, token: i64) {
    answer_with(state, id, batch, TryAnswer { code: token, first_waiter: None });
}

/// Returns the reply, if it has come.
fn reply_of<T: std::fmt::Debug>(reply: Reply<T>) -> Option<Result<T, Error>> {
    match reply {
        Reply::Now(answer) => Some(answer),
        Reply::Later(_, mut answer) => answer.try_recv().ok(),
        Reply::AfterProbe(_) => panic!("{reply:?}"),
    }
}

fn is_granted(reply: Reply<TryOutcome>) -> bool {
    matches!(
        reply_of(reply),
        Some(Ok(TryOutcome::Answered(Acquired::Granted { .. }) | TryOutcome::GrantedFromQueue(..)))
    )
}

/// Returns, for a refused request, whether the ticket has a place.
fn refused(reply: Reply<TryOutcome>) -> Option<bool> {
    match reply_of(reply) {
        Some(Ok(TryOutcome::Refused { has_place })) => Some(has_place),
        _ => None,
    }
}

/// Opens the current session.
fn open_session(state: &mut SharedState) -> SessionId {
    let id = state.outbound.current_session();
    state.outbound.session_opened(id, 1, now());
    id
}

/// Locks the mutex for a ticket over the current session.
fn locked(state: &mut SharedState, ticket: u128) -> SessionId {
    let id = open_session(state);
    let asked = state.acquire(&ask(ticket), now());
    let batch = next_batch(state, id);
    answer(state, id, batch, 7);
    assert!(is_granted(asked));
    id
}

/// Locks the mutex for ticket 1, which has a place in the queue.
fn granted_after_a_wait(state: &mut SharedState) -> SessionId {
    let id = open_session(state);
    add_place(state, 1);
    let asked = state.acquire(&ask(1), now());
    let batch = next_batch(state, id);
    answer_with(state, id, batch, TryAnswer { code: 7, first_waiter: Some(Ticket::from(1)) });
    assert!(is_granted(asked));
    id
}

#[test]
fn c3_those_who_ask_together_share_a_try() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let asked = [1, 2, 3].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = next_batch(state, id);
        assert_eq!(batch.try_locks.len(), 1, "one of a name at a time");
        answer(state, id, batch, 7);
        let [first, second, third] = asked;
        assert!(is_granted(first));
        assert_eq!([refused(second), refused(third)], [Some(false); 2]);
    });
}

#[test]
fn c3_a_try_that_is_not_answered_tells_nobody_no() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let first = state.acquire(&ask(1), now());
        let mut batch = next_batch(state, id);
        let later_requests = state.acquire(&ask(2), now());
        state.statement_overdue(id, &mut batch, &Error::new(ErrorKind::Unknown, "stuck"));
        let kinds = [first, later_requests].map(|asked| reply_of(asked).unwrap().unwrap_err().kind());
        assert_eq!(kinds, [ErrorKind::Unknown, ErrorKind::Unavailable]);
    });
}

#[test]
fn c3_a_try_is_for_whoever_is_not_cancelled() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let [first, second] = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = next_batch(state, id);
        state.cancel(&cancel(1), now());
        answer(state, id, batch, 7);
        assert!(matches!(reply_of(first), Some(Ok(TryOutcome::Answered(Acquired::Cancelled)))));
        assert!(is_granted(second));
    });
}

#[test]
fn c4_a_grant_that_nobody_wants_is_unlocked() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let asked = state.acquire(&ask(1), now());
        let batch = next_batch(state, id);
        state.cancel(&cancel(1), now());
        answer(state, id, batch, 7);
        assert!(matches!(reply_of(asked), Some(Ok(TryOutcome::Answered(Acquired::Cancelled)))));
        assert_eq!(next_batch(state, id).unlocks.len(), 1);
        assert!(state.holds.get(&name()).is_none());
    });
}

#[test]
fn c3_a_try_is_not_told_no_by_one_that_was_sent_before_it() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let first = state.acquire(&ask(1), now());
        let batch = next_batch(state, id);
        let second = state.acquire(&ask(2), now());
        answer(state, id, batch, 0);
        assert_eq!(refused(first), Some(false));
        let batch = next_batch(state, id);
        assert_eq!(batch.try_locks.len(), 1);
        answer(state, id, batch, 8);
        assert!(is_granted(second));
    });
}

#[test]
fn c4_a_claim_that_waits_for_its_probe_finds_its_cancel() {
    lock_sessions().with(|state| {
        locked(state, 1);
        let later = now() + Duration::from_secs(1);
        assert!(matches!(state.acquire(&ask(1), later), Reply::AfterProbe(_)));
        state.cancel(&cancel(1), now());
        assert_eq!(state.claimed(&ask(1), now()), None);
        let again = reply_of(state.acquire(&ask(1), now()));
        assert!(matches!(again, Some(Ok(TryOutcome::Answered(Acquired::Cancelled)))), "{again:?}");
    });
}

#[test]
fn c3_whoever_ends_a_hold_that_is_being_ended_waits_for_it() {
    lock_sessions().with(|state| {
        let id = locked(state, 1);
        let first = state.release(&release(1), now());
        let batch = next_batch(state, id);
        let (second, cancelled) = (state.release(&release(1), now()), state.cancel(&cancel(1), now()));
        answer(state, id, batch, 0);
        for asked in [first, second, cancelled] {
            assert_eq!(reply_of(asked).unwrap().unwrap(), Kept::Yes);
        }
        assert_eq!(reply_of(state.release(&release(1), now())).unwrap().unwrap(), Kept::No);
        assert!(state.holds.unlocks.none_is_pending());
    });
}

#[test]
fn c16_a_grant_goes_to_the_ticket_whose_turn_it_is() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        add_place(state, 2);
        let [first, second] = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = next_batch(state, id);
        assert_eq!((batch.try_locks[0].ticket, batch.try_locks[0].reads_queue), (Ticket::from(2), true));
        answer_with(state, id, batch, TryAnswer { code: 7, first_waiter: Some(Ticket::from(2)) });
        assert_eq!(refused(first), Some(false));
        assert!(is_granted(second));
        assert_eq!(state.places.leaving.count(&name()), 1, "its place is given up");
    });
}

#[test]
fn c16_a_turn_of_a_ticket_that_has_not_asked_is_its_own() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        add_place(state, 2);
        add_place(state, 3);
        let asked = state.acquire(&ask(3), now());
        let batch = next_batch(state, id);
        answer_with(state, id, batch, TryAnswer { code: 7, first_waiter: Some(Ticket::from(2)) });
        assert_eq!(refused(asked), Some(true));
        let first = Ticket::from(2);
        assert!(matches!(state.events[..], [Event::Wake(ticket)] if ticket == first), "{:?}", state.events);
        assert_eq!(next_batch(state, id).unlocks.len(), 1);
    });
}

#[test]
fn c5_a_place_that_outlives_its_hold_is_given_up_with_a_hint() {
    lock_sessions().with(|state| {
        granted_after_a_wait(state);
        let mut leaving = state.next_leave_requests();
        drop(state.release(&release(1), now()));
        // It was sent while the mutex was held. Every try since then has seen the place.
        state.left_queue(leaving.remove(0), now());
        let again = state.next_leave_requests();
        assert!(matches!(&again[..], [request] if request.is_free));
        for request in again {
            state.left_queue(request, now());
        }
        assert!(state.places.leaving.is_empty());
    });
}

#[test]
fn c5_a_queue_is_looked_into_before_a_newcomer_is_refused() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        let asked = state.acquire(&ask(1), now());
        let batch = next_batch(state, id);
        assert!(!batch.try_locks[0].reads_queue);
        answer(state, id, batch, NOT_QUEUED);
        let batch = next_batch(state, id);
        assert!(batch.try_locks[0].reads_queue);
        answer(state, id, batch, 7);
        assert!(is_granted(asked), "all in it were dead");
    });
}

#[test]
fn c16_whoever_has_lost_its_place_is_told_so() {
    lock_sessions().with(|state| {
        let id = open_session(state);
        add_place(state, 1);
        add_place(state, 2);
        let asked = [1, 2].map(|ticket| state.acquire(&ask(ticket), now()));
        let batch = next_batch(state, id);
        answer(state, id, batch, NOT_QUEUED);
        assert_eq!(asked.map(refused), [Some(false); 2]);
        for ticket in [1, 2].map(Ticket::from) {
            assert!(state.places.contains(ticket), "it may have one: a cancel asks the server");
        }
    });
}

#[test]
fn c16_places_that_a_crash_may_bring_back_are_given_up_again() {
    lock_sessions().with(|state| {
        let id = granted_after_a_wait(state);
        let leaving = state.next_leave_requests();
        assert_eq!((leaving.len(), state.places.leaving.count(&name())), (1, 0));
        for request in leaving {
            state.left_queue(request, now());
        }
        state.session_closed(id, Some(Error::new(ErrorKind::Unavailable, "a crash")), now());
        assert_eq!(state.places.leaving.count(&name()), 1);
        assert!(matches!(state.events[..], [Event::Gone(_)]));
    });
}

#[test]
fn c12_a_session_that_ends_while_it_unlocks_answers_whoever_asks() {
    lock_sessions().with(|state| {
        let id = locked(state, 1);
        let first = state.release(&release(1), now());
        let mut batch = next_batch(state, id);
        assert!(state.statement_overdue(id, &mut batch, &Error::new(ErrorKind::Unknown, "stuck")).is_none());
        // A caller is not kept waiting for a session that is known to be stuck.
        let second = reply_of(state.release(&release(1), now())).unwrap().unwrap_err();
        assert_eq!([reply_of(first).unwrap().unwrap_err().kind(), second.kind()], [ErrorKind::Unknown; 2]);
        drop(batch);
        let closed = now();
        state.session_closed(id, Some(Error::new(ErrorKind::Unknown, "stuck")), closed);
        assert!(state.holds.unlocks.none_is_pending());
        assert_eq!(reply_of(state.cancel(&cancel(1), now())).unwrap().unwrap(), Kept::No);
        // The server may keep it until it has ended the session, too (C3).
        let ttl = state.ttl.get();
        let early = reply_of(state.release(&release(1), closed + ttl)).unwrap().unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Unknown);
        let late = reply_of(state.release(&release(1), closed + ttl + Duration::from_secs(1)));
        assert_eq!(late.unwrap().unwrap(), Kept::No);
    });
}

#[test]
fn a_session_with_nothing_to_do_ends_after_a_while() {
    lock_sessions().with(|state| {
        let id = locked(state, 1);
        let later = now() + Duration::from_secs(3_600);
        assert!(matches!(state.next_action(id, later), NextAction::Send(_)), "it is due to be probed");
        assert!(matches!(state.next_action(id, later), NextAction::Sleep(_)), "it keeps a mutex");
        drop(state.release(&release(1), now()));
        let batch = next_batch(state, id);
        answer(state, id, batch, 0);
        assert!(matches!(state.next_action(id, now()), NextAction::Sleep(_)));
        assert!(matches!(state.next_action(id, later), NextAction::Close));
    });
}

#[test]
fn m8_a_request_for_an_earlier_grant_is_declined() {
    lock_sessions().with(|state| {
        let id = locked(state, 1);
        let request = |id, token| ForceUnlockRequest { id, name: "x".to_owned(), token };
        state.force_unlock(id, &request(1, 6));
        assert!(state.holds.get(&name()).is_some());
        state.force_unlock(id, &request(2, 7));
        assert!(state.holds.get(&name()).is_none());
        let answers = next_batch(state, id).answers;
        assert_eq!((answers.declined, answers.accepted), (vec![1], vec![2]));
    });
}

#[test]
fn c16_what_was_to_be_given_up_of_a_ticket_that_queues_anew_stays() {
    lock_sessions().with(|state| {
        let id = granted_after_a_wait(state);
        let leaving = state.places.leaving.take_immediate();
        assert!(!state.places.leaving.cancel(Ticket::from(1)), "it is being given up at this moment");
        state.places.leaving.defer(leaving);
        assert!(state.places.leaving.cancel(Ticket::from(1)));
        assert!(state.places.leaving.is_empty());
        state.session_closed(id, Some(Error::new(ErrorKind::Unavailable, "a crash")), now());
        assert!(state.places.leaving.is_empty());
    });
}
