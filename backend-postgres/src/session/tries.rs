//! Tries over the shared session.

use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::Acquired;
use stanchion_core::{Error, ErrorKind, Name, Result};

use super::asks::granted;
use super::desk::{Event, State};
use super::entry::{Asker, Attempt, Tried};
use super::load;
use super::post::PostId;
use super::wire::{NO_PLACE, NO_ROOM, Taken, token_of};

impl State {
    /// Has the lock tried over the shared session, with those who want it already. `reads_queue`: as for a ticket that has a place.
    pub(super) fn try_lock(&mut self, name: &Name, asker: Asker, reads_queue: bool) {
        if let Some(attempt) = self.names.get_mut(name).and_then(|entry| entry.attempt.as_mut()) {
            if attempt.sent {
                if let Some(entry) = self.names.get_mut(name) {
                    entry.behind.push(asker);
                }
            } else {
                attempt.reads_queue |= reads_queue;
                attempt.askers.push(asker);
            }
            return;
        }
        let number = self.number();
        self.send_try(name, Attempt { number, sent: false, reads_queue, askers: vec![asker] });
    }

    fn send_try(&mut self, name: &Name, attempt: Attempt) {
        let (number, shared) = (attempt.number, self.shared());
        self.names.entry(name.clone()).or_default().attempt = Some(attempt);
        if let Some(post) = self.posts.get_mut(&shared) {
            post.tries.push((name.clone(), number));
            self.woken.push(Arc::clone(&post.wake));
        }
    }

    /// Nobody waits for that request any more. Whether it was certainly not sent.
    pub(super) fn give_up(&mut self, name: &Name, number: u64) -> bool {
        let Some(entry) = self.names.get_mut(name) else { return false };
        let unsent =
            entry.attempt.iter_mut().filter(|attempt| !attempt.sent).map(|attempt| &mut attempt.askers);
        let mut found = false;
        for askers in unsent.chain([&mut entry.behind]) {
            let before = askers.len();
            askers.retain(|asker| asker.number != number);
            found |= askers.len() < before;
        }
        entry.attempt.take_if(|attempt| attempt.askers.is_empty());
        self.tidy(name);
        found
    }

    /// A try that was sent at `sent` is answered.
    pub(super) fn tried(&mut self, id: PostId, name: &Name, number: u64, taken: Taken, sent: Instant) {
        let entry = self.names.get_mut(name);
        let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
        let Some(mut attempt) = attempt else {
            if token_of(taken.answer).is_some() {
                self.unlock(id, name);
            }
            return;
        };
        let wants =
            |asker: &Asker| !asker.cancelled && taken.head.is_none_or(|head| asker.waiter.ticket == head);
        match token_of(taken.answer) {
            Some(token) => match attempt.askers.iter().position(wants) {
                Some(winner) => {
                    let Asker { waiter, caller, .. } = attempt.askers.remove(winner);
                    let left = self.depart(name, waiter.ticket);
                    self.hold(name, waiter, id, token, sent);
                    drop(caller.send(Ok(match left {
                        Some(left) => Tried::Leaving(granted(token), left),
                        None => Tried::Answered(granted(token)),
                    })));
                    self.refuse(attempt.askers, false);
                }
                None => {
                    self.unlock(id, name);
                    // It is the turn of a ticket of this process that has not asked, and is told so. Where it was cancelled, the
                    // cancel is under way, and wakes the next.
                    if let Some(head) = taken.head {
                        self.events.push(Event::Ring(head));
                        self.give_up_orphan(name, head);
                    }
                    self.refuse(attempt.askers, false);
                }
            },
            None if taken.answer == NO_ROOM => tell_all(attempt.askers, &load::full()),
            None if taken.answer == NO_PLACE && !attempt.reads_queue => {
                // There is a queue: who does not join it takes another look, which sees whether anybody in it is alive.
                attempt.askers.retain(|asker| !asker.cancelled);
                let joining = attempt.askers.extract_if(.., |asker| asker.waiter.queues).collect();
                self.refuse(joining, false);
                if !attempt.askers.is_empty() {
                    attempt.sent = false;
                    attempt.reads_queue = true;
                    attempt.askers.append(&mut self.behind(name));
                    return self.send_try(name, attempt);
                }
            }
            None => self.refuse(attempt.askers, taken.answer == NO_PLACE),
        }
        self.follow(name);
    }

    /// Tells those whose try was in vain. `has_no_place`: that was seen of the first of them that had one, if any. Then the record
    /// is lost, or the process was silent for too long, and so it is for the others.
    fn refuse(&mut self, askers: Vec<Asker>, has_no_place: bool) {
        for asker in askers {
            let ticket = asker.waiter.ticket;
            if has_no_place && let Some(place) = self.places.get_mut(&ticket) {
                place.epoch = None;
            }
            let has_place = self.place(ticket).is_some();
            let refused = if asker.cancelled {
                Tried::Answered(Acquired::Cancelled)
            } else {
                Tried::Refused { has_place }
            };
            drop(asker.caller.send(Ok(refused)));
        }
    }

    /// Tries were not carried out, or may not have been.
    pub(super) fn untried(&mut self, tries: impl IntoIterator<Item = (Name, u64)>, error: &Error) {
        for (name, number) in tries {
            let entry = self.names.get_mut(&name);
            let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
            if let Some(attempt) = attempt {
                tell_all(attempt.askers, error);
                let unsent = Error::new(ErrorKind::Unavailable, "another try of it was not answered");
                tell_all(self.behind(&name), &unsent);
            }
            self.tidy(&name);
        }
    }

    /// The try under way has ended. Those behind it learn that somebody of this process holds it, or else the next try is theirs.
    fn follow(&mut self, name: &Name) {
        let behind = self.behind(name);
        if self.names.get(name).is_some_and(|entry| entry.held.is_some()) {
            self.refuse(behind, false);
        } else if !behind.is_empty() {
            let reads_queue = behind.iter().any(|asker| self.place(asker.waiter.ticket).is_some());
            let number = self.number();
            self.send_try(name, Attempt { number, sent: false, reads_queue, askers: behind });
        }
    }

    fn behind(&mut self, name: &Name) -> Vec<Asker> {
        self.names.get_mut(name).map(|entry| std::mem::take(&mut entry.behind)).unwrap_or_default()
    }
}

fn tell_all(askers: Vec<Asker>, error: &Error) {
    for asker in askers {
        let answer: Result<Tried> = Err(error.replicate());
        drop(asker.caller.send(answer));
    }
}
