//! The fast path: mutexes that nobody waits for, granted, renewed and released by scripts that do nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Cmd;
use stanchion_core::clock::{Instant, micros, now};
use stanchion_core::steps::{Acquired, Answers, Exchange, Exchanged, Kept, Object, Renew};
use stanchion_core::{FencingToken, Kind, Result, Ttl};
use xxhash_rust::xxh3::xxh3_64;

use super::call::{Encode, Step};
use super::permits::{label, shortest};
use super::{Context, RedisSteps};
use crate::error::unexpected;
use crate::keys::{Keyspace, stripe_of};

/// How long a mutex is taken for busy after the fast path refused it; the scripts keep it a hash for as long.
const QUIET: Duration = Duration::from_secs(1);
const SLOTS: usize = 4096;

/// Which mutexes are busy, as far as is known: for them the fast path would be one request more. A hint only: two names
/// can share a slot.
#[derive(Debug)]
pub(crate) struct Busy {
    start: Instant,
    /// Until when, in ms since `start`.
    slots: Vec<AtomicU64>,
}

impl Busy {
    pub(crate) fn new() -> Self {
        Self { start: now(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    fn slot(&self, object: &Object) -> &AtomicU64 {
        // The remainder is below the number of slots.
        let index =
            usize::try_from(xxh3_64(object.name.as_str().as_bytes()) % SLOTS as u64).unwrap_or_default();
        &self.slots[index]
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_busy(&self, object: &Object) -> bool {
        let until = self.slot(object).load(Ordering::Relaxed);
        until > 0 && self.elapsed() < until
    }

    fn note(&self, object: &Object) {
        let until = self.elapsed() + u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        self.slot(object).store(until, Ordering::Relaxed);
    }
}

/// A request that may take the fast path.
pub(super) trait FastPath: Clone + Send + Sync {
    type Answer: Send;

    fn object(&self) -> &Object;

    fn is_eligible(&self, replicas: u32) -> bool;

    /// Calls the fast script; `None` for an entry that it refuses.
    fn fast(steps: &RedisSteps, batch: &[Self]) -> impl Future<Output = FastAnswers<Self::Answer>> + Send;

    fn full(steps: &RedisSteps, batch: &[Self]) -> impl Future<Output = Answers<Self::Answer>> + Send;
}

type FastAnswers<A> = Vec<Option<Result<A>>>;

impl FastPath for Exchange {
    type Answer = Exchanged;

    fn object(&self) -> &Object {
        Self::object(self)
    }

    /// A mutex has one limit, so that there is nothing to compare.
    fn is_eligible(&self, replicas: u32) -> bool {
        self.object().kind == Kind::Mutex
            && match self {
                Self::Acquire(acquire) => acquire.weight == 1 && replicas == 0,
                Self::Release(release) => release.tombstone.is_none(),
            }
    }

    async fn fast(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Exchanged> {
        steps.exchange_fast(batch).await
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

    fn is_eligible(&self, _: u32) -> bool {
        self.object.kind == Kind::Mutex
    }

    async fn fast(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Kept> {
        steps.prolong(batch).await
    }

    async fn full(steps: &RedisSteps, batch: &[Self]) -> Answers<Kept> {
        steps.renew_full(batch).await
    }
}

impl RedisSteps {
    /// Sends eligible entries through the fast script and the rest, concurrently, through the full one; then retries what the
    /// fast script refused through the full one.
    pub(super) async fn fast_then_full<T: FastPath>(&self, batch: &[T]) -> Answers<T::Answer> {
        let Context { busy, replicas, .. } = &*self.context;
        let is_eligible = |entry: &T| entry.is_eligible(*replicas) && !busy.is_busy(entry.object());
        let eligible: Vec<bool> = batch.iter().map(is_eligible).collect();
        let first = if eligible.iter().all(|eligible| *eligible) {
            T::fast(self, batch).await
        } else if eligible.contains(&true) {
            let (fast, full) = (only(batch, &eligible, true), only(batch, &eligible, false));
            let (fast, full) = tokio::join!(T::fast(self, &fast), T::full(self, &full));
            merge(&eligible, fast, full)
        } else {
            return T::full(self, batch).await;
        };
        let refused: Vec<bool> = first.iter().map(Option::is_none).collect();
        let rest = only(batch, &refused, true);
        fill(first, if rest.is_empty() { Vec::new() } else { T::full(self, &rest).await })
    }

    /// Releases and locks; `None` for an entry that needs a full script.
    async fn exchange_fast(&self, batch: &[Exchange]) -> FastAnswers<Exchanged> {
        let (script, lease) = (&self.scripts().fast_path, Exchange::longest_lease(batch));
        let step = Step { script, object: FastPath::object, encode: Encode::Whole(encode_exchange), lease };
        let read = |entry: &Exchange, number| match (entry, number) {
            (_, 0) => Ok(None),
            (Exchange::Release(_), 1) => Ok(Some(Exchanged::Kept(Kept::Yes))),
            (Exchange::Acquire(_), -1) => {
                Ok(Some(Exchanged::Acquired(Acquired::Waiting { limit: 1, epoch: 0 })))
            }
            (Exchange::Acquire(_), number) => {
                let token = u64::try_from(number).ok().and_then(|token| FencingToken::new(token).ok());
                let token = token.ok_or_else(unexpected)?;
                Ok(Some(Exchanged::Acquired(Acquired::Granted { token, limit: 1, epoch: 0 })))
            }
            _ => Err(unexpected()),
        };
        self.call_fast(&step, batch, read).await
    }

    /// Renews; `None` for an entry that needs the full script.
    async fn prolong(&self, batch: &[Renew]) -> FastAnswers<Kept> {
        let encode = |keyspace: &Keyspace, command: &mut Cmd, batch: &[&Renew]| {
            command.arg(batch.len());
            for entry in batch {
                command.arg(keyspace.record(&entry.object));
            }
            for entry in batch {
                command.arg(entry.ticket.to_string()).arg(milliseconds(entry.lease));
            }
        };
        let (script, lease) = (&self.scripts().fast_renew, shortest(batch));
        let step = Step { script, object: FastPath::object, encode: Encode::Whole(encode), lease };
        self.call_fast(&step, batch, |_, number| Ok((number == 1).then_some(Kept::Yes))).await
    }

    async fn call_fast<T: FastPath, A>(
        &self,
        step: &Step<'_, T>,
        batch: &[T],
        read: fn(&T, i64) -> Result<Option<A>>,
    ) -> FastAnswers<A> {
        let replies = self.call(step, batch).await.into_iter().zip(batch);
        let answers = replies.map(|(reply, entry)| read(entry, reply?.sole()?));
        let answers: FastAnswers<A> = answers.map(Result::transpose).collect();
        for (entry, _) in batch.iter().zip(&answers).filter(|(_, answer)| answer.is_none()) {
            self.context.busy.note(entry.object());
        }
        answers
    }
}

/// Adds what the fast script is given.
fn encode_exchange(keyspace: &Keyspace, command: &mut Cmd, batch: &[&Exchange]) {
    let (mut releases, mut acquires, mut stripes) = (Vec::new(), Vec::new(), Vec::new());
    let mut kinds = String::with_capacity(batch.len());
    for entry in batch {
        match entry {
            Exchange::Release(release) => {
                kinds.push('r');
                releases.push(release);
            }
            Exchange::Acquire(acquire) => {
                kinds.push('a');
                let stripe = stripe_of(&acquire.object);
                let place = stripes.iter().position(|known| *known == stripe).unwrap_or_else(|| {
                    stripes.push(stripe);
                    stripes.len() - 1
                });
                acquires.push((acquire, place));
            }
        }
    }
    command.arg(stripes.len() + releases.len() + acquires.len());
    for stripe in &stripes {
        command.arg(keyspace.mark(*stripe));
    }
    for release in &releases {
        command.arg(keyspace.record(&release.object));
    }
    for (acquire, _) in &acquires {
        command.arg(keyspace.record(&acquire.object));
    }
    command.arg(stripes.len()).arg(releases.len()).arg(kinds);
    for release in releases {
        command.arg(release.ticket.to_string());
    }
    for (acquire, place) in acquires {
        let queue = if acquire.queue { 'q' } else { 't' };
        let ticket = format!("{}{queue}{}", acquire.ticket, label(acquire.label.as_deref()));
        command.arg(place + 1).arg(milliseconds(acquire.lease)).arg(ticket);
    }
}

/// Returns a lease as the expiry of a key, rounded up.
fn milliseconds(lease: Ttl) -> u64 {
    micros(lease.get()).div_ceil(1_000)
}

/// The entries for which `chosen` says so.
fn only<T: Clone>(batch: &[T], chosen: &[bool], yes: bool) -> Vec<T> {
    batch.iter().zip(chosen).filter(|(_, chosen)| **chosen == yes).map(|(entry, _)| entry.clone()).collect()
}

/// Puts the answers of both scripts back in order.
fn merge<A>(chosen: &[bool], fast: Vec<Option<Result<A>>>, full: Answers<A>) -> Vec<Option<Result<A>>> {
    let (mut fast, mut full) = (fast.into_iter(), full.into_iter());
    chosen.iter().map(|chosen| if *chosen { fast.next().flatten() } else { full.next() }).collect()
}

/// Fills the gaps that the fast script left.
fn fill<A>(answers: Vec<Option<Result<A>>>, full: Answers<A>) -> Answers<A> {
    let mut full = full.into_iter();
    answers
        .into_iter()
        .map(|answer| answer.or_else(|| full.next()).unwrap_or_else(|| Err(unexpected())))
        .collect()
}
