//! A lease store of one process that can lose requests and replies, and sees what an engine asks of
//! it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::clock::now;
use crate::spi::{
    Answers, Cancel, Kept, Lane, Object, Release, Renew, Request, Response, Steps, contents, refused,
    responses,
};
use crate::sync::model::{draw, pause};
use crate::{Error, ErrorKind, Kind, Name, Ticket};

/// Objects whose number is even are on one server, the others on another.
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
    under_way: HashMap<Lane, Vec<Vec<Ticket>>>,
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
    pub(super) fn steps(self: &Arc<Self>, engine: bool) -> Arc<dyn Steps> {
        Arc::new(Connection { store: Arc::clone(self), engine })
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

/// One connection.
#[derive(Debug)]
struct Connection {
    store: Arc<Store>,
    engine: bool,
}

fn server_of(object: &Object) -> usize {
    object.name.as_str().parse::<usize>().unwrap() % 2
}

impl Connection {
    /// Ends what the tickets name, each with the call that does. Over the engine's connection two
    /// batches of one lane overlap at most, and none that have a ticket in common.
    async fn end(&self, batch: &[Request], ends: Vec<(Ticket, Option<Ticket>)>) -> Answers<Kept> {
        let channel = self.lane(&batch[0]);
        assert!(batch.iter().all(|request| self.lane(request) == channel), "lanes in one batch");
        let is_release = matches!(batch[0], Request::Release(_));
        let tickets: Vec<_> = ends.iter().map(|(ticket, _)| *ticket).collect();
        if self.engine {
            let mut inner = self.store.inner();
            let under_way = inner.under_way.entry(channel).or_default();
            let overlaps = |ticket: &Ticket| under_way.iter().flatten().any(|other| other == ticket);
            assert!(under_way.len() < 2 && !tickets.iter().any(overlaps), "too many requests of a channel");
            under_way.push(tickets.clone());
        }
        let fate = self.store.fate();
        let run = |inner: &mut Inner| {
            let end = |(ticket, call): &(Ticket, Option<Ticket>)| {
                if fate == Fate::Answered {
                    let heard = if is_release { Heard::Released } else { Heard::Cancelled };
                    inner.heard.entry(*ticket).or_default().push(heard);
                }
                let held = inner.holds.remove(ticket).is_some_and(|until| now() < until);
                if let (true, Some(call)) = (held, *call) {
                    inner.calls.insert(*ticket, call);
                }
                let again = call.is_some_and(|call| inner.calls.get(ticket) == Some(&call));
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

impl Connection {
    async fn renew(&self, batch: &[&Renew]) -> Answers<Kept> {
        let fate = if self.store.inner().away { Fate::RequestLost } else { self.store.fate() };
        let run = |inner: &mut Inner| {
            let renew = |renew: &&Renew| match inner.holds.get_mut(&renew.ticket) {
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
}

#[async_trait]
impl Steps for Connection {
    fn lane(&self, request: &Request) -> Lane {
        Lane::of_kind(request.object().map_or(0, server_of), request)
    }

    fn request_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
        let of_release = |release: &Release| (release.ticket, release.call);
        let of_cancel = |cancel: &Cancel| (cancel.ticket, None);
        let entries: Vec<_> = batch.iter().collect();
        match &batch[0] {
            Request::Renew(_) => responses::<Renew>(self.renew(&contents(&entries)).await),
            Request::Release(_) => {
                let ends = contents(&entries).into_iter().map(of_release).collect();
                responses::<Release>(self.end(batch, ends).await)
            }
            Request::Cancel(_) => {
                let ends = contents(&entries).into_iter().map(of_cancel).collect();
                let answers = self.end(batch, ends).await;
                responses::<Cancel>(answers.into_iter().map(|answer| answer.map(drop)).collect())
            }
            Request::Ping(_) => vec![Ok(Response::Ping(()))],
            other => unreachable!("nobody asks {other:?}"),
        }
    }
}
