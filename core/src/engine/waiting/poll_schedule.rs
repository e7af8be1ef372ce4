//! When each waited-for object is polled next, and when the waiters of each lane give their next
//! sign of life.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::timing::POLL_INTERVAL;
use crate::spi::{Lane, Object};

/// A poll that is due within this time is made with those that are due now.
const SLACK: Duration = Duration::from_millis(20);

/// What is asked of one lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// The objects to poll.
    pub(crate) polls: Vec<Object>,
    /// The objects whose waiters only give a sign of life.
    pub(crate) places: Vec<Object>,
    /// Whether it is a sign of life of all waiters of the lane.
    pub(crate) is_sign: bool,
}

#[derive(Debug, Default)]
pub(crate) struct PollSchedule {
    /// When the next sign of life of each lane is due.
    signs: HashMap<Lane, Instant>,
    /// When each object is polled next; one that was not polled yet, with the next sign of life of
    /// its lane.
    polls: HashMap<Object, Instant>,
}

impl PollSchedule {
    pub(crate) fn clear(&mut self) {
        self.signs.clear();
        self.polls.clear();
    }

    /// Forgets all objects but these.
    pub(crate) fn retain(&mut self, objects: &[Object]) {
        if self.polls.len() > objects.len() {
            let waited_for: HashSet<&Object> = objects.iter().collect();
            self.polls.retain(|object, _| waited_for.contains(object));
        }
    }

    /// Returns what is due of a lane's objects.
    ///
    /// # Errors
    /// The time at which something will be due.
    pub(crate) fn round(&self, lane: Lane, objects: Vec<Object>, at: Instant) -> Result<Round, Instant> {
        let sign = self.signs.get(&lane).copied().unwrap_or(at);
        let due_of = |object: &Object| self.polls.get(object).copied().unwrap_or(sign);
        let first = objects.iter().map(due_of).min().unwrap_or(sign).min(sign);
        if first > at {
            return Err(first);
        }
        let (polls, mut places): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|object| due_of(object) <= at + SLACK);
        let is_sign = sign <= at;
        if !is_sign {
            places.clear();
        }
        Ok(Round { polls, places, is_sign })
    }

    /// Notes that a round has ended at `at`, whether it was a sign of life, and the pauses until
    /// the next polls of the objects that it polled.
    pub(crate) fn asked(&mut self, lane: Lane, is_sign: bool, pauses: Vec<(Object, Duration)>, at: Instant) {
        if is_sign {
            self.signs.insert(lane, at + POLL_INTERVAL);
        }
        self.polls.extend(pauses.into_iter().map(|(object, pause)| (object, at + pause)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::{Kind, Name};

    fn object(name: &str) -> Object {
        Object { kind: Kind::Mutex, name: Name::new(name).unwrap() }
    }

    fn round(polls: &[&str], places: &[&str], is_sign: bool) -> Round {
        let objects = |names: &[&str]| names.iter().map(|name| object(name)).collect();
        Round { polls: objects(polls), places: objects(places), is_sign }
    }

    fn lane(server: usize) -> Lane {
        Lane { server, queue: 0 }
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn c16_an_object_that_is_not_due_gives_a_sign_of_life_every_300_ms() {
        let (mut schedule, at) = (PollSchedule::default(), now());
        let objects = || vec![object("near"), object("far")];
        let all = Ok(round(&["near", "far"], &[], true));
        assert_eq!(schedule.round(lane(0), objects(), at), all);
        schedule.asked(lane(0), true, vec![(object("near"), 300 * MS), (object("far"), 900 * MS)], at);
        assert_eq!(schedule.round(lane(0), objects(), at + 299 * MS), Err(at + 300 * MS));
        for tick in [300, 600] {
            let at = at + tick * MS;
            assert_eq!(schedule.round(lane(0), objects(), at), Ok(round(&["near"], &["far"], true)));
            schedule.asked(lane(0), true, vec![(object("near"), 300 * MS)], at);
        }
        assert_eq!(schedule.round(lane(0), objects(), at + 900 * MS), all);
    }

    #[test]
    fn c8_the_end_of_a_lease_is_polled_for_between_two_signs_of_life() {
        let (mut schedule, at) = (PollSchedule::default(), now());
        let objects = || vec![object("ends"), object("far")];
        schedule.asked(lane(0), true, vec![(object("ends"), 100 * MS), (object("far"), 900 * MS)], at);
        assert_eq!(schedule.round(lane(0), objects(), at + 100 * MS), Ok(round(&["ends"], &[], false)));
        schedule.asked(lane(0), false, vec![(object("ends"), 900 * MS)], at + 301 * MS);
        // The sign of life was not given by that, however long it took.
        assert_eq!(schedule.round(lane(0), objects(), at + 301 * MS), Ok(round(&[], &["ends", "far"], true)));
        // A lane without a waiter so far has nothing to wait for.
        assert_eq!(schedule.round(lane(1), vec![object("new")], at), Ok(round(&["new"], &[], true)));
        schedule.retain(&[object("far")]);
        assert_eq!(schedule.polls.len(), 1);
    }
}
