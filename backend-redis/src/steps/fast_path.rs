//! The fast path: mutexes that nobody waits for, granted, renewed and released by scripts that do nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Cmd;
use stanchion_core::clock::{Instant, micros, now};
use stanchion_core::steps::{Acquire, Acquired, Answers, Kept, Object, Release, Renew};
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

impl FastPath for Acquire {
    type Answer = Acquired;

    fn object(&self) -> &Object {
        &self.object
    }

    /// A mutex has one limit, so that there is nothing to compare.
    fn is_eligible(&self, replicas: u32) -> bool {
        self.object.kind == Kind::Mutex && self.weight == 1 && replicas == 0
    }

    async fn fast(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Acquired> {
        steps.lock(batch).await
    }

    async fn full(steps: &RedisSteps, batch: &[Self]) -> Answers<Acquired> {
        steps.acquire_full(batch).await
    }
}

impl FastPath for Release {
    type Answer = Kept;

    fn object(&self) -> &Object {
        &self.object
    }

    fn is_eligible(&self, _: u32) -> bool {
        self.object.kind == Kind::Mutex && self.tombstone.is_none()
    }

    async fn fast(steps: &RedisSteps, batch: &[Self]) -> FastAnswers<Kept> {
        steps.unlock(batch).await
    }

    async fn full(steps: &RedisSteps, batch: &[Self]) -> Answers<Kept> {
        steps.release_full(batch).await
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

    /// Locks; `None` for an entry that needs the full script.
    async fn lock(&self, batch: &[Acquire]) -> FastAnswers<Acquired> {
        let encode = |keyspace: &Keyspace, command: &mut Cmd, batch: &[&Acquire]| {
            let mut stripes = Vec::new();
            let mut place_of = |entry: &&Acquire| {
                let stripe = stripe_of(&entry.object);
                let known = stripes.iter().position(|known| *known == stripe);
                known.unwrap_or_else(|| {
                    stripes.push(stripe);
                    stripes.len() - 1
                })
            };
            let places: Vec<_> = batch.iter().map(&mut place_of).collect();
            command.arg(stripes.len() + batch.len());
            for stripe in &stripes {
                command.arg(keyspace.mark(*stripe));
            }
            for entry in batch {
                command.arg(keyspace.record(&entry.object));
            }
            command.arg(stripes.len()).arg(0);
            for (entry, place) in batch.iter().zip(places) {
                let queue = if entry.queue { 'q' } else { 't' };
                let ticket = format!("{}{queue}{}", entry.ticket, label(entry.label.as_deref()));
                command.arg(place + 1).arg(milliseconds(entry.lease)).arg(ticket);
            }
        };
        let read = |number| match number {
            0 => Ok(None),
            -1 => Ok(Some(Acquired::Waiting { limit: 1, epoch: 0 })),
            _ => {
                let token = u64::try_from(number).ok().and_then(|token| FencingToken::new(token).ok());
                Ok(Some(Acquired::Granted { token: token.ok_or_else(unexpected)?, limit: 1, epoch: 0 }))
            }
        };
        let lease = batch.iter().map(|entry| entry.lease).max();
        let script = &self.scripts().fast_path;
        let step = Step { script, object: FastPath::object, encode: Encode::Whole(encode), lease };
        self.call_fast(&step, batch, read).await
    }

    /// Releases; `None` for an entry that needs the full script.
    async fn unlock(&self, batch: &[Release]) -> FastAnswers<Kept> {
        let encode = |keyspace: &Keyspace, command: &mut Cmd, batch: &[&Release]| {
            add_records(keyspace, command, batch);
            command.arg(0).arg(batch.len());
            for entry in batch {
                command.arg(entry.ticket.to_string());
            }
        };
        let script = &self.scripts().fast_path;
        let step = Step { script, object: FastPath::object, encode: Encode::Whole(encode), lease: None };
        self.call_fast(&step, batch, kept).await
    }

    /// Renews; `None` for an entry that needs the full script.
    async fn prolong(&self, batch: &[Renew]) -> FastAnswers<Kept> {
        let encode = |keyspace: &Keyspace, command: &mut Cmd, batch: &[&Renew]| {
            add_records(keyspace, command, batch);
            for entry in batch {
                command.arg(entry.ticket.to_string()).arg(milliseconds(entry.lease));
            }
        };
        let (script, lease) = (&self.scripts().fast_renew, shortest(batch));
        let step = Step { script, object: FastPath::object, encode: Encode::Whole(encode), lease };
        self.call_fast(&step, batch, kept).await
    }

    async fn call_fast<T: FastPath, A>(
        &self,
        step: &Step<'_, T>,
        batch: &[T],
        read: fn(i64) -> Result<Option<A>>,
    ) -> FastAnswers<A> {
        let answers = self.call(step, batch).await.into_iter().map(|reply| read(reply?.sole()?));
        let answers: FastAnswers<A> = answers.map(Result::transpose).collect();
        for (entry, _) in batch.iter().zip(&answers).filter(|(_, answer)| answer.is_none()) {
            self.context.busy.note(entry.object());
        }
        answers
    }
}

/// Adds the number of the entries and their records.
fn add_records<T: FastPath>(keyspace: &Keyspace, command: &mut Cmd, batch: &[&T]) {
    command.arg(batch.len());
    for entry in batch {
        command.arg(keyspace.record(entry.object()));
    }
}

fn kept(number: i64) -> Result<Option<Kept>> {
    Ok((number == 1).then_some(Kept::Yes))
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
