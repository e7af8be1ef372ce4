//! Processes that drive the steps by themselves, in a namespace of their own.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod groups;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion_conformance::servers::{self, RedisOptions, RedisServer};
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Cancel, Ending, Kept, LimitCheck, Object, PermitSteps, Polled, Release,
    WakeSource,
};
use stanchion_core::{FencingToken, Kind, Name, Ticket, Ttl};
use stanchion_redis::{RedisBuilder, RedisStore, StepsOfStore};
use tokio::time::{Instant, sleep};

/// After so long unheard a process counts as silent.
pub(crate) const LIVENESS: Duration = Duration::from_secs(1);
/// How long nobody is judged dead after a stall.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A namespace on a server.
pub(crate) struct Bed {
    pub(crate) url: String,
    pub(crate) namespace: String,
    counter: tokio::sync::Mutex<Option<MultiplexedConnection>>,
}

impl Bed {
    /// On the server that all tests of this process share.
    pub(crate) fn shared() -> Self {
        Self::on(servers::redis().expect("a redis-server").url())
    }

    pub(crate) fn on(url: &str) -> Self {
        Self { url: url.to_owned(), namespace: format!("t{}", Ticket::random()), counter: Default::default() }
    }

    pub(crate) fn builder(&self) -> RedisBuilder {
        RedisStore::builder(&self.url).expect("a URL").namespace(&self.namespace)
    }

    /// Another process: an identity and connections of its own.
    pub(crate) async fn process(&self) -> StepsOfStore {
        self.builder().steps().await.expect("steps")
    }

    /// A plain client.
    pub(crate) async fn raw(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("a connection")
    }

    /// Commands the server has executed so far, those inside scripts included.
    pub(crate) async fn calls(&self) -> u64 {
        let mut raw = self.counter.lock().await;
        let raw = match &mut *raw {
            Some(raw) => raw,
            none => none.insert(self.raw().await),
        };
        let info: String = redis::cmd("INFO").arg("stats").query_async(raw).await.expect("stats");
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.expect("a counter").trim().parse().expect("a number")
    }

    /// The namespace's keys but for its layout.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut raw = self.raw().await;
        let pattern = format!("{{{}/*", self.namespace);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut raw).await.expect("keys");
        keys.into_iter().filter(|key| !key.ends_with("}:layout")).collect()
    }
}

/// A private server, and a namespace on it.
pub(crate) fn start(options: RedisOptions) -> (RedisServer, Bed) {
    let server = RedisServer::start(options).expect("a redis-server");
    let bed = Bed::on(&server.url());
    (server, bed)
}

pub(crate) fn mutex(name: &str) -> Object {
    Object { kind: Kind::Mutex, name: Name::new(name).expect("a name") }
}

pub(crate) fn semaphore(name: &str) -> Object {
    Object { kind: Kind::Semaphore, name: Name::new(name).expect("a name") }
}

pub(crate) fn ttl(milliseconds: u64) -> Ttl {
    Ttl::new(Duration::from_millis(milliseconds)).expect("a TTL")
}

/// A request for one permit of a limit of one, that queues, with a lease of 30 s.
pub(crate) fn ask(object: &Object) -> Acquire {
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
pub(crate) fn ask_many(object: &Object, weight: u32, limit: u32) -> Acquire {
    Acquire { weight, limit, ..ask(object) }
}

/// The answers to a batch in which none failed.
pub(crate) fn all<T>(answers: Answers<T>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

/// The answer to a batch of one.
pub(crate) fn one<T>(answers: Answers<T>) -> T {
    all(answers).remove(0)
}

/// The release of what was asked for.
pub(crate) fn freeing(request: &Acquire, tombstone: Option<Ttl>) -> Release {
    let object = request.object.clone();
    Release { object, ticket: request.ticket, ending: Ending::Finished, tombstone, call: None }
}

pub(crate) async fn acquire(process: &StepsOfStore, request: &Acquire) -> Acquired {
    one(process.callers.acquire(std::slice::from_ref(request)).await)
}

pub(crate) async fn granted(process: &StepsOfStore, request: &Acquire) -> FencingToken {
    match acquire(process, request).await {
        Acquired::Granted { token, .. } => token,
        other => panic!("not granted but {other:?}"),
    }
}

pub(crate) async fn waits(process: &StepsOfStore, request: &Acquire) {
    let answer = acquire(process, request).await;
    assert!(matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
}

pub(crate) async fn release(process: &StepsOfStore, request: &Acquire) -> Kept {
    let release = freeing(request, None);
    one(process.own.release(&[release]).await)
}

pub(crate) async fn cancel(process: &StepsOfStore, request: &Acquire) {
    let cancel = Cancel { object: request.object.clone(), ticket: request.ticket, lease: request.lease };
    one(process.own.cancel(&[cancel]).await);
}

pub(crate) async fn poll(process: &StepsOfStore, object: &Object) -> Polled {
    one(process.own.poll(std::slice::from_ref(object)).await)
}

/// The next hints to this process's waiters.
pub(crate) async fn hint(process: &StepsOfStore) -> Vec<Ticket> {
    for _ in 0..2 {
        let tickets = process.wake.next().await.expect("a server");
        if !tickets.is_empty() {
            return tickets;
        }
    }
    panic!("no hint");
}

/// Polls until it is this ticket's turn; how long that took.
pub(crate) async fn turn(process: &StepsOfStore, request: &Acquire, limit: Duration) -> Duration {
    let start = Instant::now();
    while !poll(process, &request.object).await.ready.contains(&request.ticket) {
        assert!(start.elapsed() < limit, "not its turn within {limit:?}");
        sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

/// Sleeps a time, during which these processes are heard.
pub(crate) async fn heard(processes: &[&StepsOfStore], object: &Object, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for process in processes {
            poll(process, object).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
