//! The short way: mutexes that nobody waits for, granted and released by scripts that do nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Cmd;
use stanchion_core::clock::{Instant, now};
use stanchion_core::steps::{Acquire, Acquired, Answers, Kept, Object, Release};
use stanchion_core::{FencingToken, Kind, Result, Ttl};
use xxhash_rust::xxh3::xxh3_64;

use super::{Context, RedisSteps, label, micros};
use crate::error::unexpected;
use crate::script::Script;

/// How long a mutex is taken for busy after the short way was closed; the scripts keep it a hash for as long.
const QUIET: Duration = Duration::from_secs(1);
const SLOTS: usize = 4096;

/// Which mutexes are busy, as far as is known: for them the short way would be one request more. A hint only: two names
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

/// A request that may go the short way.
pub(super) trait Plain: Clone + Send + Sync {
    type Answer: Send;

    fn object(&self) -> &Object;

    fn is_plain(&self, replicas: u32) -> bool;

    /// `None` for an entry that needs the long way.
    fn short(steps: &RedisSteps, batch: &[Self]) -> impl Future<Output = Shortly<Self::Answer>> + Send;

    fn long(steps: &RedisSteps, batch: &[Self]) -> impl Future<Output = Answers<Self::Answer>> + Send;
}

type Shortly<A> = Vec<Option<Result<A>>>;

impl Plain for Acquire {
    type Answer = Acquired;

    fn object(&self) -> &Object {
        &self.object
    }

    /// A mutex has one limit, so that there is nothing to compare.
    fn is_plain(&self, replicas: u32) -> bool {
        self.object.kind == Kind::Mutex && self.weight == 1 && replicas == 0
    }

    async fn short(steps: &RedisSteps, batch: &[Self]) -> Shortly<Acquired> {
        steps.lock(batch).await
    }

    async fn long(steps: &RedisSteps, batch: &[Self]) -> Answers<Acquired> {
        steps.acquire_full(batch).await
    }
}

impl Plain for Release {
    type Answer = Kept;

    fn object(&self) -> &Object {
        &self.object
    }

    fn is_plain(&self, _: u32) -> bool {
        self.object.kind == Kind::Mutex && self.tombstone.is_none()
    }

    async fn short(steps: &RedisSteps, batch: &[Self]) -> Shortly<Kept> {
        steps.unlock(batch).await
    }

    async fn long(steps: &RedisSteps, batch: &[Self]) -> Answers<Kept> {
        steps.release_full(batch).await
    }
}

impl RedisSteps {
    /// Sends what may go the short way that way and everything else, at once, the long way; then the long way those to
    /// whom the short one was closed.
    pub(super) async fn both_ways<T: Plain>(&self, batch: &[T]) -> Answers<T::Answer> {
        let Context { busy, replicas, .. } = &*self.context;
        let is_plain = |entry: &T| entry.is_plain(*replicas) && !busy.is_busy(entry.object());
        let plain: Vec<bool> = batch.iter().map(is_plain).collect();
        let first = if plain.iter().all(|plain| *plain) {
            T::short(self, batch).await
        } else if plain.contains(&true) {
            let (short, long) = (only(batch, &plain, true), only(batch, &plain, false));
            let (short, long) = tokio::join!(T::short(self, &short), T::long(self, &long));
            merge(&plain, short, long)
        } else {
            return T::long(self, batch).await;
        };
        let closed: Vec<bool> = first.iter().map(Option::is_none).collect();
        let rest = only(batch, &closed, true);
        fill(first, if rest.is_empty() { Vec::new() } else { T::long(self, &rest).await })
    }

    /// Locks; `None` for an entry that needs the long way.
    async fn lock(&self, batch: &[Acquire]) -> Vec<Option<Result<Acquired>>> {
        let arguments = |command: &mut Cmd, entry: &Acquire| {
            let queue = if entry.queue { 'q' } else { 't' };
            command.arg(micros(entry.lease.get()));
            command.arg(format!("{}{queue}{}", entry.ticket, label(entry.label.as_deref())));
        };
        let read = |number| match number {
            0 => Ok(None),
            -1 => Ok(Some(Acquired::Waiting { limit: 1, born: 0 })),
            _ => {
                let token = u64::try_from(number).ok().and_then(|token| FencingToken::new(token).ok());
                Ok(Some(Acquired::Granted { token: token.ok_or_else(unexpected)?, limit: 1, born: 0 }))
            }
        };
        let lease = batch.iter().map(|entry| entry.lease).max();
        self.brief(&self.scripts().lock, batch, arguments, lease, read).await
    }

    /// Releases; `None` for an entry that needs the long way.
    async fn unlock(&self, batch: &[Release]) -> Vec<Option<Result<Kept>>> {
        let arguments = |command: &mut Cmd, entry: &Release| {
            command.arg(entry.ticket.to_string());
        };
        let read = |number| Ok((number == 1).then_some(Kept::Yes));
        self.brief(&self.scripts().unlock, batch, arguments, None, read).await
    }

    async fn brief<T: Plain, A>(
        &self,
        script: &Script,
        batch: &[T],
        arguments: fn(&mut Cmd, &T),
        lease: Option<Ttl>,
        read: fn(i64) -> Result<Option<A>>,
    ) -> Vec<Option<Result<A>>> {
        let replies = self.call(script, batch, T::object, arguments, lease).await;
        let answers = replies.into_iter().map(|reply| read(reply?.sole()?));
        let answers: Vec<Option<Result<A>>> = answers.map(Result::transpose).collect();
        for (entry, _) in batch.iter().zip(&answers).filter(|(_, answer)| answer.is_none()) {
            self.context.busy.note(entry.object());
        }
        answers
    }
}

/// The entries for which `chosen` says so.
fn only<T: Clone>(batch: &[T], chosen: &[bool], yes: bool) -> Vec<T> {
    batch.iter().zip(chosen).filter(|(_, chosen)| **chosen == yes).map(|(entry, _)| entry.clone()).collect()
}

/// Puts the answers of both back in order.
fn merge<A>(chosen: &[bool], plain: Vec<Option<Result<A>>>, full: Answers<A>) -> Vec<Option<Result<A>>> {
    let (mut plain, mut full) = (plain.into_iter(), full.into_iter());
    chosen.iter().map(|chosen| if *chosen { plain.next().flatten() } else { full.next() }).collect()
}

/// Fills the gaps that the short way left.
fn fill<A>(answers: Vec<Option<Result<A>>>, full: Answers<A>) -> Answers<A> {
    let mut full = full.into_iter();
    answers
        .into_iter()
        .map(|answer| answer.or_else(|| full.next()).unwrap_or_else(|| Err(unexpected())))
        .collect()
}
