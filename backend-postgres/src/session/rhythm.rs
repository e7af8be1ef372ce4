//! What falls due by itself.

use std::time::Duration;

use stanchion_core::Name;
use stanchion_core::clock::Instant;

use super::desk::{Event, State};
use super::post::PostId;

/// A session with holds is probed that often, or each third of the TTL, so that its end is noticed.
const PROBE: Duration = Duration::from_millis(400);
/// Between two tries of the mutexes that no session waits for.
const TRIES: Duration = Duration::from_millis(250);
/// After a session broke or could not be opened, before the next one is opened to wait.
pub(super) const RETRY: Duration = Duration::from_millis(200);
/// For so long the session for tries stays with nothing to do, and those that waited.
pub(super) const SHARED_IDLE: Duration = Duration::from_secs(60);
pub(super) const EXTRA_IDLE: Duration = Duration::from_secs(10);

impl State {
    /// Between two probes of a session.
    pub(super) fn every(&self, id: PostId) -> Duration {
        let third = self.ttl.renewal();
        let Some(post) = self.posts.get(&id) else { return third };
        let busy = post.holds > 0 || (post.shared && self.posts.values().any(|post| post.job.is_some()));
        if busy { third.min(PROBE) } else { third }
    }

    /// Does what is due. Returns the sessions to be started, and when to look again.
    pub(super) fn tick_and_start(&mut self, at: Instant) -> (Vec<PostId>, Option<Instant>) {
        let next = self.tick(at);
        // What it stirred is in the answer: to be woken for it would be to look again and again.
        self.calm();
        (std::mem::take(&mut self.unstarted), next)
    }

    fn tick(&mut self, at: Instant) -> Option<Instant> {
        if self.ends_at.is_some_and(|ends_at| ends_at <= at) {
            self.sweep(at);
        }
        let waits = self.posts.values().any(|post| post.job.is_some());
        if waits && at >= self.waits_at {
            // It notices if the server goes away.
            self.shared();
        }
        let starved = self.serve_starved(at);
        let waits = waits.then_some(self.waits_at).filter(|waits_at| *waits_at > at);
        [self.ends_at, starved, waits].into_iter().flatten().min()
    }

    /// Unlocks what nobody renewed (C8).
    fn sweep(&mut self, at: Instant) {
        let held = self.names.iter().filter_map(|(name, entry)| Some((name, entry.held.as_ref()?)));
        let ended: Vec<_> = held
            .clone()
            .filter(|(_, held)| held.until <= at)
            .map(|(name, held)| (name.clone(), held.ticket))
            .collect();
        self.ends_at = held.map(|(_, held)| held.until).filter(|until| *until > at).min();
        for (name, ticket) in ended {
            drop(self.free(&name, ticket));
            self.events.push(Event::Gone(ticket));
        }
    }

    /// Gives the starved a session, or else a try, each first waiter in the order of arrival.
    fn serve_starved(&mut self, at: Instant) -> Option<Instant> {
        if self.starved.is_empty() {
            return None;
        }
        let starved: Vec<Name> = self.starved.drain(..).collect();
        for name in &starved {
            if let Some(entry) = self.names.get_mut(name) {
                entry.starved = false;
            }
            self.seek(name);
            // A try is under way for it.
            if let Some(entry) = self.names.get_mut(name)
                && !entry.starved
                && entry.waits.is_none()
                && !entry.queue.is_empty()
            {
                entry.starved = true;
                self.starved.push_back(name.clone());
            }
        }
        if at >= self.tries_at {
            self.tries_at = at + TRIES;
            for name in self.starved.clone() {
                let entry = self.names.get(&name);
                let entry = entry.filter(|entry| entry.attempt.is_none() && entry.held.is_none());
                if let Some(first) = entry.and_then(|entry| entry.queue.front()).cloned() {
                    self.try_lock(&name, first, false, None);
                }
            }
        }
        (!self.starved.is_empty()).then_some(self.tries_at)
    }
}
