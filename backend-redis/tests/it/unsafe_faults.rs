//! Faults under which the store forgets. The checkers see the second holder that the manual admits,
//! tokens go on growing, and a resource that is guarded by them takes no write out of order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_campaign::history::Rule;
use stanchion_campaign::rounds::{Contender, TwoHolders};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::{definite, unique};
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Store};
use stanchion_redis::{RedisFence, RedisStore};
use stanchion_testbed::faults::{Clock, Direction, Proxy};
use stanchion_testbed::servers::{RedisOptions, RedisSentinel, RedisServer};

const TTL: Duration = Duration::from_secs(12);
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default time limit of a request.
const REQUEST: Duration = Duration::from_secs(2);
/// The lease of a hold that is not renewed: longer than the failover.
const LONG_TTL: Duration = Duration::from_secs(60);

/// A second resource of the mutex, beside the register: a key of a server that the fault spares.
struct Guarded {
    fence: RedisFence,
    key: String,
    raw: MultiplexedConnection,
}

impl Guarded {
    async fn new() -> Self {
        let fixture = Fixture::shared();
        let tag = format!("{{{}}}", fixture.namespace);
        Self {
            fence: RedisFence::new(format!("{tag}:mark")),
            key: format!("{tag}:value"),
            raw: fixture.raw().await,
        }
    }

    /// Whether the resource took the write. Its only refusal is `Lost`.
    async fn took(&mut self, by: &Contender, value: &str) -> bool {
        match self.fence.set(&mut self.raw, (by.token(), by.ticket()), &self.key, value).await {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                false
            }
        }
    }

    async fn value(&mut self) -> String {
        self.raw.get(&self.key).await.unwrap()
    }
}

async fn store(url: &str) -> Arc<dyn Store> {
    Arc::new(definite(|| RedisStore::connect(url)).await.unwrap())
}

fn mutex(store: &Arc<dyn Store>, options: MutexOptions) -> Arc<dyn Mutex> {
    store.mutex("invoices/42", options).unwrap()
}

/// A holder, and a second one that is granted the mutex after the fault while the first still
/// believes to hold it.
struct Rivals {
    holders: TwoHolders,
    ttl: Duration,
    guarded: Guarded,
    one: Contender,
}

impl Rivals {
    /// The first holder is granted the mutex, and both resources take its writes.
    async fn begin(first: &Arc<dyn Mutex>, ttl: Duration) -> Self {
        let mut holders = TwoHolders::begin(first.name()).unwrap();
        let mut guarded = Guarded::new().await;
        let one = holders.lock(first.as_ref(), ttl).await.unwrap();
        assert!(one.write().unwrap() && guarded.took(&one, "one").await);
        Self { holders, ttl, guarded, one }
    }

    /// The second holder is granted the mutex while the first still believes to hold it. From then
    /// on the resources refuse the first.
    async fn outdone_by(&mut self, second: &Arc<dyn Mutex>) -> Contender {
        let locked = self.holders.lock(second.as_ref(), self.ttl);
        let other = timeout(TIMEOUT, locked).await.expect("the store has forgotten the first").unwrap();
        assert!(self.one.believes().unwrap(), "the first holder does not know yet");
        assert!(other.believes().unwrap());
        assert!(other.token() > self.one.token(), "{:?} after {:?}", other.token(), self.one.token());
        assert!(other.write().unwrap() && self.guarded.took(&other, "other").await);
        assert!(!self.one.write().unwrap() && !self.guarded.took(&self.one, "late").await);
        assert!(self.one.believes().unwrap(), "the first holder still does not know");
        assert_eq!(self.guarded.value().await, "other");
        other
    }

    /// Checks the history: two holders, admitted under that fault, and no other violation.
    fn end(self, fault: &str) {
        drop(self.one);
        let report = self.holders.check().unwrap();
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        let admitted: Vec<Rule> = report.admitted.iter().map(|violation| violation.rule).collect();
        assert_eq!(admitted, [Rule::TwoHolders], "{report}");
        assert_eq!(report.admitted[0].under, [fault], "{report}");
    }
}

/// The first holder is cut off, the fault strikes, and a second one is granted the mutex. Then the
/// link heals, and the first one learns of its loss.
async fn two_believe_after(fault: &str, server: &RedisServer, strike: impl FnOnce(&RedisServer)) {
    let proxy = Proxy::to(&server.url()).unwrap();
    let first = mutex(&store(&proxy.url(&server.url())).await, MutexOptions::default().ttl(TTL));
    let second = mutex(&store(&server.url()).await, MutexOptions::default().ttl(TTL));
    let mut rivals = Rivals::begin(&first, TTL).await;
    proxy.black_hole(Direction::Both);
    let began = rivals.holders.fault_began(fault).unwrap();
    strike(server);
    rivals.holders.fault_ended(began).unwrap();
    let other = rivals.outdone_by(&second).await;
    proxy.heal();
    timeout(TTL + EPSILON, rivals.one.lost()).await.expect("lost at the deadline at the latest").unwrap();
    assert!(!rivals.one.believes().unwrap());
    assert!(other.believes().unwrap(), "the loss is the first one's alone");
    other.release().await.expect("held to the end");
    rivals.end(fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_flushall_is_borne_by_what_is_fenced() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    two_believe_after("FLUSHALL", &server, |server| {
        server.command(&["FLUSHALL"]).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_a_restart_without_persistence_is_borne_by_what_is_fenced() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    two_believe_after("restart without persistence", &server, |server| server.restart().unwrap()).await;
}

/// An operator allows eviction while a store is connected. A store that connects later is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_c22_m3_m9_eviction_is_borne_by_what_is_fenced() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    two_believe_after("eviction", &server, |server| {
        let set = |name, value| server.command(&["CONFIG", "SET", name, value]).unwrap();
        set("maxmemory-policy", "allkeys-lru");
        // Less than an empty server takes, so that it evicts every key.
        set("maxmemory", "1");
        let gone = || (server.command(&["DBSIZE"]).unwrap().trim() == ":0").then_some(());
        stanchion_testbed::servers::wait_until(TIMEOUT, gone).expect("all is evicted");
        set("maxmemory", "0");
    })
    .await;
    server.command(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
    let url = server.url();
    let refused = definite(|| RedisStore::connect(&url)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnsafeStore, "{refused}");
}

/// The clock goes forward by an hour, which ends leases; then back by two, after which tokens still
/// grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_c7_m2_m9_a_clock_that_jumps_is_borne_by_what_is_fenced() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let clock = Clock::new().unwrap();
    let server = RedisServer::start(RedisOptions::default().clock(&clock)).unwrap();
    two_believe_after("clock forward", &server, |_| clock.forward(HOUR).unwrap()).await;
    let later = mutex(&store(&server.url()).await, MutexOptions::default().ttl(TTL));
    let before = later.lock().await.unwrap();
    clock.back(HOUR * 2).unwrap();
    let (token, ticket) = (before.fencing_token(), before.ticket());
    assert!(definite(|| later.try_lock()).await.unwrap().is_none(), "a clock that goes back ends no lease");
    before.release().await.unwrap();
    let after = later.lock().await.unwrap();
    assert!(after.fencing_token() > token && after.ticket() != ticket);
    after.release().await.unwrap();
}

/// The replica that is promoted had not heard of the grant. `replicas` does not hand out such a
/// grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_a_failover_by_sentinel_is_borne_by_what_is_fenced() {
    const FAULT: &str = "failover by Sentinel";
    let sentinel =
        RedisSentinel::start(RedisOptions::default().failover_after(Duration::from_secs(1))).unwrap();
    // The first hold is not renewed before the end: a renewal would show its holder the loss.
    let options = MutexOptions::default().ttl(LONG_TTL).renew(false);
    let first = mutex(&store(&sentinel.url()).await, options);
    let second = mutex(&store(&sentinel.url()).await, MutexOptions::default().ttl(LONG_TTL));
    let careful = store(&format!("{}?replicas=1", sentinel.url())).await;
    mutex(&careful, MutexOptions::default())
        .lock()
        .await
        .expect("the replica follows")
        .release()
        .await
        .unwrap();

    let primary = &sentinel.servers()[0];
    // The replica is cut off, and has no right to come back.
    primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]).unwrap();
    primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    // A name for each request: the answer of the one before may have been late.
    let try_lock = || {
        let another = careful.mutex(&unique("invoices"), MutexOptions::default()).unwrap();
        async move { another.try_lock().await }
    };
    let error = in_time(REQUEST, try_lock).await.0.expect_err("no replica has it");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let mut rivals = Rivals::begin(&first, LONG_TTL).await;
    let began = rivals.holders.fault_began(FAULT).unwrap();
    primary.kill().unwrap();
    let sentinel = Arc::new(sentinel);
    let watched = Arc::clone(&sentinel);
    tokio::task::spawn_blocking(move || while watched.primary().unwrap() != 1 {}).await.unwrap();
    rivals.holders.fault_ended(began).unwrap();

    let other = rivals.outdone_by(&second).await;
    let stale = std::mem::replace(&mut rivals.one, other);
    let error = stale.release().await.expect_err("the new primary knows of no such hold");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(rivals.one.believes().unwrap(), "a stale release frees nobody");
    assert!(rivals.guarded.took(&rivals.one, "still").await, "the newest holder writes on");
    rivals.end(FAULT);
}
