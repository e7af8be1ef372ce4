//! The state of session mode, shared by callers, the engine and the tasks of the sessions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now};
use stanchion_core::steps::{ProcessId, Reports};
use stanchion_core::{Error, Name, Ticket, Ttl};
use tokio::sync::{Notify, watch};

use super::entry::{Entry, Place, Turn};
use super::errands::{Departure, Left};
use super::leaving::Leaving;
use super::load::Load;
use super::post::{Post, PostId};

/// Where callers leave what they want and the sessions take it.
#[derive(Debug)]
pub(super) struct Desk {
    /// Time limit of a request.
    pub(super) limit: Duration,
    state: Mutex<State>,
    /// Told when a session is to be started, or something falls due earlier than before.
    pub(super) stir: Notify,
    /// Told when there are places to give up.
    pub(super) departs: Notify,
    /// Told when there are hints to send.
    pub(super) tells: Notify,
    /// Told when there are holds that are not written yet.
    pub(super) grants: Notify,
    /// Told when there is something to remove of holds that have ended.
    pub(super) forgets: Notify,
    /// Told when that was tried.
    pub(super) forgot: Notify,
    /// How many were sent, or given up.
    pub(super) told: watch::Sender<u64>,
}

/// What has to be told to the engine once the state is unlocked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Ring(Ticket),
    Gone(Ticket),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) ttl: Ttl,
    /// Whose the places of this process are.
    pub(super) process: ProcessId,
    pub(super) names: HashMap<Name, Entry>,
    /// Tickets that are refused, and until when.
    pub(super) graves: HashMap<Ticket, Instant>,
    /// Who waits for the end of a hold that is being unlocked.
    pub(super) leaving: HashMap<Ticket, Leaving>,
    /// Tickets whose session ended with their unlock unanswered, and until when the server may keep it.
    pub(super) doubtful: HashMap<Ticket, Instant>,
    /// Graves are cleared away when there are so many.
    pub(super) many_graves: usize,
    /// Tickets that have a place in the queue, or may have one.
    pub(super) places: HashMap<Ticket, Place>,
    /// Of each name, the first in the queue by the last poll, if nobody of this process knows it.
    pub(super) orphans: HashMap<Name, Vec<Ticket>>,
    /// The turns of users' transactions, which are no holds of sessions.
    pub(super) turns: HashMap<Ticket, Turn>,
    /// Places to give up.
    pub(super) departures: Vec<Departure>,
    /// Tickets whose places are being given up at this moment.
    pub(super) departing_now: HashSet<Ticket>,
    /// Places that were given up a moment ago, oldest first.
    pub(super) left_lately: VecDeque<Left>,
    /// Hints to other processes.
    pub(super) hints: Vec<(ProcessId, Ticket)>,
    /// How many there were so far.
    pub(super) hinted: u64,
    pub(super) posts: HashMap<PostId, Post>,
    /// The session for tries.
    pub(super) shared: Option<PostId>,
    pub(super) numbers: u64,
    pub(super) unstarted: Vec<PostId>,
    /// No hold ends earlier.
    pub(super) ends_at: Option<Instant>,
    /// Why the last session could not be opened, and when another one may be.
    pub(super) trouble: Option<(Error, Instant)>,
    pub(super) load: Load,
    pub(super) events: Vec<Event>,
    pub(super) reports: Option<Reports>,
    /// Holds that are being written for others to see.
    pub(super) noting: HashSet<Ticket>,
    /// Holds that have ended, of which something may still be written.
    pub(super) forgotten: Vec<(Name, Ticket)>,
    /// Those of them that others may take for a new hold, until it was tried to remove what is written.
    pub(super) stale: HashSet<(Name, Ticket)>,
    /// There may be holds that are not written for others to see.
    pub(super) has_granted: bool,
    stirred: bool,
    /// Sessions that have something to do now.
    pub(super) woken: Vec<Arc<Notify>>,
}

impl Desk {
    pub(super) fn new(ttl: Ttl, limit: Duration, process: ProcessId) -> Self {
        let state = State {
            ttl,
            process,
            names: HashMap::new(),
            graves: HashMap::new(),
            leaving: HashMap::new(),
            doubtful: HashMap::new(),
            many_graves: 0,
            places: HashMap::new(),
            orphans: HashMap::new(),
            turns: HashMap::new(),
            departures: Vec::new(),
            departing_now: HashSet::new(),
            left_lately: VecDeque::new(),
            hints: Vec::new(),
            hinted: 0,
            posts: HashMap::new(),
            shared: None,
            numbers: 0,
            unstarted: Vec::new(),
            ends_at: None,
            trouble: None,
            load: Load::default(),
            events: Vec::new(),
            reports: None,
            noting: HashSet::new(),
            forgotten: Vec::new(),
            stale: HashSet::new(),
            has_granted: false,
            stirred: false,
            woken: Vec::new(),
        };
        let limit = ttl.request_limit(limit);
        Self {
            limit,
            state: Mutex::new(state),
            stir: Notify::new(),
            departs: Notify::new(),
            tells: Notify::new(),
            grants: Notify::new(),
            forgets: Notify::new(),
            forgot: Notify::new(),
            told: watch::Sender::new(0),
        }
    }

    /// Works on the state, and tells afterwards whom it concerns: a session that was woken before would find the state
    /// locked, and sleep once more.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut state);
        let (stirred, woken) = (std::mem::take(&mut state.stirred), std::mem::take(&mut state.woken));
        let (departs, tells) = (!state.departures.is_empty(), !state.hints.is_empty());
        let (grants, forgets) = (std::mem::take(&mut state.has_granted), !state.forgotten.is_empty());
        let told = if state.events.is_empty() {
            None
        } else {
            Some((std::mem::take(&mut state.events), state.reports.clone()))
        };
        drop(state);
        for session in woken {
            session.notify_one();
        }
        let all = [
            (stirred, &self.stir),
            (departs, &self.departs),
            (tells, &self.tells),
            (grants, &self.grants),
            (forgets, &self.forgets),
        ];
        for (told, of) in all {
            if told {
                of.notify_one();
            }
        }
        if let Some((events, Some(reports))) = told {
            for event in events {
                match event {
                    Event::Ring(ticket) => reports.wake(ticket),
                    Event::Gone(ticket) => reports.gone(ticket),
                }
            }
        }
        done
    }
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// What stirred it was seen to.
    pub(super) fn calm(&mut self) {
        self.stirred = false;
    }

    /// The session for tries, which is opened if there is none.
    pub(super) fn shared(&mut self) -> PostId {
        match self.shared {
            Some(id) if self.posts.contains_key(&id) => id,
            _ => {
                let id = self.number();
                self.posts.insert(id, Post::new(now()));
                self.unstarted.push(id);
                self.stir();
                self.shared = Some(id);
                id
            }
        }
    }

    /// Returns the number of open sessions.
    pub(super) fn open_sessions(&self) -> usize {
        self.posts.values().filter(|post| post.pid.is_some()).count()
    }

    /// Forgets a mutex that nothing is under way for.
    pub(super) fn tidy(&mut self, name: &Name) {
        if self.names.get(name).is_some_and(Entry::is_idle) {
            self.names.remove(name);
        }
    }

    /// A hold may end at that moment.
    pub(super) fn ends(&mut self, at: Instant) {
        if self.ends_at.is_none_or(|ends_at| at < ends_at) {
            self.ends_at = Some(at);
            self.stir();
        }
    }

    /// Refuses a ticket from now on, for a time.
    pub(super) fn bury(&mut self, ticket: Ticket, until: Instant) {
        if self.graves.len() >= self.many_graves {
            let at = now();
            self.graves.retain(|_, until| at < *until);
            self.many_graves = (2 * self.graves.len()).max(64);
        }
        self.graves.insert(ticket, until);
    }

    pub(super) fn is_buried(&self, ticket: Ticket, at: Instant) -> bool {
        self.graves.get(&ticket).is_some_and(|until| at < *until)
    }
}
