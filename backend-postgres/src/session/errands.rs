//! What is sent over the engine's connections beside the sessions: places of those who hold by now, and hints to others.

use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::steps::Object;
use stanchion_core::{Kind, Name, Ticket, Ttl};
use tokio::sync::oneshot;

use super::desk::{Desk, State};
use crate::steps::{self, PostgresSteps};

/// Places or hints of one request.
const BATCH: usize = 256;
/// After a place could not be given up.
const PAUSE: Duration = Duration::from_millis(50);
/// A crash of the server may lose what was written so long ago: three times the default of `wal_writer_delay`, and more.
const UNSAFE: Duration = Duration::from_secs(2);

/// A place to give up, and who is told so.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) name: Name,
    pub(super) ticket: Ticket,
    /// The mutex was unlocked when this was sent: while the place is there, the next waiter tries in vain.
    pub(super) is_free: bool,
    /// The request that joined the queue may be there once more.
    was_cut: bool,
    /// The session that granted the mutex could not give it up at once.
    was_tried: bool,
    left: Option<oneshot::Sender<()>>,
}

impl Departure {
    /// Of a place that the engine's connections give up, and nobody waits for that.
    fn of(name: &Name, ticket: Ticket) -> Self {
        let name = name.clone();
        Self { name, ticket, is_free: false, was_cut: false, was_tried: true, left: None }
    }

    pub(super) fn place(&self, ttl: Ttl) -> steps::Place {
        let object = Object { kind: Kind::Mutex, name: self.name.clone() };
        let tombstone = self.was_cut.then(|| ttl.max(Ttl::DEFAULT));
        steps::Place { object, ticket: self.ticket, is_free: self.is_free, tombstone }
    }
}

/// A place that was given up.
#[derive(Debug)]
pub(super) struct Left {
    at: Instant,
    name: Name,
    ticket: Ticket,
}

impl State {
    /// Has the place of a ticket given up that does not wait any more. `None` if it has none.
    pub(super) fn depart(&mut self, name: &Name, ticket: Ticket) -> Option<oneshot::Receiver<()>> {
        let was_cut = self.places.remove(&ticket)?.unanswered > 0;
        let (left, told) = oneshot::channel();
        let departure =
            Departure { was_cut, was_tried: false, left: Some(left), ..Departure::of(name, ticket) };
        self.departures.push(departure);
        Some(told)
    }

    /// Has the place of a ticket given up that nobody of this process knows.
    pub(super) fn give_up_orphan(&mut self, name: &Name, ticket: Ticket) {
        let departs = || self.departures.iter().any(|departure| departure.ticket == ticket);
        if !self.places.contains_key(&ticket) && !departs() {
            let orphan = Departure { is_free: true, was_cut: true, ..Departure::of(name, ticket) };
            self.departures.push(orphan);
        }
    }

    /// How many places of a name this process is giving up.
    pub(super) fn departing_of(&self, name: &Name) -> u64 {
        self.departures.iter().filter(|departure| departure.name == *name).map(|_| 1).sum()
    }

    /// The places of grants of a moment ago, which the session that made them gives up itself.
    pub(super) fn departing_at_once(&mut self) -> Vec<Departure> {
        let taken: Vec<_> = self.departures.extract_if(.., |departure| !departure.was_tried).collect();
        self.departing_now.extend(taken.iter().map(|departure| departure.ticket));
        taken
    }

    /// Places that could not be given up: the engine's connections do.
    pub(super) fn depart_later(&mut self, departures: impl IntoIterator<Item = Departure>) {
        for departure in departures {
            self.departing_now.remove(&departure.ticket);
            self.departures.push(Departure { was_tried: true, ..departure });
        }
    }

    /// The places that are given up next.
    pub(super) fn departing(&mut self) -> Vec<Departure> {
        let mut taken: Vec<Departure> = self.departures.drain(..self.departures.len().min(BATCH)).collect();
        for departure in &mut taken {
            departure.is_free = self.holder(&departure.name, departure.ticket).is_none();
            self.departing_now.insert(departure.ticket);
        }
        taken
    }

    /// The ticket queues anew: what was to be given up of it before is not. `false` if that is under way at this moment.
    pub(super) fn stays(&mut self, ticket: Ticket) -> bool {
        self.departures.retain(|departure| departure.ticket != ticket);
        self.left_lately.retain(|left| left.ticket != ticket);
        !self.departing_now.contains(&ticket)
    }

    /// That place is given up.
    pub(super) fn departed(&mut self, departure: Departure, at: Instant) {
        let Departure { name, ticket, is_free, was_cut, left, .. } = departure;
        self.departing_now.remove(&ticket);
        if !is_free && self.holder(&name, ticket).is_none() {
            let again = Departure { is_free: true, was_cut, ..Departure::of(&name, ticket) };
            self.departures.push(again);
        }
        if let Some(left) = left {
            // Whoever waited for it may have gone.
            let _ = left.send(());
        }
        // What a session that is there was heard after is on the disk.
        let heard = self.posts.values().filter_map(|post| post.heard).min().unwrap_or(at);
        while self.left_lately.front().is_some_and(|left| left.at + UNSAFE < heard) {
            self.left_lately.pop_front();
        }
        self.left_lately.push_back(Left { at, name, ticket });
    }

    /// A session broke that was heard last at `heard`: if the server crashed, the places that were given up since shortly before are
    /// there again.
    pub(super) fn depart_again(&mut self, heard: Instant) {
        let left = std::mem::take(&mut self.left_lately).into_iter();
        let unsafe_ones = left.filter(|left| left.at + UNSAFE >= heard);
        let departure = |left: Left| Departure::of(&left.name, left.ticket);
        self.departures.extend(unsafe_ones.map(departure));
    }
}

/// Gives up places, again and again until it is done. A name that somebody keeps locked delays no other.
pub(super) async fn give_up_places(desk: &Desk, steps: &PostgresSteps) {
    loop {
        let (departing, ttl) = desk.with(|state| (state.departing(), state.ttl));
        if departing.is_empty() {
            desk.departs.notified().await;
            continue;
        }
        let places: Vec<_> = departing.iter().map(|departure| departure.place(ttl)).collect();
        let answers = steps.leave_places(&places).await;
        let at = now();
        let mut failed = Vec::new();
        for (departure, answer) in departing.into_iter().zip(answers) {
            match answer {
                Ok(()) => desk.with(|state| state.departed(departure, at)),
                Err(error) => {
                    tracing::debug!(
                        stanchion.kind = Kind::Mutex.as_str(),
                        stanchion.name = departure.name.as_str(),
                        error.type = error.kind().as_str(),
                        exception.message = ?error,
                        "a place could not be given up yet"
                    );
                    failed.push(departure);
                }
            }
        }
        if !failed.is_empty() {
            desk.with(|state| state.depart_later(failed));
            sleep(PAUSE).await;
        }
    }
}

/// Sends hints.
pub(super) async fn tell(desk: &Desk, steps: &PostgresSteps) {
    loop {
        let (hints, noted) = desk.with(|state| (std::mem::take(&mut state.hints), state.hinted));
        if hints.is_empty() {
            desk.tells.notified().await;
        } else {
            for hints in hints.chunks(BATCH) {
                steps.tell(hints).await;
            }
            desk.told.send_replace(noted);
        }
    }
}
