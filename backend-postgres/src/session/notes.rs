//! Who holds a mutex, written for other processes to see once it is held for a while: short holds do not pay for it. The session
//! that unlocks it removes what is written; what it could not remove at once is removed here.

use std::pin::pin;
use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep, timeout_at};
use stanchion_core::steps::Acquire;
use stanchion_core::{Name, Ticket};

use super::desk::{Desk, State};
use super::post::Unlock;
use crate::steps::{Note, PostgresSteps};

/// A hold is written once it is so old.
const OLD: Duration = Duration::from_millis(300);
/// Between two writes. With [`OLD`] and the time of a request, a hold is written within a second.
const PAUSE: Duration = Duration::from_millis(400);
/// After something could not be removed.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The pauses after writes that failed grow up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Those after something could not be removed: for so long an earlier holder can be shown.
const LONGEST_LEFT: Duration = Duration::from_secs(1);
/// Holds of one request.
const BATCH: usize = 256;

impl State {
    /// The holds to be written next, the oldest first, and how many there are that are not written yet.
    fn unnoted(&mut self, at: Instant) -> (Vec<Note>, usize) {
        let held = self.names.iter_mut().filter_map(|(name, entry)| Some((name, entry.held.as_mut()?)));
        let mut unnoted: Vec<_> = held.filter(|(_, held)| !held.is_noted).collect();
        let count = unnoted.len();
        unnoted.retain(|(_, held)| at.saturating_duration_since(held.since) >= OLD);
        unnoted.sort_by_key(|(_, held)| held.since);
        let mut notes = Vec::new();
        for (name, held) in unnoted.into_iter().take(BATCH) {
            let Some(pid) = self.posts.get(&held.post).and_then(|post| post.pid) else { continue };
            held.is_noted = true;
            let (ticket, token, label) = (held.ticket, held.token, held.label.clone());
            let age = at.saturating_duration_since(held.since);
            notes.push(Note { name: name.clone(), pid, ticket, token, age, label });
        }
        notes.sort_by(|one, other| one.name.cmp(&other.name));
        self.noting.extend(notes.iter().map(|note| note.ticket));
        (notes, count)
    }

    /// These holds are written, or not. What may be written of those that have ended meanwhile is removed.
    fn noted(&mut self, notes: Vec<Note>, are_written: bool) {
        for Note { name, ticket, .. } in notes {
            self.noting.remove(&ticket);
            match self.names.get_mut(&name).and_then(|entry| entry.held_by(ticket)) {
                Some(held) => {
                    held.is_noted = are_written;
                    // Granted anew under the same ticket.
                    self.stale.remove(&(name, ticket));
                }
                None => self.forget_one(name, ticket),
            }
        }
    }

    /// Has removed what may be written of a hold that has ended.
    pub(super) fn forget_later(&mut self, unlock: &Unlock) {
        if let Some(ticket) = unlock.ticket.filter(|_| unlock.is_noted) {
            self.forget_one(unlock.name.clone(), ticket);
        }
    }

    fn forget_one(&mut self, name: Name, ticket: Ticket) {
        self.stale.insert((name.clone(), ticket));
        self.forgotten.push((name, ticket));
    }

    /// Whether others may still be told of an earlier hold of one of these mutexes.
    fn is_any_stale<'n>(&self, mut names: impl Iterator<Item = &'n Name>) -> bool {
        !self.stale.is_empty() && names.any(|name| self.stale.iter().any(|(stale, _)| stale == name))
    }

    /// What is to be removed next.
    fn forgetting(&mut self) -> Vec<(Name, Ticket)> {
        let count = self.forgotten.len().min(BATCH);
        let mut ended: Vec<_> = self.forgotten.drain(..count).collect();
        ended.sort_unstable();
        ended
    }
}

/// Writes holds.
pub(super) async fn note(desk: &Desk, steps: &PostgresSteps) {
    let mut pause = PAUSE;
    loop {
        desk.grants.notified().await;
        loop {
            sleep(pause).await;
            let (notes, count) = desk.with(|state| state.unnoted(now()));
            if count == 0 {
                break;
            }
            if notes.is_empty() {
                continue;
            }
            let is_full = notes.len() == BATCH;
            let written = steps.note(&notes).await;
            if let Err(error) = &written {
                tracing::debug!(
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "who holds mutexes could not be written yet"
                );
            }
            let are_written = matches!(written, Ok(true));
            desk.with(|state| state.noted(notes, are_written));
            pause = match are_written {
                true if is_full => Duration::ZERO,
                true => PAUSE,
                false => (pause.max(PAUSE) * 2).min(LONGEST_PAUSE),
            };
        }
    }
}

/// Removes what is written of holds that have ended, again and again until it is done.
pub(super) async fn forget(desk: &Desk, steps: &PostgresSteps) {
    let mut pause = FIRST_PAUSE;
    loop {
        let ended = desk.with(State::forgetting);
        if ended.is_empty() {
            pause = FIRST_PAUSE;
            desk.forgets.notified().await;
            continue;
        }
        let answer = steps.forget(&ended).await;
        if let Err(error) = &answer {
            tracing::debug!(
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "what was written of holds could not be removed yet"
            );
        }
        let is_left = |ticket: &Ticket| answer.as_ref().map_or(true, |left| left.contains(ticket));
        let any_left = desk.with(|state| {
            for of in &ended {
                // What is being written is removed once that is over.
                if !state.noting.contains(&of.1) {
                    state.stale.remove(of);
                }
            }
            let left: Vec<_> = ended.into_iter().filter(|(_, ticket)| is_left(ticket)).collect();
            let any_left = !left.is_empty();
            state.forgotten.extend(left);
            any_left
        });
        desk.forgot.notify_waiters();
        if any_left {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LEFT);
        }
    }
}

/// Waits until it was tried to remove what is written of earlier holds of these mutexes, for a quarter of a request's time at
/// most: the session may hold them again next, and would be taken for the earlier holder.
pub(super) async fn forgotten(desk: &Desk, asks: &[&Acquire]) {
    // Others of a batch wait, too.
    let end = now() + desk.limit / 4;
    loop {
        let mut tried = pin!(desk.forgot.notified());
        tried.as_mut().enable();
        let is_over = !desk.with(|state| state.is_any_stale(asks.iter().map(|ask| &ask.object.name)));
        if is_over || timeout_at(end, tried).await.is_err() {
            return;
        }
    }
}
