//! The steps of mutexes in session mode. Sessions try and unlock; a waiter has a place in the
//! queue, which is that of lease mode.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::spi::{
    self, Acquire, Acquired, Answers, Cancel, Force, Kept, Lane, Object, Polled, Purpose, Release, Renew,
    Request, RequestKind, Response, Steps, Usage, by, refused, responses,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result, Ticket};

use super::deferred_wakers::woken_unlocked;
use super::inspect::PeerSessions;
use super::lock_sessions::LockSessions;
use super::messages::SessionId;
use super::reply::{Reply, unknown, wait_for_reply};
use crate::steps::dispatch::Halves;
use crate::steps::{PostgresSteps, objects, owned};

/// Number of lanes that names are spread over.
const LANE_COUNT: u64 = 8;
/// Maximum time that a release waits until hints to the next waiters are sent.
const HINT_TIMEOUT: Duration = Duration::from_millis(100);

type Sending<'a, A> = Pin<Box<dyn Future<Output = Answers<A>> + Send + 'a>>;

/// The steps of mutexes in session mode.
#[derive(Clone, Debug)]
pub(crate) struct SessionSteps {
    pub(super) lock_sessions: Arc<LockSessions>,
    pub(super) peers: Arc<PeerSessions>,
    /// The steps of the queue.
    pub(super) places: PostgresSteps,
    /// The steps of users' transactions, whose turns wait in the same queue.
    pub(super) turns: PostgresSteps,
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

impl SessionSteps {
    pub(super) fn deadline(&self) -> Instant {
        now() + self.lock_sessions.request_timeout
    }

    /// Answers the turns of transactions by the steps of lease mode and all other entries by the
    /// sessions, concurrently.
    async fn split_turns<T: Clone + Send + Sync, A: Send>(
        &self,
        batch: &[T],
        ticket: fn(&T) -> Ticket,
        turns: impl for<'a> Fn(&'a Self, &'a [T]) -> Sending<'a, A> + Send + Sync,
        rest: impl for<'a> Fn(&'a Self, &'a [T]) -> Sending<'a, A> + Send + Sync,
    ) -> Answers<A> {
        let halves =
            self.lock_sessions.with(|state| Halves::of(batch, |ask| state.places.is_turn(ticket(ask))));
        if halves.ones.is_empty() {
            return rest(self, batch).await;
        }
        if halves.rest.is_empty() {
            return turns(self, batch).await;
        }
        let beside = Self { turns: self.turns.hurried(), ..self.clone() };
        let (turns, rest) = tokio::join!(turns(&beside, &halves.ones), rest(self, &halves.rest));
        halves.merged(turns, rest)
    }

    /// Acquires turns. A turn that is certainly neither granted nor waiting is removed.
    async fn acquire_turns(&self, batch: &[Acquire], end: Instant) -> Answers<Acquired> {
        let answers = self.turns.acquire(batch, end).await;
        self.lock_sessions.with(|state| {
            for (ask, answer) in batch.iter().zip(&answers) {
                state.places.turn_answered(ask, answer);
            }
        });
        answers
    }

    async fn release_turns(&self, batch: &[Release], end: Instant) -> Answers<Kept> {
        let answers = self.turns.release(batch, end).await;
        self.forget_turns(batch.iter().map(|ask| ask.ticket).zip(&answers));
        answers
    }

    async fn cancel_turns(&self, batch: &[Cancel], end: Instant) -> Answers<()> {
        let answers = self.turns.cancel(batch, end).await;
        self.forget_turns(batch.iter().map(|ask| ask.ticket).zip(&answers));
        answers
    }

    /// Unlocks, and waits a moment until hints to the next waiters are sent.
    async fn release_locks(&self, batch: &[Release]) -> Answers<Kept> {
        let (at, end) = (now(), self.deadline());
        let replies: Vec<_> =
            self.lock_sessions.with(|state| batch.iter().map(|ask| state.release(ask, at)).collect());
        let answers = wait_for_replies(replies, end).await;
        let hint_count = self.lock_sessions.with(|state| state.outbound.hint_count());
        let mut sent = self.lock_sessions.hints_sent.subscribe();
        drop(timeout_at(now() + HINT_TIMEOUT, sent.wait_for(|sent| *sent >= hint_count)).await);
        answers
    }

    async fn renew_holds(&self, batch: &[Renew]) -> Answers<Kept> {
        let end = self.deadline();
        let (sessions, alive) = self.lock_sessions.with(|state| {
            let session = |ask: &Renew| Some(state.holds.of(&ask.object.name, ask.ticket)?.session);
            let sessions: Vec<_> = batch.iter().map(session).collect();
            let alive = state.outbound.probe_all(&sessions);
            (sessions, alive)
        });
        let mut sent: Vec<(SessionId, Result<Instant>)> = Vec::with_capacity(alive.len());
        for (session, answer) in alive {
            sent.push((session, wait_for_reply(answer, end).await));
        }
        self.lock_sessions.with(|state| {
            batch
                .iter()
                .zip(sessions)
                .map(|(ask, session)| {
                    let answer = sent.iter().find(|(id, _)| Some(*id) == session).map(|(_, sent)| sent);
                    state.renew(ask, answer)
                })
                .collect()
        })
    }

    /// Ends the holds and requests of the tickets, and the places that they may have.
    async fn cancel_locks(&self, batch: &[Cancel]) -> Answers<()> {
        let (at, end) = (now(), self.deadline());
        let (replies, places) = self.lock_sessions.with(|state| {
            let replies: Vec<_> = batch.iter().map(|ask| state.cancel(ask, at)).collect();
            let placed = batch.iter().filter(|ask| state.places.may_have_place(&ask.object.name, ask.ticket));
            (replies, placed.cloned().collect::<Vec<_>>())
        });
        let cancelled =
            async { if places.is_empty() { Vec::new() } else { self.places.cancel(&places, end).await } };
        let (cancelled, ended) = tokio::join!(cancelled, wait_for_replies(replies, end));
        let mut failed: Vec<(Ticket, Error)> = Vec::new();
        self.lock_sessions.with(|state| {
            for (ask, answer) in places.iter().zip(cancelled) {
                match answer {
                    Ok(()) => {
                        state.places.cancelled(&ask.object.name, ask.ticket);
                    }
                    Err(error) => failed.push((ask.ticket, error)),
                }
            }
        });
        let answers = batch.iter().zip(ended).map(|(ask, ended)| {
            let failed = failed.iter().find(|(ticket, _)| *ticket == ask.ticket);
            failed.map_or_else(|| ended.map(drop), |(_, error)| Err(error.replicate()))
        });
        answers.collect()
    }

    /// Merges the poll of turns of this process into the answers.
    async fn polled_turns(&self, batch: &[Object], answers: &mut Answers<Polled>, end: Instant) {
        let waited = self.lock_sessions.with(|state| state.places.turn_names());
        let waited: Vec<usize> = (0..batch.len()).filter(|at| waited.contains(&batch[*at].name)).collect();
        if waited.is_empty() {
            return;
        }
        let objects: Vec<_> = waited.iter().map(|at| batch[*at].clone()).collect();
        for (at, turns) in waited.into_iter().zip(self.turns.poll(&objects, end).await) {
            match (&mut answers[at], turns) {
                (Ok(places), Ok(turns)) => {
                    self.lock_sessions.with(|state| state.places.add_orphans(&batch[at].name, &turns.ready));
                    places.ready.extend(turns.ready);
                    places.next = [places.next, turns.next].into_iter().flatten().min();
                    places.is_first |= turns.is_first;
                }
                (answer, turns) => *answer = turns,
            }
        }
    }

    /// Returns why this process must not be the first of a queue: it could not open a session.
    /// Starts another attempt if one is due.
    fn open_failure(&self) -> Option<Error> {
        self.lock_sessions.with(|state| state.outbound.open_failure())
    }

    /// Applies the answers of a poll to the places of this process.
    fn apply_polled<'a>(&self, polled: impl Iterator<Item = (&'a Object, Option<&'a mut Polled>)>) {
        self.lock_sessions.with(|state| {
            for (object, answer) in polled {
                let is_held = state.holds.get(&object.name).is_some();
                if let Some(answer) = answer {
                    state.places.polled(&object.name, answer, is_held);
                }
            }
        });
    }
}

#[async_trait]
impl Steps for SessionSteps {
    /// Requests of all lanes leave in the same statements, so that names need not wait for each
    /// other here.
    fn lane(&self, request: &Request) -> Lane {
        let mut hasher = DefaultHasher::new();
        request.object().map(|object| object.name.as_str()).hash(&mut hasher);
        let server = usize::try_from(hasher.finish() % LANE_COUNT).unwrap_or_default();
        Lane::of_kind(server, request)
    }

    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        // Boxed: an optimising build refuses futures that are nested deeper.
        let sent = by(batch, Request::kind, |kind, entries| Box::pin(self.send_kind(kind, entries, end)));
        woken_unlocked(sent).await
    }

    fn request_timeout(&self) -> Duration {
        self.lock_sessions.request_timeout
    }
}

impl SessionSteps {
    async fn send_kind(&self, kind: RequestKind, entries: Vec<&Request>, end: Instant) -> Answers<Response> {
        use RequestKind as K;

        let of = &entries[..];
        match kind {
            K::Acquire => responses::<Acquire>(self.acquire(&owned(of), end).await),
            K::Renew => responses::<Renew>(self.renew(&owned(of), end).await),
            K::Release => responses::<Release>(self.release(&owned(of), end).await),
            K::Cancel => responses::<Cancel>(self.cancel(&owned(of), end).await),
            K::Poll => responses::<spi::Poll>(self.poll(&objects(of), end).await),
            K::KeepPlaces => responses::<spi::KeepPlaces>(self.keep_places(&objects(of), end).await),
            _ => {
                let mut answers = Vec::with_capacity(of.len());
                for request in of {
                    answers.push(Box::pin(self.send_one(request, end)).await);
                }
                answers
            }
        }
    }

    async fn send_one(&self, request: &Request, end: Instant) -> Result<Response> {
        match request {
            Request::Attach(_) => unsupported("a database session cannot give its lock to another"),
            Request::Resize(_) => unsupported("a mutex has no limit"),
            Request::Inspect(inspect) => self.inspect(&inspect.object, end).await.map(Response::Inspect),
            Request::Total(total) => {
                let inspection = self.inspect(&total.object, end).await?;
                let weight = inspection.holders.iter().map(|holder| u64::from(holder.weight)).sum();
                Ok(Response::Total(Usage::new(weight, inspection.limit)))
            }
            Request::ForceRelease(request) => {
                self.force(&request.object, request.force, end).await.map(Response::ForceRelease)
            }
            Request::Ping(_) => self.peers.ping().await.map(Response::Ping),
            other => Err(other.unsupported()),
        }
    }

    pub(super) async fn acquire(&self, batch: &[Acquire], end: Instant) -> Answers<Acquired> {
        self.lock_sessions.with(|state| {
            for ask in batch.iter().filter(|ask| ask.purpose == Purpose::Transaction) {
                state.places.add_turn(ask);
            }
        });
        self.split_turns(
            batch,
            |ask| ask.ticket,
            move |steps, turns| Box::pin(steps.acquire_turns(turns, end)),
            |steps, rest| Box::pin(async { steps.lock(&rest.iter().collect::<Vec<_>>()).await }),
        )
        .await
    }

    pub(super) async fn renew(&self, batch: &[Renew], end: Instant) -> Answers<Kept> {
        self.split_turns(
            batch,
            |ask| ask.ticket,
            move |steps, turns| Box::pin(steps.turns.renew(turns, end)),
            |steps, rest| Box::pin(steps.renew_holds(rest)),
        )
        .await
    }

    pub(super) async fn release(&self, batch: &[Release], end: Instant) -> Answers<Kept> {
        self.split_turns(
            batch,
            |ask| ask.ticket,
            move |steps, turns| Box::pin(steps.release_turns(turns, end)),
            |steps, rest| Box::pin(steps.release_locks(rest)),
        )
        .await
    }

    pub(super) async fn cancel(&self, batch: &[Cancel], end: Instant) -> Answers<()> {
        self.split_turns(
            batch,
            |ask| ask.ticket,
            move |steps, turns| Box::pin(steps.cancel_turns(turns, end)),
            |steps, rest| Box::pin(steps.cancel_locks(rest)),
        )
        .await
    }

    pub(super) async fn poll(&self, batch: &[Object], end: Instant) -> Answers<Polled> {
        let mut answers = match self.open_failure() {
            Some(failure) => refused(batch.len(), &failure),
            None => self.places.poll(batch, end).await,
        };
        self.apply_polled(batch.iter().zip(answers.iter_mut().map(|answer| answer.as_mut().ok())));
        self.polled_turns(batch, &mut answers, end).await;
        answers
    }

    pub(super) async fn keep_places(&self, batch: &[Object], end: Instant) -> Answers<Option<Polled>> {
        if let Some(failure) = self.open_failure() {
            return refused(batch.len(), &failure);
        }
        if self.lock_sessions.with(|state| state.places.has_turns()) {
            return self.poll(batch, end).await.into_iter().map(|answer| answer.map(Some)).collect();
        }
        let mut answers = self.places.keep_places(batch, end).await;
        let polled = answers.iter_mut().map(|answer| answer.as_mut().ok().and_then(Option::as_mut));
        self.apply_polled(batch.iter().zip(polled));
        answers
    }

    pub(super) async fn inspect(&self, object: &Object, end: Instant) -> Result<Inspection> {
        let (queue, mut holders) = tokio::try_join!(
            self.places.inspect(object, end),
            self.peers.holders(&self.lock_sessions, &object.name)
        )?;
        let leaving = self.lock_sessions.with(|state| state.places.leaving.count(&object.name));
        // The holders in the queue's records are transactions.
        holders.extend(queue.holders);
        Ok(Inspection::new(holders, queue.waiters.saturating_sub(leaving), Some(1)))
    }

    pub(super) async fn force(&self, object: &Object, force: Force, end: Instant) -> Result<u32> {
        let turns = self.turns.force(object, force, end).await?;
        let freed = self.peers.force(&self.lock_sessions, &object.name, force).await;
        let freed = freed.map_err(|error| if turns > 0 { Error::partly_forced(error) } else { error });
        Ok(turns + freed?)
    }

    fn forget_turns<'a, A: 'a>(&self, ended: impl Iterator<Item = (Ticket, &'a Result<A>)>) {
        self.lock_sessions.with(|state| {
            for (ticket, _) in ended.filter(|(_, answer)| answer.is_ok()) {
                state.places.turn_ended(ticket);
            }
        });
    }
}

async fn wait_for_replies(replies: Vec<Reply<Kept>>, end: Instant) -> Answers<Kept> {
    let mut answers = Vec::with_capacity(replies.len());
    for reply in replies {
        answers.push(match reply {
            Reply::Now(answer) => answer,
            Reply::Later(_, answer) => wait_for_reply(answer, end).await,
            Reply::AfterProbe(_) => Err(unknown()),
        });
    }
    answers
}
