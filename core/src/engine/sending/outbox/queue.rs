//! The requests to deliver, by lane and in the order of each ticket.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::Ticket;
use crate::spi::{Lane, Request};

/// How long a channel of which all requests failed rests at first. It doubles up to [`LAST_REST`].
const FIRST_REST: Duration = Duration::from_millis(20);
/// Maximum rest of a channel.
const LAST_REST: Duration = Duration::from_millis(500);

/// The requests of one lane: they leave together, one batch at a time, independent of other
/// channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Channel {
    pub(super) lane: Lane,
    /// They failed before. What is new does not wait for them: an entry can fail on its own, again
    /// and again (C27).
    pub(super) is_again: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) channel: Channel,
    pub(super) request: Request,
    /// From this moment on, what the request would free is free without it.
    pub(super) give_up: Option<Instant>,
}

impl Entry {
    fn ticket(&self) -> Ticket {
        self.request.ended_ticket().unwrap_or(Ticket::NONE)
    }
}

/// The requests of one channel. It exists only while a request of the channel is queued or under
/// way.
#[derive(Debug)]
struct Backlog {
    entries: VecDeque<Entry>,
    /// Number of entries of the request under way.
    under_way: usize,
    /// Pause after the next failure.
    pause: Duration,
    /// It has no entries, and is kept for its pause.
    is_idle: bool,
}

impl Backlog {
    fn new() -> Self {
        Self { entries: VecDeque::new(), under_way: 0, pause: FIRST_REST, is_idle: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    backlogs: HashMap<Channel, Backlog>,
    /// The tickets of all requests that are neither delivered nor given up, with later requests of
    /// the same ticket: the one that the store executes first decides how a hold ended.
    behind: HashMap<Ticket, VecDeque<Entry>>,
    /// Channels to serve that have nothing under way.
    ready: VecDeque<Channel>,
    pub(super) stopping: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.behind.is_empty()
    }

    /// Returns whether `full` entries, of that server if one is given, failed before, or are behind
    /// a batch that failed.
    pub(super) fn is_full(&self, server: Option<usize>, full: usize) -> bool {
        let count = |channel: Channel| {
            self.backlogs.get(&channel).map_or(0, |backlog| backlog.entries.len() + backlog.under_way)
        };
        self.backlogs.iter().any(|(channel, backlog)| {
            let again = Channel { is_again: true, ..*channel };
            let new = if channel.is_again || backlog.pause == FIRST_REST { 0 } else { count(*channel) };
            server.is_none_or(|server| server == channel.lane.server) && count(again) + new >= full
        })
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn add(&mut self, entry: Entry) {
        match self.behind.entry(entry.ticket()) {
            Slot::Occupied(behind) => behind.into_mut().push_back(entry),
            Slot::Vacant(first) => {
                first.insert(VecDeque::new());
                self.enqueue(entry);
            }
        }
    }

    fn enqueue(&mut self, entry: Entry) {
        let channel = entry.channel;
        let backlog = self.backlogs.entry(channel).or_insert_with(|| {
            self.ready.push_back(channel);
            Backlog::new()
        });
        if std::mem::take(&mut backlog.is_idle) {
            self.ready.push_back(channel);
        }
        backlog.entries.push_back(entry);
    }

    /// Takes the next batch of a channel that is ready. It is under way until it is
    /// [settled](Self::settle).
    pub(super) fn take(&mut self) -> Option<(Channel, Vec<Entry>)> {
        let channel = self.ready.pop_front()?;
        let backlog = self.backlogs.get_mut(&channel)?;
        let most = backlog.entries.front().map_or(0, |entry| entry.request.kind().maximum_batch());
        backlog.under_way = backlog.entries.len().min(most);
        Some((channel, backlog.entries.drain(..backlog.under_way).collect()))
    }

    /// Ends a batch. Entries that `failed` are sent again apart from new ones, unless it is time to
    /// give them up. Returns the channels that have to [rest](Self::rested), and for how long: a
    /// channel of which all failed, and that of what failed.
    pub(super) fn settle(
        &mut self,
        channel: Channel,
        batch: Vec<Entry>,
        failed: &[bool],
        at: Instant,
    ) -> Vec<(Channel, Duration)> {
        let again = Channel { is_again: true, ..channel };
        let mut resting = Vec::new();
        if let Some(backlog) = self.backlogs.get_mut(&channel) {
            backlog.under_way = 0;
        }
        let rests = !failed.contains(&false);
        for (entry, failed) in batch.into_iter().zip(failed) {
            if !*failed || entry.give_up.is_some_and(|end| at >= end) {
                self.end(entry.ticket());
                continue;
            }
            let backlog = self.backlogs.entry(again).or_insert_with(|| {
                resting.push(again);
                Backlog::new()
            });
            backlog.entries.push_back(Entry { channel: again, ..entry });
        }
        if rests {
            resting.push(channel);
        } else if let Some(backlog) = self.backlogs.get_mut(&channel) {
            backlog.pause = FIRST_REST;
            self.rested(channel);
        }
        // The last messages of a store object have little time.
        let most = if self.stopping { FIRST_REST } else { LAST_REST };
        let mut rest = |channel| {
            let backlog = self.backlogs.get_mut(&channel)?;
            let pause = backlog.pause;
            backlog.pause = (pause * 2).min(LAST_REST);
            Some((channel, pause.min(most)))
        };
        resting.into_iter().filter_map(&mut rest).collect()
    }

    /// Lets a channel be served again. One whose requests fail is kept while what failed is sent
    /// again, so that its pauses grow.
    pub(super) fn rested(&mut self, channel: Channel) {
        let Some(backlog) = self.backlogs.get_mut(&channel) else { return };
        if !backlog.entries.is_empty() {
            self.ready.push_back(channel);
            return;
        }
        let fails = !channel.is_again && backlog.pause > FIRST_REST;
        backlog.is_idle = true;
        if !fails || !self.backlogs.contains_key(&Channel { is_again: true, ..channel }) {
            self.backlogs.remove(&channel);
        }
        let new = Channel { is_again: false, ..channel };
        if channel.is_again && self.backlogs.get(&new).is_some_and(|new| new.is_idle) {
            self.backlogs.remove(&new);
        }
    }

    /// Queues the next request of the ticket, if there is one.
    fn end(&mut self, ticket: Ticket) {
        let Slot::Occupied(mut behind) = self.behind.entry(ticket) else { return };
        match behind.get_mut().pop_front() {
            Some(next) => self.enqueue(next),
            None => drop(behind.remove()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::spi::RequestKind;
    use crate::spi::{Cancel, Ending, Object, Release};
    use crate::{Kind, Name, Ttl};

    fn object() -> Object {
        Object { kind: Kind::WaitGroup, name: Name::new("g").unwrap() }
    }

    fn entry(request: Request, server: usize) -> Entry {
        let channel = Channel { lane: Lane::of_kind(server, &request), is_again: false };
        Entry { channel, request, give_up: None }
    }

    fn release(ticket: Ticket, server: usize) -> Entry {
        let (object, ending) = (object(), Ending::Abandoned);
        entry(Release { object, ticket, ending, tombstone: None, call: None }.into(), server)
    }

    fn cancel(ticket: Ticket, server: usize) -> Entry {
        entry(Cancel { object: object(), ticket, tombstone: Some(Ttl::DEFAULT) }.into(), server)
    }

    /// Takes the one batch that is ready.
    fn sole(queue: &mut Queue) -> (Channel, Vec<Entry>) {
        let taken = queue.take().expect("a channel is ready");
        assert!(!queue.is_ready());
        taken
    }

    #[test]
    fn requests_of_one_ticket_keep_their_order() {
        let (mut queue, ticket, at) = (Queue::default(), Ticket::random(), now());
        queue.add(release(ticket, 3));
        queue.add(cancel(ticket, 3));
        let (channel, batch) = sole(&mut queue);
        let again = Channel { is_again: true, ..channel };
        assert_eq!(
            queue.settle(channel, batch, &[true], at),
            [again, channel].map(|rests| (rests, FIRST_REST))
        );
        assert!(!queue.is_ready(), "both rest");
        queue.rested(channel);
        queue.rested(again);
        let (next, batch) = sole(&mut queue);
        assert_eq!(next, again, "before what came later");
        assert!(queue.settle(next, batch, &[false], at).is_empty());
        let (channel, batch) = sole(&mut queue);
        assert!(matches!(batch[0].request, Request::Cancel(_)));
        assert!(!queue.is_empty());
        queue.settle(channel, batch, &[false], at);
        assert!(queue.is_empty() && queue.backlogs.is_empty() && !queue.is_ready());
    }

    #[test]
    fn a_channel_has_one_request_under_way_and_keeps_no_other() {
        let (mut queue, at) = (Queue::default(), now());
        queue.add(release(Ticket::random(), 0));
        let (slow, batch) = sole(&mut queue);
        let most = RequestKind::Release.maximum_batch();
        for _ in 0..=most {
            queue.add(release(Ticket::random(), 0));
        }
        assert!(!queue.is_ready());
        queue.add(release(Ticket::random(), 1));
        queue.add(cancel(Ticket::random(), 0));
        for _ in 0..2 {
            let (channel, batch) = queue.take().expect("another channel");
            assert!(channel != slow && batch.len() == 1);
            queue.settle(channel, batch, &[false], at);
        }
        queue.settle(slow, batch, &[false], at);
        for count in [most, 1] {
            let (channel, batch) = sole(&mut queue);
            assert_eq!(batch.len(), count);
            let delivered = vec![false; count];
            queue.settle(channel, batch, &delivered, at);
        }
        assert!(queue.is_empty() && queue.backlogs.is_empty());
    }

    #[test]
    fn what_is_given_up_lets_the_next_go() {
        let (mut queue, ticket, at) = (Queue::default(), Ticket::random(), now());
        queue.add(Entry { give_up: Some(at), ..release(ticket, 0) });
        queue.add(cancel(ticket, 0));
        let (channel, batch) = sole(&mut queue);
        assert_eq!(queue.settle(channel, batch, &[true], at), [(channel, FIRST_REST)]);
        let (_, batch) = sole(&mut queue);
        assert!(matches!(batch[0].request, Request::Cancel(_)));
        queue.rested(channel);
        assert!(!queue.backlogs.contains_key(&channel));
    }

    #[test]
    fn c27_what_fails_on_its_own_holds_up_nothing_new() {
        let (mut queue, at) = (Queue::default(), now());
        let stuck = Ticket::random();
        queue.add(release(stuck, 0));
        queue.add(release(Ticket::random(), 0));
        let (channel, batch) = sole(&mut queue);
        let again = Channel { is_again: true, ..channel };
        assert_eq!(queue.settle(channel, batch, &[true, false], at), [(again, FIRST_REST)]);
        for round in 1..8 {
            queue.rested(again);
            let (next, failing) = sole(&mut queue);
            assert_eq!((next, failing.len()), (again, 1));
            // The one that failed is under way, and then rests.
            queue.add(release(Ticket::random(), 0));
            let (next, batch) = sole(&mut queue);
            assert_eq!((next, batch.len()), (channel, 1));
            assert!(queue.settle(next, batch, &[false], at).is_empty());
            let pause = (FIRST_REST * 2_u32.pow(round)).min(LAST_REST);
            assert_eq!(queue.settle(again, failing, &[true], at), [(again, pause)]);
        }
        queue.rested(again);
        let (_, batch) = sole(&mut queue);
        assert_eq!(batch[0].ticket(), stuck);
        queue.settle(again, batch, &[false], at);
        assert!(queue.is_empty() && queue.backlogs.is_empty());
    }
}
