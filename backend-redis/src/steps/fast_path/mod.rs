//! The fast path: mutexes and semaphores that nobody waits for, granted, renewed and released by
//! scripts that do nothing else.

mod busy;
mod mutexes;
mod semaphores;

use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::{Instant, micros};
use stanchion_core::spi::{Acquire, Acquired, Answers, Kept, Object, Request, Response};
use stanchion_core::{FencingToken, Kind, Result, Ttl};

pub(crate) use self::busy::Busy;
use super::acked_reply::AckedReply;
use super::call::Step;
use super::reply::Reply;
use super::{Context, RedisSteps};
use crate::error::unexpected;
use crate::keys::Keyspace;

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
struct FastStep<'a> {
    step: Step<'a, Request>,
    /// Reads the reply to an entry; `None` for one that needs a full script.
    read: fn(&Request, &Reply) -> Result<Option<Response>>,
    /// Maximum number of entries of one call.
    most: usize,
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

    /// Sends requests through a fast script, and what that refuses through the full ones.
    pub(super) async fn fast_then_full(
        &self,
        script: FastScript,
        batch: &[&Request],
        end: Instant,
    ) -> Answers<Response> {
        let FastStep { step, read, most } = match script {
            FastScript::Mutexes => mutexes::exchange(self.scripts()),
            FastScript::RenewMutexes => mutexes::renewals(self.scripts()),
            FastScript::Permits => semaphores::exchange(self.scripts()),
            FastScript::RenewPermits => semaphores::renewals(self.scripts()),
        };
        let replies = if batch.len() <= most {
            self.call_with_acks(&step, batch, end).await
        } else {
            let parts = batch.chunks(most).map(|part| self.call_with_acks(&step, part, end));
            join_all(parts).await.into_iter().flatten().collect()
        };
        let answer = |(acked, entry): (Result<AckedReply>, &&Request)| {
            acked?.confirmed(|reply| read(entry, &reply), Option::is_some)
        };
        let mut answers: Vec<_> = replies.into_iter().zip(batch).map(answer).map(Result::transpose).collect();
        let refused: Vec<usize> = (0..batch.len()).filter(|&index| answers[index].is_none()).collect();
        if !refused.is_empty() {
            let rest: Vec<&Request> = refused.iter().map(|&index| batch[index]).collect();
            rest.iter()
                .filter_map(|request| request.object())
                .for_each(|object| self.context.busy.note(object));
            for (index, answer) in refused.into_iter().zip(self.send_full(&rest, end).await) {
                answers[index] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
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

/// Adds the keys of the objects' records.
fn add_records<'a>(keyspace: &Keyspace, command: &mut Cmd, objects: impl Iterator<Item = &'a Object>) {
    let mut key = String::new();
    for object in objects {
        keyspace.record_into(object, &mut key);
        command.arg(&key);
    }
}

/// Makes a text the ticket of an acquire, whether it would queue, how it compares parameters, and
/// its label.
fn ticket_into(text: &mut Vec<u8>, acquire: &Acquire, check: &str) {
    text.clear();
    text.extend(crate::keys::digits(acquire.ticket));
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
