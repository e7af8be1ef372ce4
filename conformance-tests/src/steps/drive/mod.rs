//! Drives the steps of a [`Process`]: requests as cases make them, and what they expect of the answers.
//!
//! All of these panic if the store cannot be asked.

mod groups;
mod limits;
mod rig;

use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::steps::{
    Acquire, Acquired, Answers, Cancel, Ending, Kept, LimitCheck, Object, Polled, Release, Renew,
};
use stanchion_core::{FencingToken, Kind, Name, Ticket, Ttl};

pub use self::groups::{added, end, ended, generation, look, members, split_of, wait_group, watching};
pub use self::limits::{HOUR, Lane, SECOND, limiter, place, quota, remaining, reserve, take, verdict};
pub use self::rig::Rig;
use super::Process;
use crate::stopwatch::Stopwatch;

/// After so long unheard the waiters of a process count as silent (C5).
pub const LIVENESS: Duration = Duration::from_secs(1);
/// For so long requests are made again whose answers did not come in time.
const RIDE_OUT: Duration = Duration::from_secs(5);
/// How long nobody is judged silent after the store stood still (C16).
pub const GRACE: Duration = Duration::from_secs(2);

/// The mutex of that name.
///
/// # Panics
/// If it is no name, as the others.
#[must_use]
pub fn mutex(name: &str) -> Object {
    Object { kind: Kind::Mutex, name: Name::new(name).expect("a name") }
}

/// The semaphore of that name.
#[must_use]
pub fn semaphore(name: &str) -> Object {
    Object { kind: Kind::Semaphore, name: Name::new(name).expect("a name") }
}

/// A lease of so many milliseconds.
#[must_use]
pub fn ttl(milliseconds: u64) -> Ttl {
    Ttl::new(Duration::from_millis(milliseconds)).expect("a TTL")
}

/// A request for one permit of a limit of one, that queues, with a lease of 30 s.
#[must_use]
pub fn ask(object: &Object) -> Acquire {
    Acquire {
        object: object.clone(),
        ticket: Ticket::random(),
        weight: 1,
        lease: Ttl::DEFAULT,
        limit: 1,
        check: LimitCheck::Follow,
        queue: true,
        max_waiters: None,
        label: None,
    }
}

/// The same for `weight` of `limit` permits.
#[must_use]
pub fn ask_many(object: &Object, weight: u32, limit: u32) -> Acquire {
    Acquire { weight, limit, ..ask(object) }
}

/// The answers to a batch in which none failed.
pub fn all<T>(answers: Answers<T>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

/// The answer to a batch of one.
pub fn one<T>(answers: Answers<T>) -> T {
    all(answers).remove(0)
}

/// The release of what was asked for.
#[must_use]
pub fn freeing(request: &Acquire, tombstone: Option<Ttl>) -> Release {
    let object = request.object.clone();
    Release { object, ticket: request.ticket, ending: Ending::Finished, tombstone, call: None }
}

/// The renewal of what was asked for.
#[must_use]
pub fn renewal(request: &Acquire) -> Renew {
    Renew { object: request.object.clone(), ticket: request.ticket, lease: request.lease }
}

/// The answer to a request. Where none comes in time it is asked for again by the same ticket, as callers do (C2); a short
/// lease gives a busy store little time.
pub async fn acquire(process: &Process, request: &Acquire) -> Acquired {
    let end = now() + RIDE_OUT;
    loop {
        match process.callers.acquire(std::slice::from_ref(request)).await.remove(0) {
            Err(error) if error.is_retryable() && now() < end => {}
            answer => return answer.expect("an answer"),
        }
    }
}

/// Whether a request was granted.
#[must_use]
pub fn is_granted(answer: &Acquired) -> bool {
    matches!(answer, Acquired::Granted { .. })
}

/// The token of a request that has to be granted.
pub async fn granted(process: &Process, request: &Acquire) -> FencingToken {
    match acquire(process, request).await {
        Acquired::Granted { token, .. } => token,
        other => panic!("not granted but {other:?}"),
    }
}

/// A request that must not be granted, and may wait.
pub async fn waits(process: &Process, request: &Acquire) {
    let answer = acquire(process, request).await;
    assert!(matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
}

/// Renews a hold, and asks again as [`acquire`].
pub async fn renew(process: &Process, request: &Acquire) -> Kept {
    let end = now() + RIDE_OUT;
    loop {
        match process.own.renew(&[renewal(request)]).await.remove(0) {
            Err(error) if error.is_retryable() && now() < end => {}
            answer => return answer.expect("an answer"),
        }
    }
}

/// Releases a hold, without a tombstone.
pub async fn release(process: &Process, request: &Acquire) -> Kept {
    let release = freeing(request, None);
    one(process.own.release(&[release]).await)
}

/// Withdraws a request.
pub async fn cancel(process: &Process, request: &Acquire) {
    let cancel = Cancel { object: request.object.clone(), ticket: request.ticket, lease: request.lease };
    one(process.own.cancel(&[cancel]).await);
}

/// Tells that the process's waiters live, and asks whose turn it is.
pub async fn poll(process: &Process, object: &Object) -> Polled {
    one(process.own.poll(std::slice::from_ref(object)).await)
}

/// Polls until it is this ticket's turn, within `limit` by the stopwatch; how long that took by the clock.
pub async fn turn(process: &Process, request: &Acquire, limit: Duration) -> Duration {
    let (start, watch) = (now(), Stopwatch::start());
    while !poll(process, &request.object).await.ready.contains(&request.ticket) {
        assert!(watch.elapsed() < limit, "not its turn within {limit:?}");
        sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

/// Sleeps a time, during which these processes are heard.
pub async fn heard(processes: &[&Process], object: &Object, time: Duration) {
    let end = now() + time;
    while now() < end {
        for process in processes {
            poll(process, object).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
