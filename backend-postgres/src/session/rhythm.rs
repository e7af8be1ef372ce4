//! What falls due by itself.

use std::time::Duration;

use stanchion_core::clock::Instant;

use super::desk::{Event, State};
use super::post::PostId;

/// A session with holds is probed that often, or each third of the TTL, so that its end is noticed.
const PROBE: Duration = Duration::from_millis(250);
/// For so long the session stays with nothing to do.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// After a session could not be opened (C28).
pub(super) const RETRY: Duration = Duration::from_millis(500);

impl State {
    /// Between two probes of a session.
    pub(super) fn every(&self, id: PostId) -> Duration {
        let third = self.ttl.renewal();
        let holds = self.posts.get(&id).is_some_and(|post| post.holds > 0);
        if holds { third.min(PROBE) } else { third }
    }

    /// Does what is due. Returns the sessions to be started, and when to look again.
    pub(super) fn tick_and_start(&mut self, at: Instant) -> (Vec<PostId>, Option<Instant>) {
        if self.ends_at.is_some_and(|ends_at| ends_at <= at) {
            self.sweep(at);
        }
        // What it stirred is in the answer: to be woken for it would be to look again and again.
        self.calm();
        (std::mem::take(&mut self.unstarted), self.ends_at)
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
}
