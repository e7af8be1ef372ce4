//! Each of the three machines alone.

use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::connect::MAX_UNCHECKED_IDLE;
use stanchion_core::spi::{Acquire, Acquired, Kept, Object, ParameterCheck, Polled, Purpose};
use stanchion_core::{Error, ErrorKind, FencingToken, Kind, Name, Ticket, Ttl};

use crate::session::attempts::{Acquisition, LockRequest};
use crate::session::holds::Holds;
use crate::session::messages::Unlock;
use crate::session::outbound::{NextAction, Outbound};
use crate::session::places::Places;
use crate::session::reply::waiting;

const LEASE: Duration = Duration::from_secs(10);
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn ask(ticket: u128) -> Acquire {
    Acquire {
        object: Object { kind: Kind::Mutex, name: name("x") },
        ticket: Ticket::from(ticket),
        weight: 1,
        lease: Ttl::new(LEASE).unwrap(),
        limit: 1,
        check: ParameterCheck::Follow,
        queue: true,
        max_waiters: None,
        label: None,
        purpose: Purpose::Guard,
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "a crash")
}

/// Adds a hold of the ticket on a session.
fn add(holds: &mut Holds, of: &str, ticket: u128, session: u64, sent: Instant) -> Option<Ticket> {
    let token = FencingToken::new(7).unwrap();
    holds.add(&name(of), Acquisition::of(&ask(ticket)), session, token, sent)
}

mod holds {
    use super::*;

    #[test]
    fn c8_a_hold_expires_unless_it_was_renewed() {
        let (mut holds, sent) = (Holds::default(), now());
        add(&mut holds, "x", 1, 1, sent);
        add(&mut holds, "y", 2, 1, sent);
        assert_eq!(holds.next_expiry(), Some(sent + LEASE));
        holds.renew(&name("y"), Ticket::from(2), sent + 2 * LEASE);
        assert!(holds.expired(sent + LEASE / 2).is_empty());
        assert_eq!(holds.expired(sent + LEASE), [(name("x"), Ticket::from(1))]);
        assert_eq!(holds.next_expiry(), Some(sent + 2 * LEASE));
        // A late answer to an earlier request takes nothing back.
        holds.renew(&name("y"), Ticket::from(2), sent + LEASE);
        assert_eq!(holds.get(&name("y")).unwrap().until, sent + 2 * LEASE);
    }

    #[test]
    fn an_earlier_expiry_is_reported_once() {
        let (mut holds, sent) = (Holds::default(), now());
        add(&mut holds, "x", 1, 1, sent);
        assert!(holds.take_is_earlier() && !holds.take_is_earlier());
        add(&mut holds, "y", 2, 1, sent + LEASE);
        assert!(!holds.take_is_earlier());
    }

    #[test]
    fn a_session_has_holds_until_the_last_one_ends() {
        let (mut holds, sent) = (Holds::default(), now());
        add(&mut holds, "x", 1, 1, sent);
        add(&mut holds, "y", 2, 1, sent);
        assert!(holds.end(&name("x"), Ticket::from(2)).is_none(), "another ticket holds it");
        assert!(holds.end(&name("x"), Ticket::from(1)).is_some_and(|end| end.unlock.is_some()));
        assert!(holds.any_of(1));
        // Granted again on another session, before the end of the first one was noticed.
        assert_eq!(add(&mut holds, "y", 3, 2, sent), Some(Ticket::from(2)));
        assert!(!holds.any_of(1) && holds.any_of(2));
        assert_eq!(holds.session_closed(2), [Ticket::from(3)]);
        assert!(!holds.any_of(2));
    }

    #[test]
    fn c3_who_ends_a_hold_twice_waits_for_one_unlock() {
        let mut holds = Holds::default();
        add(&mut holds, "x", 1, 1, now());
        let mut first = holds.end(&name("x"), Ticket::from(1)).unwrap();
        let mut second = holds.end(&name("x"), Ticket::from(1)).unwrap();
        assert!(second.unlock.is_none());
        holds.unlocks.answered(&first.unlock.unwrap(), Kept::Yes);
        for answer in [&mut first.answer, &mut second.answer] {
            assert_eq!(answer.try_recv().unwrap().unwrap(), Kept::Yes);
        }
    }

    #[test]
    fn c3_an_unlock_stays_in_doubt_until_the_server_has_ended_the_session() {
        let (mut holds, closed) = (Holds::default(), now());
        add(&mut holds, "x", 1, 1, closed);
        let mut end = holds.end(&name("x"), Ticket::from(1)).unwrap();
        holds.unlocks.session_closed(1, &unavailable(), closed, closed + LEASE);
        assert!(end.answer.try_recv().unwrap().is_err());
        let is_in_doubt = |at| holds.unlocks.is_in_doubt(Ticket::from(1), at);
        assert!(is_in_doubt(closed) && !is_in_doubt(closed + LEASE));
    }

    #[test]
    fn c4_a_tombstone_ends() {
        let (mut holds, at) = (Holds::default(), now());
        holds.tombstones.add(Ticket::from(1), at + LEASE);
        let is_refused = |at| holds.tombstones.contains(Ticket::from(1), at);
        assert!(is_refused(at) && !is_refused(at + LEASE));
    }

    #[test]
    fn c23_a_record_whose_hold_ends_while_it_is_written_is_removed() {
        let (mut holds, granted) = (Holds::default(), now());
        add(&mut holds, "x", 1, 1, granted);
        assert!(holds.unrecorded(granted, |_| Some(1)).0.is_empty(), "short holds are not recorded");
        let (records, count) = holds.unrecorded(granted + Duration::from_secs(1), |_| Some(1));
        assert_eq!((records.len(), count), (1, 1));
        let end = holds.end(&name("x"), Ticket::from(1)).unwrap();
        assert!(end.unlock.unwrap().is_recorded);
        let has_stale = |holds: &Holds| holds.records.has_stale([name("x")].iter());
        assert!(has_stale(&holds));
        holds.records_written(records, true);
        let removals = holds.records.next_removals();
        assert_eq!(removals, [(name("x"), Ticket::from(1))]);
        assert!(holds.records.removals_tried(removals.clone(), |_| true), "it is tried again");
        assert!(!has_stale(&holds), "it was tried, and delays nobody");
        assert!(!holds.records.removals_tried(removals, |_| false));
    }
}

mod places {
    use super::*;

    #[test]
    fn c16_an_unanswered_join_may_have_made_a_place() {
        let mut places = Places::default();
        let unknown = || Err(Error::new(ErrorKind::Unknown, "no answer"));
        places.joining(Ticket::from(1));
        assert!(!places.joined(&ask(1), &unknown()));
        assert!(places.contains(Ticket::from(1)) && places.epoch(Ticket::from(1)).is_none());
        places.joining(Ticket::from(2));
        assert!(!places.joined(&ask(2), &Err(unavailable())));
        assert!(!places.contains(Ticket::from(2)), "it certainly has none");
    }

    #[test]
    fn c16_a_ticket_waits_at_its_place_until_that_is_not_found() {
        let (mut places, ticket) = (Places::default(), Ticket::from(1));
        places.joining(ticket);
        assert!(places.joined(&ask(1), &Ok(waiting(9))));
        assert_eq!(places.epoch(ticket), Some(9));
        places.not_found(ticket);
        assert_eq!((places.epoch(ticket), places.contains(ticket)), (None, true));
        places.cancelled(&name("x"), ticket);
        assert!(!places.contains(ticket));
    }

    #[test]
    fn c4_a_cancel_reaches_the_place_of_an_unknown_ticket() {
        let (mut places, x) = (Places::default(), name("x"));
        let ready = [1, 2, 3].map(Ticket::from);
        places.add_turn(&ask(2));
        places.leaving.add_orphan(&x, ready[2]);
        let mut polled = Polled { ready: ready.to_vec(), ..Polled::default() };
        places.polled(&x, &mut polled, false);
        assert_eq!(polled.ready, ready[..2], "a place that is being left is of no use");
        let has_place = ready.map(|ticket| places.may_have_place(&x, ticket));
        assert_eq!(has_place, [true, false, false], "a turn is no place");
        places.polled(&x, &mut polled, true);
        assert!(polled.ready.is_empty() && !places.may_have_place(&x, ready[0]));
    }

    #[test]
    fn c5_a_turn_that_is_certainly_not_there_is_forgotten() {
        let mut places = Places::default();
        let tickets = [1, 2, 3].map(Ticket::from);
        let refused = Acquire { queue: false, ..ask(2) };
        for ask in [&ask(1), &refused, &ask(3)] {
            places.add_turn(ask);
        }
        places.turn_answered(&ask(1), &Ok(waiting(1)));
        places.turn_answered(&refused, &Ok(waiting(1)));
        places.turn_answered(&ask(3), &Err(Error::new(ErrorKind::Unknown, "no answer")));
        assert_eq!(tickets.map(|ticket| places.is_turn(ticket)), [true, false, true]);
        places.turn_answered(&ask(3), &Err(unavailable()));
        assert!(places.is_turn(tickets[2]), "an earlier request may have been carried out");
        places.turn_answered(&ask(1), &Ok(Acquired::Cancelled));
        places.turn_ended(tickets[2]);
        assert!(!places.has_turns());
    }

    #[test]
    fn c16_only_what_a_crash_may_bring_back_is_left_again() {
        let (mut places, x, at) = (Places::default(), name("x"), now());
        for ticket in [1, 2] {
            drop(places.leaving.add(&x, Ticket::from(ticket), false));
        }
        let [old, new] = <[_; 2]>::try_from(places.leaving.take_immediate()).unwrap();
        places.leaving.left(old, at, at, true);
        let later = at + Duration::from_secs(10);
        places.leaving.left(new, later, later, true);
        places.leaving.repeat(later);
        let again = places.leaving.take_next(|_, _| true);
        assert_eq!(again.iter().map(|request| request.ticket).collect::<Vec<_>>(), [Ticket::from(2)]);
    }
}

mod outbound {
    use super::*;

    fn opened(outbound: &mut Outbound, at: Instant) -> u64 {
        let id = outbound.current_session();
        outbound.session_opened(id, 1, at);
        id
    }

    fn next(outbound: &mut Outbound, id: u64, at: Instant) -> NextAction {
        outbound.next_action(id, at, (PROBE_INTERVAL, false), |_| false)
    }

    #[test]
    fn c15_one_session_is_the_current_one_until_it_is_stuck() {
        let (mut outbound, at) = (Outbound::default(), now());
        let first = opened(&mut outbound, at);
        assert_eq!(outbound.current_session(), first);
        assert_eq!(outbound.session_overdue(first), Some(at));
        let is_overdue = |outbound: &Outbound| outbound.session(first).unwrap().is_overdue;
        assert!(is_overdue(&outbound));
        let second = outbound.current_session();
        assert_ne!(first, second);
        assert_eq!(outbound.take_sessions_to_start(), [first, second]);
        outbound.session_opened(second, 2, at);
        outbound.session_alive(first, Vec::new(), at + PROBE_INTERVAL);
        assert!(!is_overdue(&outbound));
        assert_eq!(outbound.current_session(), second, "one that was stuck gets no new tries");
        outbound.session_overdue(second);
        assert_eq!(outbound.current_session(), first, "nor is a third one made beside it");
    }

    fn request_try(outbound: &mut Outbound, of: &Name) -> u64 {
        let (reply, _answer) = tokio::sync::oneshot::channel();
        let (number, acquisition) = (outbound.next_number(), Acquisition::of(&ask(1)));
        outbound.try_lock(of, LockRequest { number, acquisition, cancelled: false, reply }, false);
        number
    }

    /// The server may have no room for another one.
    #[test]
    fn c28_a_session_that_was_late_serves_the_tries_that_wait_for_another() {
        let (mut outbound, at, x) = (Outbound::default(), now(), name("x"));
        let first = opened(&mut outbound, at);
        request_try(&mut outbound, &x);
        outbound.session_late(first);
        let second = outbound.current_session();
        assert_ne!(first, second);
        outbound.session_alive(first, Vec::new(), at);
        assert_eq!(outbound.current_session(), first);
        let NextAction::Send(batch) = next(&mut outbound, first, at) else { panic!("there is a try") };
        assert_eq!(batch.try_locks.len(), 1);
        // Once more: no third one is opened beside the second.
        request_try(&mut outbound, &name("y"));
        outbound.session_late(first);
        assert_eq!(outbound.current_session(), second);
        outbound.session_alive(first, Vec::new(), at);
        outbound.session_closed(second, Some(&unavailable()), at);
        assert!(outbound.refusal(at).is_none() && outbound.open_failure().is_none(), "there is the first");
    }

    #[test]
    fn c28_a_try_for_which_nobody_waits_is_not_handed_on() {
        let (mut outbound, at, x) = (Outbound::default(), now(), name("x"));
        let first = opened(&mut outbound, at);
        outbound.take_sessions_to_start();
        let number = request_try(&mut outbound, &x);
        outbound.attempts.withdraw(&x, number);
        outbound.session_late(first);
        assert!(!outbound.has_sessions_to_start());
    }

    #[test]
    fn c28_a_session_whose_opening_took_long_is_not_asked_at_once() {
        let (mut outbound, at, x) = (Outbound::default(), now(), name("x"));
        let first = opened(&mut outbound, at);
        request_try(&mut outbound, &x);
        let late = at + MAX_UNCHECKED_IDLE;
        assert!(matches!(next(&mut outbound, first, late), NextAction::Send(_)));
        request_try(&mut outbound, &name("y"));
        assert!(matches!(next(&mut outbound, first, late), NextAction::Ask), "later it is");
    }

    #[test]
    fn c27_a_try_is_sent_however_many_were_withdrawn_before_it() {
        let (mut outbound, at) = (Outbound::default(), now());
        let id = opened(&mut outbound, at);
        for number in 0..1_000 {
            let of = name(&number.to_string());
            let number = request_try(&mut outbound, &of);
            outbound.attempts.withdraw(&of, number);
        }
        request_try(&mut outbound, &name("x"));
        let NextAction::Send(batch) = next(&mut outbound, id, at) else { panic!("there is a try") };
        assert_eq!(batch.names(), [name("x")]);
    }

    #[test]
    fn c28_a_failure_to_open_is_the_answer_for_a_moment() {
        let (mut outbound, at) = (Outbound::default(), now());
        let id = outbound.current_session();
        assert!(outbound.session_closed(id, Some(&unavailable()), at).is_some());
        assert!(outbound.refusal(at).is_some());
        assert!(outbound.refusal(at + Duration::from_secs(1)).is_none());
        assert!(outbound.open_failure().is_some());
        opened(&mut outbound, at);
        assert!(outbound.refusal(at).is_none() && outbound.open_failure().is_none());
    }

    #[test]
    fn an_unlock_goes_before_a_try_and_a_probe_is_due_in_time() {
        let (mut outbound, at, x) = (Outbound::default(), now(), name("x"));
        let id = opened(&mut outbound, at);
        request_try(&mut outbound, &x);
        outbound.unlock(id, Unlock { name: x.clone(), ticket: None, is_recorded: false });
        let NextAction::Send(batch) = next(&mut outbound, id, at) else { panic!("there is work") };
        assert_eq!((batch.unlocks.len(), batch.try_locks.len()), (1, 1));
        assert_eq!(batch.names(), [x.clone(), x]);
        assert!(!batch.checks_requests);
        assert!(
            matches!(next(&mut outbound, id, at), NextAction::Sleep(until) if until == at + PROBE_INTERVAL)
        );
        let NextAction::Send(batch) = next(&mut outbound, id, at + PROBE_INTERVAL) else {
            panic!("a probe is due")
        };
        assert!(batch.checks_requests);
    }

    #[test]
    fn c4_a_withdrawn_request_is_not_sent() {
        let (mut outbound, at, x) = (Outbound::default(), now(), name("x"));
        let id = opened(&mut outbound, at);
        let number = request_try(&mut outbound, &x);
        assert!(outbound.attempts.withdraw(&x, number));
        assert!(matches!(next(&mut outbound, id, at), NextAction::Sleep(_)));
        assert!(!outbound.attempts.withdraw(&x, number), "it is not there any more");
    }

    #[test]
    fn hints_are_counted_until_they_are_taken() {
        let mut outbound = Outbound::default();
        outbound.add_hint(Ticket::from(1), Ticket::from(2));
        assert!(outbound.has_hints());
        assert_eq!(outbound.take_hints(), (vec![(Ticket::from(1), Ticket::from(2))], 1));
        assert_eq!((outbound.has_hints(), outbound.hint_count()), (false, 1));
    }
}
