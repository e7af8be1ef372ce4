//! Drives the steps of a [`Process`]: common requests, and checks of their answers.
//!
//! All of these panic if the store cannot be asked.

mod groups;
mod limits;
mod rig;

use crate::steps::StepCalls;
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Kept, Object, ParameterCheck, Polled,
    Purpose, Release, Renew,
};
use stanchion_core::{FencingToken, Kind, Name, Result, Ticket, Ttl};

pub use self::groups::{
    added, end, ended, generation, look, members, split_of, split_off, wait_group, watching,
};
pub use self::limits::{HOUR, SECOND, Sequence, limiter, place, quota, remaining, reserve, take, verdict};
pub use self::rig::Rig;
use super::Process;
use crate::stopwatch::{EPSILON, Stopwatch};

/// Time after which the waiters of an unheard process count as silent ([C5]).
///
/// [C5]: stanchion_core::contract#c5
pub const LIVENESS: Duration = Duration::from_secs(1);
/// Time limit for retries of requests whose answers did not come in time.
const RETRY_LIMIT: Duration = Duration::from_secs(5);
/// Time after a stall of the store in which no process is judged silent ([C16]).
///
/// [C16]: stanchion_core::contract#c16
pub const GRACE: Duration = Duration::from_secs(2);
/// Minimum time without any request after which a case allows for a stall of the store ([C16]).
/// Engines give a sign of life every 300 ms: a shorter silence of all processes is no stall of the
/// store.
///
/// [C16]: stanchion_core::contract#c16
pub const STALL: Duration = Duration::from_millis(400);

/// Returns the mutex of that name.
///
/// # Panics
/// If the name is invalid, like the other constructors.
#[must_use]
pub fn mutex(name: &str) -> Object {
    Object { kind: Kind::Mutex, name: Name::new(name).expect("a name") }
}

/// Returns the semaphore of that name.
#[must_use]
pub fn semaphore(name: &str) -> Object {
    Object { kind: Kind::Semaphore, name: Name::new(name).expect("a name") }
}

/// Returns a lease in milliseconds.
#[must_use]
pub fn ttl(milliseconds: u64) -> Ttl {
    Ttl::new(Duration::from_millis(milliseconds)).expect("a TTL")
}

/// Returns a request for one permit of a limit of one, which queues, with a lease of 30 s.
#[must_use]
pub fn ask(object: &Object) -> Acquire {
    Acquire {
        object: object.clone(),
        ticket: Ticket::random(),
        weight: 1,
        lease: Ttl::DEFAULT,
        limit: 1,
        check: ParameterCheck::Follow,
        queue: true,
        max_waiters: None,
        label: None,
        purpose: Purpose::Guard,
    }
}

/// Returns the same request for `weight` of `limit` permits.
#[must_use]
pub fn ask_many(object: &Object, weight: u32, limit: u32) -> Acquire {
    Acquire { weight, limit, ..ask(object) }
}

/// Returns the answers to a batch in which none failed.
pub fn all<T>(answers: Answers<T>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

/// Returns the answer to a batch of one.
pub fn one<T>(answers: Answers<T>) -> T {
    all(answers).remove(0)
}

/// Returns the release of a request's hold.
#[must_use]
pub fn freeing(request: &Acquire, tombstone: Option<Ttl>) -> Release {
    let object = request.object.clone();
    Release { object, ticket: request.ticket, ending: Ending::Finished, tombstone, call: None }
}

/// Returns the renewal of a request's hold.
#[must_use]
pub fn renewal(request: &Acquire) -> Renew {
    Renew { object: request.object.clone(), ticket: request.ticket, lease: request.lease }
}

/// Returns the answer to a step. If none comes in time, retries with the same ticket, as callers do
/// ([C2]); a short lease gives a busy store little time.
///
/// [C2]: stanchion_core::contract#c2
async fn retried<T, F: Future<Output = Result<T>>>(mut step: impl FnMut() -> F) -> T {
    let end = now() + RETRY_LIMIT;
    loop {
        match step().await {
            Err(error) if error.is_retryable() && now() < end => {}
            answer => return answer.expect("an answer"),
        }
    }
}

/// Sends a request and returns its answer, with retries.
pub async fn acquire(process: &Process, request: &Acquire) -> Acquired {
    retried(|| async { process.callers.acquire(std::slice::from_ref(request)).await.remove(0) }).await
}

/// Sends requests together and returns their answers, with retries of all of them.
pub async fn acquire_all(process: &Process, requests: &[Acquire]) -> Vec<Acquired> {
    retried(|| async { process.callers.acquire(requests).await.into_iter().collect() }).await
}

/// Sets the leases of holds to `lease`, with retries, so that they end together. Holds that have
/// ended since stay so.
pub async fn shorten(process: &Process, requests: &[Acquire], lease: Ttl) {
    for part in requests.chunks(500) {
        let renews: Vec<_> = part.iter().map(|request| Renew { lease, ..renewal(request) }).collect();
        let _: Vec<Kept> = retried(|| async { process.own.renew(&renews).await.into_iter().collect() }).await;
    }
}

/// Returns whether a request was granted.
#[must_use]
pub fn is_granted(answer: &Acquired) -> bool {
    matches!(answer, Acquired::Granted { .. })
}

/// Sends a request that must be granted, and returns its token.
pub async fn granted(process: &Process, request: &Acquire) -> FencingToken {
    match acquire(process, request).await {
        Acquired::Granted { token, .. } => token,
        other => panic!("not granted but {other:?}"),
    }
}

/// Sends a request that must not be granted, but may wait.
pub async fn waits(process: &Process, request: &Acquire) {
    let answer = acquire(process, request).await;
    assert!(matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
}

/// Renews a hold, with retries.
pub async fn renew(process: &Process, request: &Acquire) -> Kept {
    retried(|| async { process.own.renew(&[renewal(request)]).await.remove(0) }).await
}

/// Attaches a hold, with retries; `None` if it is gone.
pub async fn attach(process: &Process, attach: &Attach) -> Option<Attached> {
    retried(|| process.callers.attach(attach)).await
}

/// Releases a hold, without a tombstone.
pub async fn release(process: &Process, request: &Acquire) -> Kept {
    let release = freeing(request, None);
    one(process.own.release(&[release]).await)
}

/// Cancels a request.
pub async fn cancel(process: &Process, request: &Acquire) {
    let tombstone = Some(request.lease);
    let cancel = Cancel { object: request.object.clone(), ticket: request.ticket, tombstone };
    one(process.own.cancel(&[cancel]).await);
}

/// Polls for the process: marks its waiters as live, and returns which of them may be granted.
pub async fn poll(process: &Process, object: &Object) -> Polled {
    one(process.own.poll(std::slice::from_ref(object)).await)
}

/// Keeps the places of the process: marks its waiters as live.
pub async fn keep_places(process: &Process, object: &Object) -> Option<Polled> {
    one(process.own.keep_places(std::slice::from_ref(object)).await)
}

/// Polls until the request may be granted, within `limit` by the stopwatch. After a stall of the
/// store no process is judged silent for a while ([C16]), and the limit counts from then on.
/// Returns how long it took by the clock.
///
/// [C16]: stanchion_core::contract#c16
pub async fn turn(process: &Process, request: &Acquire, limit: Duration) -> Duration {
    let (start, watch) = (now(), Stopwatch::start());
    let (mut limit, mut before) = (limit, start);
    loop {
        let sent = now();
        if poll(process, &request.object).await.ready.contains(&request.ticket) {
            return start.elapsed();
        }
        if before.elapsed() >= STALL {
            limit = limit.max(watch.elapsed() + GRACE + EPSILON);
        }
        before = sent;
        assert!(watch.elapsed() < limit, "not its turn within {limit:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Sleeps for `time`, while these processes poll and so count as live. Returns the longest time in
/// which the store may have heard none of them: see [`STALL`].
pub async fn heard(processes: &[&Process], object: &Object, time: Duration) -> Duration {
    let end = now() + time;
    let (mut sent, mut longest) = (now(), Duration::ZERO);
    while now() < end {
        for process in processes {
            let next = now();
            poll(process, object).await;
            longest = longest.max(sent.elapsed());
            sent = next;
        }
        sleep(Duration::from_millis(100)).await;
    }
    longest.max(sent.elapsed())
}
