//! The fast path: mutexes and semaphores that nobody waits for, granted, renewed and released by scripts that do nothing
//! else.

mod busy;
mod mutexes;
mod semaphores;

use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Acquire, Acquired, Answers, Exchange, Exchanged, Kept, Object, Renew};
use stanchion_core::{FencingToken, Kind, Result, Ttl};

pub(crate) use self::busy::Busy;
use super::call::Step;
use super::reply::Reply;
use super::{Context, RedisSteps};
use crate::error::unexpected;
use crate::keys::{Keyspace, digits};

/// How an entry is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Mutex,
    Semaphore,
    Full,
}

/// A request that may take the fast path.
pub(super) trait FastPath: Clone + Send + Sync {
    type Answer: Send;

    fn object(&self) -> &Object;

    /// Whether the fast scripts can serve it; `waits` if grants wait for replicas or a disk.
    fn is_eligible(&self, waits: bool) -> bool;

    /// Calls the fast script for mutexes; `None` for an entry that it refuses.
    fn fast_mutexes(
        steps: &RedisSteps,
        batch: &[Self],
    ) -> impl Future<Output = FastAnswers<Self::Answer>> + Send;

    /// Calls the fast script for semaphores; `None` for an entry that it refuses.
    fn fast_semaphores(
        steps: &RedisSteps,
        batch: &[Self],
    ) -> impl Future<Output = FastAnswers<Self::Answer>> + Send;

    fn full(steps: &RedisSteps, batch: &[Self]) -> impl Future<Output = Answers<Self::Answer>> + Send;
}

type FastAnswers<A> = Vec<Option<Result<A>>>;

impl FastPath for Exchange {
    type Answer = Exchanged;

    fn object(&self) -> &Object {
        Self::object(self)
    }

    fn is_eligible(&self, waits: bool) -> bool {
        match self {
            Self::Acquire(acquire) => {
                !waits && (acquire.weight == 1 || acquire.object.kind == Kind::Semaphore)
            }
            Self::Release(release) => release.tombstone.is_none(),
        }
    }

    async fn fast_mutexes(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Exchanged> {
        steps.exchange_mutexes(batch).await
    }

    async fn fast_semaphores(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Exchanged> {
        steps.exchange_permits(batch).await
    }

    /// The releases leave first, so that what they free is there for the acquires.
    async fn full(steps: &RedisSteps, batch: &[Self]) -> Answers<Exchanged> {
        let (releases, acquires) = Self::split(batch);
        let (released, acquired) = tokio::join!(steps.release_full(&releases), steps.acquire_full(&acquires));
        Self::join(batch, released, acquired)
    }
}

impl FastPath for Renew {
    type Answer = Kept;

    fn object(&self) -> &Object {
        &self.object
    }

    fn is_eligible(&self, _: bool) -> bool {
        true
    }

    async fn fast_mutexes(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Kept> {
        steps.renew_mutexes(batch).await
    }

    async fn fast_semaphores(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Kept> {
        steps.renew_permits(batch).await
    }

    async fn full(steps: &RedisSteps, batch: &[Self]) -> Answers<Kept> {
        steps.renew_full(batch).await
    }
}

impl RedisSteps {
    /// Sends eligible entries through the fast scripts and the rest, concurrently, through the full one; then retries what the
    /// fast scripts refused through the full one.
    pub(super) async fn fast_then_full<T: FastPath>(&self, batch: &[T]) -> Answers<T::Answer> {
        let ways: Vec<Way> = batch.iter().map(|entry| self.way_of(entry)).collect();
        let first = match ways.first() {
            Some(Way::Full) if ways.iter().all(|way| *way == Way::Full) => return T::full(self, batch).await,
            Some(first) if ways.iter().all(|way| way == first) => self.send_first(*first, batch).await,
            _ => {
                let parts = [Way::Mutex, Way::Semaphore, Way::Full].map(async |way| {
                    let chosen: Vec<bool> = ways.iter().map(|known| *known == way).collect();
                    let answers = self.send_first(way, &only(batch, &chosen)).await;
                    (chosen, answers)
                });
                merge(batch.len(), join_all(parts).await)
            }
        };
        let refused: Vec<bool> = first.iter().map(Option::is_none).collect();
        let rest = only(batch, &refused);
        fill(first, if rest.is_empty() { Vec::new() } else { T::full(self, &rest).await })
    }

    fn way_of<T: FastPath>(&self, entry: &T) -> Way {
        let Context { busy, durability, .. } = &*self.context;
        match entry.object().kind {
            Kind::Mutex | Kind::Semaphore if !entry.is_eligible(durability.waits()) => Way::Full,
            Kind::Mutex | Kind::Semaphore if busy.is_busy(entry.object()) => Way::Full,
            Kind::Mutex => Way::Mutex,
            Kind::Semaphore => Way::Semaphore,
            _ => Way::Full,
        }
    }

    /// Sends entries of one way.
    async fn send_first<T: FastPath>(&self, way: Way, batch: &[T]) -> FastAnswers<T::Answer> {
        match way {
            _ if batch.is_empty() => Vec::new(),
            Way::Mutex => T::fast_mutexes(self, batch).await,
            Way::Semaphore => T::fast_semaphores(self, batch).await,
            Way::Full => T::full(self, batch).await.into_iter().map(Some).collect(),
        }
    }

    async fn call_fast<T: FastPath, A>(
        &self,
        step: &Step<'_, T>,
        batch: &[T],
        read: fn(&T, &Reply) -> Result<Option<A>>,
    ) -> FastAnswers<A> {
        let replies = self.call_with_acks(step, batch).await.into_iter().zip(batch);
        let answers =
            replies.map(|(acked, entry)| acked?.confirmed(|reply| read(entry, &reply), Option::is_some));
        let answers: FastAnswers<A> = answers.map(Result::transpose).collect();
        for (entry, _) in batch.iter().zip(&answers).filter(|(_, answer)| answer.is_none()) {
            self.context.busy.note(entry.object());
        }
        answers
    }
}

/// Reads the answer to a release or an acquire: a number, and the limit of the name. `None` if it needs a full script.
fn exchanged(entry: &Exchange, number: i64, limit: u32) -> Result<Option<Exchanged>> {
    Ok(match (entry, number) {
        (_, 0) => None,
        (Exchange::Release(_), 1) => Some(Exchanged::Kept(Kept::Yes)),
        (Exchange::Acquire(_), -1) => Some(Exchanged::Acquired(Acquired::Waiting { limit, epoch: 0 })),
        (Exchange::Acquire(_), number) => {
            let token = u64::try_from(number).ok().and_then(|token| FencingToken::new(token).ok());
            let token = token.ok_or_else(unexpected)?;
            Some(Exchanged::Acquired(Acquired::Granted { token, limit, epoch: 0 }))
        }
        _ => return Err(unexpected()),
    })
}

/// Adds the keys of the objects' records.
fn add_records<'a>(keyspace: &Keyspace, command: &mut Cmd, objects: impl Iterator<Item = &'a Object>) {
    let mut key = String::new();
    for object in objects {
        keyspace.record_into(object, &mut key);
        command.arg(&key);
    }
}

/// Makes a text the ticket of an acquire, whether it would queue, how it compares parameters, and its label.
fn ticket_into(text: &mut Vec<u8>, acquire: &Acquire, check: &str) {
    text.clear();
    text.extend(digits(acquire.ticket));
    text.push(if acquire.queue { b'q' } else { b't' });
    text.extend(check.bytes());
    if let Some(label) = &acquire.label {
        text.push(b' ');
        text.extend(label.bytes());
    }
}

/// Returns a lease as the expiry of a key, rounded up.
fn milliseconds(lease: Ttl) -> u64 {
    micros(lease.get()).div_ceil(1_000)
}

/// The chosen entries.
fn only<T: Clone>(batch: &[T], chosen: &[bool]) -> Vec<T> {
    batch.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(entry, _)| entry.clone()).collect()
}

/// Puts the answers to the chosen entries of each part in the order of the batch.
fn merge<A>(count: usize, parts: Vec<(Vec<bool>, FastAnswers<A>)>) -> FastAnswers<A> {
    let mut merged: FastAnswers<A> = (0..count).map(|_| None).collect();
    for (chosen, answers) in parts {
        let places = merged.iter_mut().zip(chosen).filter_map(|(place, chosen)| chosen.then_some(place));
        for (place, answer) in places.zip(answers) {
            *place = answer;
        }
    }
    merged
}

/// Fills the gaps that the fast scripts left.
fn fill<A>(answers: FastAnswers<A>, full: Answers<A>) -> Answers<A> {
    let mut full = full.into_iter();
    answers
        .into_iter()
        .map(|answer| answer.or_else(|| full.next()).unwrap_or_else(|| Err(unexpected())))
        .collect()
}
