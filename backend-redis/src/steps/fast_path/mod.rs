//! The fast path: mutexes and semaphores that nobody waits for, granted, renewed and released by
//! scripts that do nothing else.

mod busy;
mod mutexes;
mod semaphores;

use std::fmt::{self, Write};

use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Acquire, Acquired, Kept, Object, Request, Response};
use stanchion_core::{FencingToken, Kind, Result, Ttl};

pub(crate) use self::busy::Busy;
use super::reply::Reply;
use super::step::Step;
use super::{Context, RedisSteps};
use crate::error::unexpected;
use crate::keys::{Keyspace, STRIPES, stripe_of};
use crate::script::Scripts;

/// The scripts of the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastScript {
    /// Releases and locks mutexes.
    Mutexes,
    RenewMutexes,
    /// Releases and acquires permits.
    Permits,
    RenewPermits,
}

/// A fast script, and what it is given and answers.
pub(super) struct FastStep<'a> {
    pub(super) step: Step<'a, Request>,
    /// Reads the reply to an entry; `None` for one that needs a full script.
    pub(super) read: fn(&Request, &Reply) -> Result<Option<Response>>,
    /// Maximum number of entries of one call.
    pub(super) most: usize,
}

impl RedisSteps {
    /// Returns the fast script that may serve a request.
    pub(super) fn fast_script(&self, request: &Request) -> Option<FastScript> {
        let Context { busy, durability, .. } = &*self.context;
        let object = request.object()?;
        let is_mutex = match object.kind {
            Kind::Mutex => true,
            Kind::Semaphore => false,
            _ => return None,
        };
        let (exchange, renewal) = match is_mutex {
            true => (FastScript::Mutexes, FastScript::RenewMutexes),
            false => (FastScript::Permits, FastScript::RenewPermits),
        };
        let script = match request {
            Request::Acquire(acquire) if !durability.waits() && (!is_mutex || acquire.weight == 1) => {
                exchange
            }
            Request::Release(release) if release.tombstone.is_none() => exchange,
            Request::Renew(_) => renewal,
            _ => return None,
        };
        (!busy.is_busy(object)).then_some(script)
    }
}

impl FastScript {
    pub(super) fn step(self, scripts: &Scripts) -> FastStep<'_> {
        match self {
            Self::Mutexes => mutexes::exchange(scripts),
            Self::RenewMutexes => mutexes::renewals(scripts),
            Self::Permits => semaphores::exchange(scripts),
            Self::RenewPermits => semaphores::renewals(scripts),
        }
    }
}

/// The stripes of the acquires of a batch, a bit for each. The largest token of each is a key.
#[derive(Clone, Copy)]
struct Marks(u16);

impl Marks {
    fn of(batch: &[&Request]) -> Self {
        let bit = |entry: &&Request| match entry {
            Request::Acquire(acquire) => 1 << stripe_of(&acquire.object),
            _ => 0,
        };
        Self(batch.iter().map(bit).fold(0, |bits, bit| bits | bit))
    }

    fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    fn add_keys(self, keyspace: &Keyspace, command: &mut Cmd) {
        for stripe in (0..STRIPES).filter(|stripe| self.0 & (1 << stripe) != 0) {
            command.arg(keyspace.mark(stripe));
        }
    }

    /// Returns the place of the key of an acquire, the first of which is 1.
    fn place_of(self, acquire: &Acquire) -> usize {
        let stripe = stripe_of(&acquire.object);
        Self(self.0 & ((1 << stripe) - 1)).count() + 1
    }
}

/// The object of a request that a fast script serves.
fn object_of(request: &Request) -> &Object {
    match request {
        Request::Acquire(acquire) => &acquire.object,
        Request::Release(release) => &release.object,
        Request::Renew(renew) => &renew.object,
        _ => unreachable!("no request of the fast path"),
    }
}

/// Reads the answer to a release or an acquire: a number, and the limit of the name. `None` if it
/// needs a full script.
fn exchanged(request: &Request, number: i64, limit: u32) -> Result<Option<Response>> {
    Ok(match (request, number) {
        (_, 0) => None,
        (Request::Release(_), 1) => Some(Response::Release(Kept::Yes)),
        (Request::Acquire(_), -1) => Some(Response::Acquire(Acquired::Waiting { limit, epoch: 0 })),
        (Request::Acquire(_), number) => {
            let token = u64::try_from(number).ok().and_then(|token| FencingToken::new(token).ok());
            let token = token.ok_or_else(unexpected)?;
            Some(Response::Acquire(Acquired::Granted { token, limit, epoch: 0 }))
        }
        _ => return Err(unexpected()),
    })
}

/// Reads the answer to a renewal; `None` if it needs the full script.
fn renewed(_: &Request, reply: &Reply) -> Result<Option<Response>> {
    Ok((reply.sole()? == 1).then_some(Response::Renew(Kept::Yes)))
}

/// The letters of the entries of a batch, in order.
struct Letters<'a>(&'a [&'a Request]);

impl fmt::Display for Letters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|entry| {
            f.write_char(match entry {
                Request::Release(_) => 'r',
                Request::Renew(_) => 'n',
                _ => 'a',
            })
        })
    }
}

/// The ticket of an acquire, whether it would queue, how it compares parameters, and its label.
struct AcquireTicket<'a>(&'a Acquire, &'static str);

impl fmt::Display for AcquireTicket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Acquire { ticket, queue, label, .. }, check) = self;
        write!(f, "{ticket}{}{check}", if *queue { 'q' } else { 't' })?;
        label.as_ref().map_or(Ok(()), |label| write!(f, " {label}"))
    }
}

/// Returns a lease as the expiry of a key, rounded up.
fn milliseconds(lease: Ttl) -> u64 {
    micros(lease.get()).div_ceil(1_000)
}
