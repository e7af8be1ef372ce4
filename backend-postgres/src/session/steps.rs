//! The steps of mutexes that sessions keep. Most of them are answered by the state; the sessions do the rest.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Force, Kept, Object, PermitSteps, Polled, Release,
    Renew,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result};
use tokio::sync::oneshot;

use super::asks::Asked;
use super::desk::Desk;
use super::look::Look;
use super::post::PostId;

/// Names are spread over so many lanes.
const LANES: u64 = 32;

/// The steps of mutexes in session mode.
#[derive(Clone, Debug)]
pub(crate) struct SessionSteps {
    pub(super) desk: Arc<Desk>,
    pub(super) look: Arc<Look>,
}

fn unknown() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

/// The answer to a part of a batch; without one the outcome is unknown.
pub(super) async fn heard<T>(answer: oneshot::Receiver<Result<T>>, end: Instant) -> Result<T> {
    match timeout_at(end, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(unknown()),
    }
}

impl SessionSteps {
    async fn acquired(&self, ask: &Acquire, asked: Asked<Acquired>, end: Instant) -> Result<Acquired> {
        let mut asked = asked;
        loop {
            match asked {
                Asked::Done(answer) => return answer,
                Asked::Sent(number, answer) => match heard(answer, end).await {
                    Ok(Acquired::Waiting { .. }) if ask.queue && ask.max_waiters.is_some() => {
                        asked = Asked::Counted
                    }
                    Err(error) if error.kind() == ErrorKind::Unknown => {
                        let unsent = self.desk.with(|state| state.give_up(&ask.object.name, number));
                        return Err(if unsent { unsent_error() } else { error });
                    }
                    answer => return answer,
                },
                Asked::Probed(alive) => {
                    let sent = heard(alive, end).await?;
                    match self.desk.with(|state| state.claimed(ask, sent)) {
                        Some(answer) => return Ok(answer),
                        None => asked = self.desk.with(|state| state.acquire(ask, now())),
                    }
                }
                Asked::Counted => {
                    let others = self.look.others(&self.desk, &ask.object.name).await?;
                    asked = self.desk.with(|state| state.join_bounded(ask, others, now()));
                }
            }
        }
    }

    fn end(&self) -> Instant {
        now() + self.desk.limit
    }
}

fn unsent_error() -> Error {
    Error::new(ErrorKind::Unavailable, "no session took the request within its time limit")
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

#[async_trait]
impl PermitSteps for SessionSteps {
    /// The desk joins what gathers, so that names need not wait for each other here: one may be on a session that is stuck.
    fn lane(&self, object: &Object) -> usize {
        let mut hasher = DefaultHasher::new();
        object.name.as_str().hash(&mut hasher);
        usize::try_from(hasher.finish() % LANES).unwrap_or_default()
    }

    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        None
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let (at, end) = (now(), self.end());
        let asked: Vec<_> = self.desk.with(|state| batch.iter().map(|ask| state.acquire(ask, at)).collect());
        let mut answers = Vec::with_capacity(batch.len());
        for (ask, asked) in batch.iter().zip(asked) {
            answers.push(self.acquired(ask, asked, end).await);
        }
        answers
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
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

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let (at, end) = (now(), self.end());
        let asked: Vec<_> = self.desk.with(|state| batch.iter().map(|ask| state.release(ask, at)).collect());
        ended(asked, end).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let (at, end) = (now(), self.end());
        let asked: Vec<_> = self.desk.with(|state| batch.iter().map(|ask| state.cancel(ask, at)).collect());
        ended(asked, end).await.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        self.desk.with(|state| batch.iter().map(|object| state.poll(&object.name)).collect())
    }

    async fn attach(&self, _: &Attach) -> Result<Option<Attached>> {
        unsupported("a database session cannot give its lock to another")
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.look.inspect(&self.desk, &object.name).await
    }

    async fn resize(&self, _: &Object, _: u32) -> Result<()> {
        unsupported("a mutex has no limit")
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.look.force(&self.desk, &object.name, force).await
    }

    async fn ping(&self) -> Result<()> {
        self.look.ping().await
    }
}

async fn ended(asked: Vec<Asked<Kept>>, end: Instant) -> Answers<Kept> {
    let mut answers = Vec::with_capacity(asked.len());
    for asked in asked {
        answers.push(match asked {
            Asked::Done(answer) => answer,
            Asked::Sent(_, answer) => heard(answer, end).await,
            Asked::Probed(_) | Asked::Counted => Err(unknown()),
        });
    }
    answers
}
