//! A lease store of one process that can lose requests and replies, and sees what an engine asks of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::clock::now;
use crate::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew, Steps, refused,
};
use crate::sync::model::{draw, pause};
use crate::{Error, ErrorKind, Inspection, Kind, Name, Result, Ticket};

/// Objects whose number is even are in one lane, the others in another.
pub(super) fn object(number: usize) -> Object {
    Object { kind: Kind::Mutex, name: Name::new(&number.to_string()).unwrap() }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It is not executed, and that is known.
    Unavailable,
    RequestLost,
    ReplyLost,
}

/// What is asked, as far as requests of one kind must not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verb {
    Release,
    Cancel,
}

/// What the store was told of a ticket, and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Released,
    Cancelled,
}

#[derive(Debug, Default)]
struct Inner {
    /// Until when each hold lasts.
    holds: HashMap<Ticket, Instant>,
    heard: HashMap<Ticket, Vec<Heard>>,
    /// The calls that ended holds, by ticket: a retry of one is answered as it was.
    calls: HashMap<Ticket, Ticket>,
    under_way: HashMap<(Verb, usize), Vec<Vec<Ticket>>>,
    /// So many requests fail at most.
    faults: usize,
    /// Every renewal fails.
    away: bool,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    inner: Mutex<Inner>,
}

impl Store {
    pub(super) fn new(faults: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(Inner { faults, ..Inner::default() }) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// The steps over a connection of the engine's thread, or of its callers.
    pub(super) fn steps(self: &Arc<Self>, engine: bool) -> Steps {
        let permits = Arc::new(Line { store: Arc::clone(self), engine });
        Steps::new(permits, Duration::from_secs(2))
    }

    pub(super) fn grant(&self, ticket: Ticket, until: Instant) {
        self.inner().holds.insert(ticket, until);
    }

    /// Frees a hold by itself.
    pub(super) fn free(&self, ticket: Ticket) {
        self.inner().holds.remove(&ticket);
    }

    pub(super) fn go_away(&self) {
        self.inner().away = true;
    }

    /// Until when the hold lasts; `None` if it was freed.
    pub(super) fn until(&self, ticket: Ticket) -> Option<Instant> {
        self.inner().holds.get(&ticket).copied()
    }

    pub(super) fn heard(&self, ticket: Ticket) -> Vec<Heard> {
        self.inner().heard.get(&ticket).cloned().unwrap_or_default()
    }

    fn fate(&self) -> Fate {
        let mut inner = self.inner();
        if inner.faults == 0 || draw(2) == 0 {
            return Fate::Answered;
        }
        inner.faults -= 1;
        [Fate::Unavailable, Fate::RequestLost, Fate::ReplyLost][draw(3)]
    }

    /// Carries a request out between two points, or not.
    async fn run<T>(&self, count: usize, fate: Fate, run: impl FnOnce(&mut Inner) -> Vec<T>) -> Answers<T> {
        pause().await;
        let executed = matches!(fate, Fate::Answered | Fate::ReplyLost).then(|| run(&mut self.inner()));
        pause().await;
        let kind = if fate == Fate::Unavailable { ErrorKind::Unavailable } else { ErrorKind::Unknown };
        match executed.filter(|_| fate == Fate::Answered) {
            Some(answers) => answers.into_iter().map(Ok).collect(),
            None => refused(count, &Error::new(kind, "a fault")),
        }
    }
}

/// What a release and a cancel have in common.
struct End<'a> {
    ticket: Ticket,
    object: &'a Object,
    call: Option<Ticket>,
}

/// One connection.
#[derive(Debug)]
struct Line {
    store: Arc<Store>,
    engine: bool,
}

impl Line {
    /// Ends what the tickets name. Over the engine's connection two requests of one kind and lane overlap at most, and none that
    /// have a ticket in common.
    async fn end(&self, verb: Verb, ends: Vec<End<'_>>) -> Answers<Kept> {
        let lane = |end: &End<'_>| self.lane(end.object);
        let channel = (verb, ends.first().map_or(0, lane));
        assert!(ends.iter().all(|end| lane(end) == channel.1), "lanes in one request");
        let tickets: Vec<_> = ends.iter().map(|end| end.ticket).collect();
        if self.engine {
            let mut inner = self.store.inner();
            let under_way = inner.under_way.entry(channel).or_default();
            let overlaps = |ticket: &Ticket| under_way.iter().flatten().any(|other| other == ticket);
            assert!(under_way.len() < 2 && !tickets.iter().any(overlaps), "too many requests of a channel");
            under_way.push(tickets.clone());
        }
        let fate = self.store.fate();
        let run = |inner: &mut Inner| {
            let end = |end: &End<'_>| {
                if fate == Fate::Answered {
                    let heard = if verb == Verb::Release { Heard::Released } else { Heard::Cancelled };
                    inner.heard.entry(end.ticket).or_default().push(heard);
                }
                let held = inner.holds.remove(&end.ticket).is_some_and(|until| now() < until);
                if let (true, Some(call)) = (held, end.call) {
                    inner.calls.insert(end.ticket, call);
                }
                let again = end.call.is_some_and(|call| inner.calls.get(&end.ticket) == Some(&call));
                if held || again { Kept::Yes } else { Kept::No }
            };
            ends.iter().map(end).collect()
        };
        let answers = self.store.run(ends.len(), fate, run).await;
        if let Some(under_way) = self.store.inner().under_way.get_mut(&channel) {
            under_way.retain(|request| *request != tickets);
        }
        answers
    }
}

#[async_trait]
impl PermitSteps for Line {
    fn lane(&self, object: &Object) -> usize {
        object.name.as_str().parse::<usize>().unwrap() % 2
    }

    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        None
    }

    async fn acquire(&self, _: &[Acquire]) -> Answers<Acquired> {
        unreachable!("holds are granted beforehand")
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let fate = if self.store.inner().away { Fate::RequestLost } else { self.store.fate() };
        let run = |inner: &mut Inner| {
            let renew = |renew: &Renew| match inner.holds.get_mut(&renew.ticket) {
                Some(until) if now() < *until => {
                    *until = now() + renew.lease.get();
                    Kept::Yes
                }
                _ => Kept::No,
            };
            batch.iter().map(renew).collect()
        };
        self.store.run(batch.len(), fate, run).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let ends = batch.iter().map(|release| {
            let Release { ticket, object, call, .. } = release;
            End { ticket: *ticket, object, call: *call }
        });
        self.end(Verb::Release, ends.collect()).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let ends =
            batch.iter().map(|cancel| End { ticket: cancel.ticket, object: &cancel.object, call: None });
        let answers = self.end(Verb::Cancel, ends.collect()).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn poll(&self, _: &[Object]) -> Answers<Polled> {
        unreachable!("nobody waits")
    }

    async fn attach(&self, _: &Attach) -> Result<Option<Attached>> {
        unreachable!("nobody attaches")
    }

    async fn inspect(&self, _: &Object) -> Result<Inspection> {
        unreachable!("nobody inspects")
    }

    async fn resize(&self, _: &Object, _: u32) -> Result<()> {
        unreachable!("nobody resizes")
    }

    async fn force(&self, _: &Object, _: Force) -> Result<u32> {
        unreachable!("nobody uses force")
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }
}
