//! Who holds a mutex, written for other processes to see once it is held for a while: short holds do not pay for it.

use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::{Name, Ticket};

use super::desk::{Desk, State};
use crate::steps::{Note, PostgresSteps};

/// A hold is written once it is so old.
const OLD: Duration = Duration::from_millis(300);
/// Between two writes. With [`OLD`] and the time of a request, a hold is written within a second.
const PAUSE: Duration = Duration::from_millis(400);
/// Holds of one request.
const BATCH: usize = 256;

impl State {
    /// The holds to be written next, and whether there are more.
    fn unnoted(&mut self, at: Instant) -> (Vec<Note>, bool) {
        let (mut notes, mut are_more) = (Vec::new(), false);
        for (name, entry) in &mut self.names {
            let Some(held) = entry.held.as_mut().filter(|held| !held.is_noted) else { continue };
            let age = at.saturating_duration_since(held.since);
            let pid = self.posts.get(&held.post).and_then(|post| post.pid);
            let Some(pid) = pid.filter(|_| age >= OLD && notes.len() < BATCH) else {
                are_more = true;
                continue;
            };
            held.is_noted = true;
            let (ticket, token, label) = (held.ticket, held.token, held.label.clone());
            notes.push(Note { name: name.clone(), pid, ticket, token, age, label });
        }
        notes.sort_by(|one, other| one.name.cmp(&other.name));
        (notes, are_more)
    }

    /// These holds are written, or not. Returns those that have ended meanwhile: what is written of them is removed again.
    fn noted(&mut self, notes: Vec<Note>, are_written: bool) -> Vec<(Name, Ticket)> {
        let mut ended = Vec::new();
        for Note { name, ticket, .. } in notes {
            match self.names.get_mut(&name).and_then(|entry| entry.held_by(ticket)) {
                Some(held) => held.is_noted = are_written,
                None => ended.push((name, ticket)),
            }
        }
        ended
    }
}

/// Writes holds, again and again until it is done.
pub(super) async fn note(desk: &Desk, steps: &PostgresSteps) {
    let mut ended = Vec::new();
    loop {
        desk.grants.notified().await;
        loop {
            sleep(PAUSE).await;
            let (notes, mut are_more) = desk.with(|state| state.unnoted(now()));
            if !notes.is_empty() || !ended.is_empty() {
                let written = steps.note(&notes, &ended).await;
                if written.is_ok() {
                    ended.clear();
                }
                if let Err(error) = &written {
                    tracing::debug!(%error, "who holds mutexes could not be written yet");
                }
                are_more |= written.is_err();
                ended.extend(desk.with(|state| state.noted(notes, written.is_ok())));
            }
            if !are_more && ended.is_empty() {
                break;
            }
        }
    }
}
