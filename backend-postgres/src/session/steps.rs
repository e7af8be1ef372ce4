//! The steps of mutexes that sessions keep. The session tries and unlocks; whoever has to wait has a place in the queue, which is
//! that of lease mode.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew, refused,
};
use stanchion_core::{Error, ErrorKind, Inspection, Name, Result, Ticket};
use tokio::sync::oneshot;

use super::asks::Asked;
use super::desk::Desk;
use super::entry::Turn;
use super::look::Look;
use super::post::PostId;
use crate::context::TurnLabel;
use crate::steps::PostgresSteps;
use crate::steps::dispatch::Halves;

/// Names are spread over so many lanes.
const LANES: u64 = 8;
/// For so long a release waits until the next waiters are told.
const TELLING: Duration = Duration::from_millis(100);

type Sending<'a, A> = Pin<Box<dyn Future<Output = Answers<A>> + Send + 'a>>;

/// The steps of mutexes in session mode.
#[derive(Clone, Debug)]
pub(crate) struct SessionSteps {
    pub(super) desk: Arc<Desk>,
    pub(super) look: Arc<Look>,
    /// The queue.
    pub(super) places: PostgresSteps,
    /// The turns of users' transactions, which wait in the same queue.
    pub(super) turns: PostgresSteps,
    pub(super) label: TurnLabel,
}

pub(super) fn unknown() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

/// The answer to a part of a batch; without one the outcome is unknown.
pub(super) async fn heard<T>(answer: oneshot::Receiver<Result<T>>, end: Instant) -> Result<T> {
    match timeout_at(end, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(unknown()),
    }
}

impl SessionSteps {
    pub(super) fn end(&self) -> Instant {
        now() + self.desk.limit
    }

    /// Answers the turns of transactions by the steps of lease mode, and the rest by the sessions, side by side.
    async fn each_way<T: Clone + Send + Sync, A: Send>(
        &self,
        batch: &[T],
        ticket: fn(&T) -> Ticket,
        turns: impl for<'a> Fn(&'a Self, &'a [T]) -> Sending<'a, A> + Send + Sync,
        rest: impl for<'a> Fn(&'a Self, &'a [T]) -> Sending<'a, A> + Send + Sync,
    ) -> Answers<A> {
        let halves =
            self.desk.with(|state| Halves::of(batch, |entry| state.turns.contains_key(&ticket(entry))));
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

    /// Acquires turns. One that is neither had nor waited for, for sure, is forgotten.
    async fn acquire_turns(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let answers = self.turns.acquire(batch).await;
        self.desk.with(|state| {
            for (ask, answer) in batch.iter().zip(&answers) {
                let is_there = match answer {
                    Ok(Acquired::Granted { .. }) => true,
                    Ok(Acquired::Waiting { .. }) => ask.queue,
                    Ok(_) => false,
                    Err(error) => error.kind() == ErrorKind::Unknown,
                };
                let Some(turn) = state.turns.get_mut(&ask.ticket) else { continue };
                turn.may_be_there |= is_there;
                if !turn.may_be_there || matches!(answer, Ok(Acquired::Cancelled)) {
                    state.turns.remove(&ask.ticket);
                }
            }
        });
        answers
    }

    async fn release_turns(&self, batch: &[Release]) -> Answers<Kept> {
        let answers = self.turns.release(batch).await;
        self.forget_turns(batch.iter().map(|ask| ask.ticket).zip(&answers));
        answers
    }

    async fn cancel_turns(&self, batch: &[Cancel]) -> Answers<()> {
        let answers = self.turns.cancel(batch).await;
        self.forget_turns(batch.iter().map(|ask| ask.ticket).zip(&answers));
        answers
    }

    /// Unlocks, and waits a moment until the next waiters are told.
    async fn release_locks(&self, batch: &[Release]) -> Answers<Kept> {
        let (at, end) = (now(), self.end());
        let asked: Vec<_> = self.desk.with(|state| batch.iter().map(|ask| state.release(ask, at)).collect());
        let answers = ended(asked, end).await;
        let hinted = self.desk.with(|state| state.hinted);
        let mut told = self.desk.told.subscribe();
        drop(timeout_at(now() + TELLING, told.wait_for(|told| *told >= hinted)).await);
        answers
    }

    async fn renew_holds(&self, batch: &[Renew]) -> Answers<Kept> {
        let end = self.end();
        let (posts, alive) = self.desk.with(|state| {
            let posts: Vec<_> = batch.iter().map(|ask| state.holder(&ask.object.name, ask.ticket)).collect();
            let alive = state.probe(&posts);
            (posts, alive)
        });
        let mut sent: Vec<(PostId, Result<Instant>)> = Vec::with_capacity(alive.len());
        for (post, answer) in alive {
            sent.push((post, heard(answer, end).await));
        }
        self.desk.with(|state| {
            batch
                .iter()
                .zip(posts)
                .map(|(ask, post)| {
                    let answer = sent.iter().find(|(id, _)| Some(*id) == post).map(|(_, sent)| sent);
                    state.renewed(ask, answer)
                })
                .collect()
        })
    }

    /// Ends what the tickets have at the sessions, and the places that they may have.
    async fn cancel_locks(&self, batch: &[Cancel]) -> Answers<()> {
        let (at, end) = (now(), self.end());
        let (asked, places) = self.desk.with(|state| {
            let asked: Vec<_> = batch.iter().map(|ask| state.cancel(ask, at)).collect();
            let placed = batch.iter().filter(|ask| state.may_wait(&ask.object.name, ask.ticket));
            (asked, placed.cloned().collect::<Vec<_>>())
        });
        let cancelled =
            async { if places.is_empty() { Vec::new() } else { self.places.cancel(&places).await } };
        let (cancelled, ended) = tokio::join!(cancelled, ended(asked, end));
        let mut failed: Vec<(Ticket, Error)> = Vec::new();
        self.desk.with(|state| {
            for (ask, answer) in places.iter().zip(cancelled) {
                match answer {
                    Ok(()) => {
                        state.places.remove(&ask.ticket);
                        state.orphans.remove(&ask.object.name);
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

    /// Merges in what is to be said of the turns of this process.
    async fn polled_turns(&self, batch: &[Object], answers: &mut Answers<Polled>) {
        let waited: HashSet<Name> =
            self.desk.with(|state| state.turns.values().map(|turn| turn.name.clone()).collect());
        let waited: Vec<usize> = (0..batch.len()).filter(|at| waited.contains(&batch[*at].name)).collect();
        if waited.is_empty() {
            return;
        }
        let objects: Vec<_> = waited.iter().map(|at| batch[*at].clone()).collect();
        for (at, turns) in waited.into_iter().zip(self.turns.poll(&objects).await) {
            match (&mut answers[at], turns) {
                (Ok(places), Ok(turns)) => {
                    self.desk.with(|state| state.note_orphans(&batch[at].name, &turns.ready));
                    places.ready.extend(turns.ready);
                    places.next = [places.next, turns.next].into_iter().flatten().min();
                    places.is_first |= turns.is_first;
                }
                (answer, turns) => *answer = turns,
            }
        }
    }

    /// Why this process is not to be the first of a queue: it cannot open a session. One is opened again.
    fn trouble(&self) -> Option<Error> {
        self.desk.with(|state| {
            let (trouble, until) = state.trouble.as_ref()?;
            let (trouble, until) = (trouble.replicate(), *until);
            if now() >= until {
                state.shared();
            }
            Some(trouble)
        })
    }
}

#[async_trait]
impl PermitSteps for SessionSteps {
    /// What gathers at the desk leaves together, so that names need not wait for each other here.
    fn lane(&self, object: &Object) -> usize {
        let mut hasher = DefaultHasher::new();
        object.name.as_str().hash(&mut hasher);
        usize::try_from(hasher.finish() % LANES).unwrap_or_default()
    }

    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        None
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.desk.with(|state| {
            for ask in batch.iter().filter(|ask| self.label.is_of(ask)) {
                let turn = Turn { name: ask.object.name.clone(), may_be_there: false };
                state.turns.entry(ask.ticket).or_insert(turn);
            }
        });
        self.each_way(
            batch,
            |ask| ask.ticket,
            |steps, turns| Box::pin(steps.acquire_turns(turns)),
            |steps, rest| Box::pin(async { steps.lock(&rest.iter().collect::<Vec<_>>()).await }),
        )
        .await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.each_way(
            batch,
            |ask| ask.ticket,
            |steps, turns| steps.turns.renew(turns),
            |steps, rest| Box::pin(steps.renew_holds(rest)),
        )
        .await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        self.each_way(
            batch,
            |ask| ask.ticket,
            |steps, turns| Box::pin(steps.release_turns(turns)),
            |steps, rest| Box::pin(steps.release_locks(rest)),
        )
        .await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        self.each_way(
            batch,
            |ask| ask.ticket,
            |steps, turns| Box::pin(steps.cancel_turns(turns)),
            |steps, rest| Box::pin(steps.cancel_locks(rest)),
        )
        .await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let mut answers = match self.trouble() {
            Some(trouble) => refused(batch.len(), &trouble),
            None => self.places.poll(batch).await,
        };
        self.desk.with(|state| {
            for (object, answer) in batch.iter().zip(&mut answers) {
                state.polled(&object.name, answer.as_mut().ok());
            }
        });
        self.polled_turns(batch, &mut answers).await;
        answers
    }

    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        if let Some(trouble) = self.trouble() {
            return refused(batch.len(), &trouble);
        }
        if self.desk.with(|state| state.turns.is_empty()) {
            let mut answers = self.places.keep_places(batch).await;
            self.desk.with(|state| {
                for (object, answer) in batch.iter().zip(&mut answers) {
                    state.polled(&object.name, answer.as_mut().ok().and_then(Option::as_mut));
                }
            });
            return answers;
        }
        self.poll(batch).await.into_iter().map(|answer| answer.map(Some)).collect()
    }

    async fn attach(&self, _: &Attach) -> Result<Option<Attached>> {
        unsupported("a database session cannot give its lock to another")
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let (queue, mut holders) =
            tokio::try_join!(self.places.inspect(object), self.look.holders(&self.desk, &object.name))?;
        let departing = self.desk.with(|state| state.departing_of(&object.name));
        // A transaction whose turn it is.
        holders.extend(queue.holders);
        Ok(Inspection::new(holders, queue.waiters.saturating_sub(departing), Some(1)))
    }

    async fn resize(&self, _: &Object, _: u32) -> Result<()> {
        unsupported("a mutex has no limit")
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        let turns = self.turns.force(object, force).await?;
        Ok(turns + self.look.force(&self.desk, &object.name, force).await?)
    }

    async fn ping(&self) -> Result<()> {
        self.look.ping().await
    }
}

impl SessionSteps {
    fn forget_turns<'a, A: 'a>(&self, ended: impl Iterator<Item = (Ticket, &'a Result<A>)>) {
        self.desk.with(|state| {
            for (ticket, _) in ended.filter(|(_, answer)| answer.is_ok()) {
                state.turns.remove(&ticket);
            }
        });
    }
}

async fn ended(asked: Vec<Asked<Kept>>, end: Instant) -> Answers<Kept> {
    let mut answers = Vec::with_capacity(asked.len());
    for asked in asked {
        answers.push(match asked {
            Asked::Done(answer) => answer,
            Asked::Sent(_, answer) => heard(answer, end).await,
            Asked::Probed(_) => Err(unknown()),
        });
    }
    answers
}
