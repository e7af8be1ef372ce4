//! Tries over the shared session.

use std::collections::VecDeque;
use std::sync::Arc;

use stanchion_core::clock::Instant;
use stanchion_core::steps::Acquired;
use stanchion_core::{Error, ErrorKind, FencingToken, Name, Result};
use tokio::sync::oneshot;

use super::asks::{Asked, WAITING};
use super::desk::State;
use super::entry::{Attempt, Caller, Waiter};
use super::load;
use super::post::PostId;
use super::wire::token_of;

impl State {
    /// Has the lock tried over the shared session.
    pub(super) fn try_lock(
        &mut self,
        name: &Name,
        waiter: Waiter,
        queues: bool,
        caller: Option<Caller<Acquired>>,
    ) -> u64 {
        let number = self.number();
        self.send_try(name, Attempt { waiter, number, sent: None, cancelled: false, queues, caller });
        number
    }

    fn send_try(&mut self, name: &Name, attempt: Attempt) {
        let (number, shared) = (attempt.number, self.shared());
        self.names.entry(name.clone()).or_default().attempt = Some(attempt);
        if let Some(post) = self.posts.get_mut(&shared) {
            post.tries.push((name.clone(), number));
            self.woken.push(Arc::clone(&post.wake));
        }
    }

    /// Nobody waits for that attempt any more. Whether it was certainly not sent.
    pub(super) fn give_up(&mut self, name: &Name, number: u64) -> bool {
        let Some(entry) = self.names.get_mut(name) else { return false };
        let behind = entry.behind.len();
        entry.behind.retain(|attempt| attempt.number != number);
        if entry.behind.len() < behind {
            return true;
        }
        let unsent = entry.attempt.take_if(|attempt| attempt.number == number && attempt.sent.is_none());
        if unsent.is_some() {
            self.follow(name);
            self.seek(name);
            self.tidy(name);
        }
        unsent.is_some()
    }

    /// A try that has to wait for the outcome of the one that is under way.
    pub(super) fn try_behind(&mut self, name: &Name, waiter: Waiter) -> Asked<Acquired> {
        let (caller, answer) = oneshot::channel();
        let number = self.number();
        if let Some(entry) = self.names.get_mut(name) {
            let caller = Some(caller);
            entry.behind.push_back(Attempt {
                waiter,
                number,
                sent: None,
                cancelled: false,
                queues: false,
                caller,
            });
        }
        Asked::Sent(number, answer)
    }

    /// A try is answered.
    pub(super) fn tried(&mut self, id: PostId, name: &Name, number: u64, token: i64, sent: Instant) {
        let granted = token_of(token);
        let entry = self.names.get_mut(name);
        let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
        match (attempt, granted) {
            (None, None) => {}
            (None, Some(_)) => self.unlock(id, name, None),
            (Some(attempt), Some(token)) => {
                self.won(id, name, attempt, token, sent);
                self.follow(name);
            }
            (Some(attempt), None) => {
                let answer = if token < 0 { Err(load::full()) } else { Ok(WAITING) };
                let sent = attempt.sent;
                self.failed(name, attempt, &answer);
                self.tell_behind(name, &answer, |behind| Some(behind.number) <= sent);
                self.follow(name);
            }
        }
    }

    fn won(&mut self, id: PostId, name: &Name, attempt: Attempt, token: FencingToken, sent: Instant) {
        match attempt.caller {
            Some(caller) if !attempt.cancelled => {
                self.hold(name, attempt.waiter, id, token, sent);
                drop(caller.send(Ok(Acquired::Granted { token, limit: 1, epoch: 0 })));
            }
            caller => {
                if let Some(caller) = caller {
                    drop(caller.send(Ok(Acquired::Cancelled)));
                }
                if !self.hand(name, id, token, sent) {
                    self.unlock(id, name, None);
                }
            }
        }
    }

    fn failed(&mut self, name: &Name, attempt: Attempt, answer: &Result<Acquired>) {
        let Some(caller) = attempt.caller else { return };
        if attempt.cancelled {
            drop(caller.send(Ok(Acquired::Cancelled)));
            return;
        }
        if let Some(entry) = self.names.get_mut(name).filter(|_| attempt.queues && answer.is_ok()) {
            entry.queue.push_front(attempt.waiter);
        }
        drop(caller.send(replicate(answer)));
    }

    /// Tries were not carried out, or may not have been.
    pub(super) fn untried(&mut self, tries: Vec<(Name, u64)>, error: &Error) {
        for (name, number) in tries {
            let entry = self.names.get_mut(&name);
            let attempt = entry.and_then(|entry| entry.attempt.take_if(|attempt| attempt.number == number));
            if let Some(attempt) = attempt {
                if let Some(caller) = attempt.caller {
                    drop(caller.send(Err(error.replicate())));
                }
                let unsent = Error::new(ErrorKind::Unavailable, "another try of it was not answered");
                self.tell_behind(&name, &Err(unsent), |_| true);
            }
            self.seek(&name);
            self.tidy(&name);
        }
    }

    /// The try under way has ended. Those behind it learn that somebody of this process holds it or waits, or else the
    /// next one tries.
    fn follow(&mut self, name: &Name) {
        let Some(entry) = self.names.get_mut(name) else { return };
        if entry.held.is_some() || !entry.queue.is_empty() {
            self.tell_behind(name, &Ok(WAITING), |_| true);
        } else if let Some(next) = entry.behind.pop_front() {
            self.send_try(name, next);
        }
    }

    /// Answers those behind a try of which that is so.
    fn tell_behind(&mut self, name: &Name, answer: &Result<Acquired>, which: impl Fn(&Attempt) -> bool) {
        let Some(entry) = self.names.get_mut(name) else { return };
        let (told, rest): (VecDeque<_>, _) = std::mem::take(&mut entry.behind).into_iter().partition(which);
        entry.behind = rest;
        for caller in told.into_iter().filter_map(|attempt| attempt.caller) {
            drop(caller.send(replicate(answer)));
        }
    }
}

fn replicate(answer: &Result<Acquired>) -> Result<Acquired> {
    answer.as_ref().cloned().map_err(Error::replicate)
}
