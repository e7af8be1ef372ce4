//! The rights that the manual names are enough. Without any one of them, the operation that needs
//! it is refused and names it (C21).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::deployment::least_rights;
use crate::common::*;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_core::spi::{
    Acquire, Attach, Cancel, Decide, Force, LimitAsk, Limited, Object, ParameterCheck, RequestId,
};
use stanchion_core::{Error, ErrorKind, Kind, MutexOptions, Name, Quota, Result, Store, Ticket};
use stanchion_redis::{RedisBuilder, RedisStore};
use stanchion_testbed::servers::{RedisCluster, RedisOptions, RedisServer};
use tokio::time::sleep;

/// The operation that needs a right.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Connect,
    ConnectFirst,
    Force,
    Lock,
    LockAfterFlush,
    Acquire,
    AcquireReplicated,
    AcquireExpired,
    AcquireForeign,
    Queue,
    QueueBehind,
    Inspect,
    CancelString,
    Release,
    ReleaseString,
    ReleaseToMany,
    Attach,
    WaitForGroup,
    Reserve,
    DecideWhenDue,
    Listen,
    /// Nothing is refused: less is checked.
    Connected,
    /// Nothing is refused: the next waiter is not woken, and polls once a second.
    Released,
}

/// Every command of the rule, and `WAIT`, which `replicas` needs.
const PROBES: [(&str, Needs); 34] = [
    ("ping", Needs::Connect),
    ("setnx", Needs::ConnectFirst),
    ("evalsha", Needs::Lock),
    ("time", Needs::Lock),
    ("mget", Needs::Lock),
    ("set", Needs::Lock),
    ("eval", Needs::LockAfterFlush),
    ("hmget", Needs::Acquire),
    ("zadd", Needs::Acquire),
    ("hset", Needs::Acquire),
    ("pexpireat", Needs::Acquire),
    ("wait", Needs::AcquireReplicated),
    ("zrangebyscore", Needs::AcquireExpired),
    ("type", Needs::AcquireForeign),
    ("pttl", Needs::Queue),
    ("pexpire", Needs::Queue),
    ("zrevrange", Needs::Queue),
    ("zremrangebyscore", Needs::Queue),
    ("zmscore", Needs::QueueBehind),
    ("zrange", Needs::Inspect),
    ("get", Needs::Acquire),
    ("del", Needs::ReleaseString),
    ("zrem", Needs::Release),
    ("hdel", Needs::Release),
    ("zcard", Needs::CancelString),
    ("ltrim", Needs::ReleaseToMany),
    ("hget", Needs::Attach),
    ("hscan", Needs::Force),
    ("zscore", Needs::WaitForGroup),
    ("hlen", Needs::Reserve),
    ("zrevrangebyscore", Needs::DecideWhenDue),
    ("blpop", Needs::Listen),
    ("info", Needs::Connected),
    ("rpush", Needs::Released),
];

/// The interval between two tokens: longer than the machine stands still between a charge and a
/// reservation.
const TOKEN: Duration = Duration::from_secs(5);

/// A user with the rights of the manual, and a process that works by them.
struct Rig<'a> {
    server: &'a RedisServer,
    fixture: Fixture,
    user: &'a str,
    process: Process,
    raw: MultiplexedConnection,
}

impl<'a> Rig<'a> {
    async fn new(server: &'a RedisServer, command: &'a str) -> Self {
        let (fixture, user) = (Fixture::on(&server.url()), command);
        let mut rule = least_rights(user, "pw", &fixture.namespace);
        rule.push("+wait".to_owned());
        let mut raw = fixture.raw().await;
        let () = redis::cmd("ACL").arg(rule).query_async(&mut raw).await.unwrap();
        let process = driven(
            builder(server, &fixture, user).replicas(u32::from(user == "wait")).steps().await.unwrap(),
        );
        Self { server, fixture, user, process, raw }
    }

    fn lose(&self) {
        let rule = ["ACL", "SETUSER", self.user, &format!("-{}", self.user)];
        assert_eq!(self.server.command(&rule).unwrap(), "+OK\r\n");
    }

    async fn connect(&self) -> Result<()> {
        builder(self.server, &self.fixture, self.user).steps().await.map(drop)
    }

    async fn acquire(&self, request: &Acquire) -> Result<()> {
        self.process.callers.acquire(std::slice::from_ref(request)).await.remove(0).map(drop)
    }

    async fn release(&self, request: &Acquire) -> Result<()> {
        self.process.own.release(&[freeing(request, None)]).await.remove(0).map(drop)
    }

    /// Decides a call in a lane of its own, with a quota of one token in [`TOKEN`], so that a
    /// reservation is ahead, however busy the machine is.
    async fn decide(&self, ask: LimitAsk) -> Result<Limited> {
        let object = Object { kind: Kind::Limiter, name: Name::new("l").unwrap() };
        let quota = Quota::per(1, TOKEN).burst(1).validate().unwrap();
        let id = RequestId { sequence: Ticket::random(), number: 1 };
        let call = Decide { id: RequestId::NONE, object, quota, check: ParameterCheck::Follow, ask };
        self.process.callers.decide(id, &[call]).await.remove(0)
    }

    async fn reserve(&self) -> Result<Limited> {
        self.decide(LimitAsk::Take { cost: 1 }).await?;
        self.decide(LimitAsk::Reserve { ticket: Ticket::random(), cost: 1, max_wait: 10_000_000 }).await
    }

    /// Prepares the operation, takes the right away, and runs the operation.
    async fn without(&mut self, needs: Needs) -> Result<()> {
        let (uncontended, held, queued) = (ask(&mutex("m")), ask(&semaphore("s")), ask(&semaphore("s")));
        // The members of a group are never a string.
        let member = members(&wait_group("g"), 1);
        match needs {
            Needs::Connect | Needs::Connected => {
                self.lose();
                self.connect().await
            }
            Needs::ConnectFirst => {
                let layout = format!("{{{}/0}}:layout", self.fixture.namespace);
                let () = self.raw.del(layout).await.unwrap();
                self.lose();
                self.connect().await
            }
            Needs::Lock | Needs::LockAfterFlush => {
                granted(&self.process, &ask(&mutex("other"))).await;
                self.lose();
                if matches!(needs, Needs::LockAfterFlush) {
                    self.server.command(&["SCRIPT", "FLUSH"]).unwrap();
                }
                self.acquire(&uncontended).await
            }
            Needs::Acquire | Needs::AcquireReplicated => {
                self.lose();
                self.acquire(&member).await
            }
            Needs::AcquireExpired => {
                granted(&self.process, &Acquire { lease: ttl(100), ..member.clone() }).await;
                sleep(Duration::from_millis(120)).await;
                self.lose();
                self.acquire(&Acquire { ticket: Ticket::random(), ..member }).await
            }
            Needs::AcquireForeign => {
                granted(&self.process, &held).await;
                let key = self.fixture.keys().await.into_iter().find(|key| key.ends_with(":s:s")).unwrap();
                let () = self.raw.set(key, "foreign").await.unwrap();
                self.lose();
                self.acquire(&queued).await
            }
            Needs::Queue | Needs::QueueBehind => {
                granted(&self.process, &held).await;
                if matches!(needs, Needs::QueueBehind) {
                    waits(&self.process, &ask(&held.object)).await;
                    release(&self.process, &held).await;
                }
                self.lose();
                self.acquire(&queued).await
            }
            Needs::Inspect => {
                granted(&self.process, &held).await;
                // With a waiter it is no string any more.
                waits(&self.process, &ask(&held.object)).await;
                self.lose();
                self.process.callers.inspect(&held.object).await.map(drop)
            }
            Needs::CancelString => {
                granted(&self.process, &uncontended).await;
                self.lose();
                let cancel = Cancel {
                    object: uncontended.object,
                    ticket: Ticket::random(),
                    tombstone: Some(uncontended.lease),
                };
                self.process.callers.cancel(&[cancel]).await.remove(0)
            }
            Needs::Release => {
                granted(&self.process, &member).await;
                self.lose();
                self.release(&member).await
            }
            Needs::ReleaseString => {
                granted(&self.process, &uncontended).await;
                self.lose();
                self.release(&uncontended).await
            }
            Needs::ReleaseToMany => {
                granted(&self.process, &held).await;
                waits(&self.process, &queued).await;
                release(&self.process, &held).await;
                let mailbox = self.fixture.keys().await.into_iter().find(|key| key.contains("}:box:"));
                let () = self.raw.rpush(mailbox.unwrap(), vec!["filler"; 10_000]).await.unwrap();
                granted(&self.process, &queued).await;
                waits(&self.process, &ask(&held.object)).await;
                self.lose();
                self.release(&queued).await
            }
            Needs::Released => {
                granted(&self.process, &held).await;
                waits(&self.process, &queued).await;
                self.lose();
                self.release(&held).await?;
                assert_eq!(poll(&self.process, &held.object).await.ready, [queued.ticket]);
                Ok(())
            }
            Needs::Attach => {
                granted(&self.process, &held).await;
                self.lose();
                let Acquire { object, ticket, lease, .. } = held;
                let attach = Attach { object, from: ticket, to: Ticket::random(), lease, label: None };
                self.process.callers.attach(&attach).await.map(drop)
            }
            Needs::Force => {
                granted(&self.process, &held).await;
                self.lose();
                self.process.callers.force(&held.object, Force::All).await.map(drop)
            }
            Needs::WaitForGroup => {
                let group = wait_group("g");
                added(&self.process, &group).await;
                self.lose();
                let look = watching(&group, Some(0), Ticket::random());
                self.process.callers.look(&[look]).await.remove(0).map(drop)
            }
            Needs::Reserve => {
                self.lose();
                self.reserve().await.map(drop)
            }
            Needs::DecideWhenDue => {
                self.reserve().await?;
                sleep(TOKEN + Duration::from_millis(50)).await;
                self.lose();
                self.decide(LimitAsk::Take { cost: 0 }).await.map(drop)
            }
            Needs::Listen => {
                self.lose();
                self.process.wake.next().await.map(drop)
            }
        }
    }
}

fn builder(server: &RedisServer, fixture: &Fixture, user: &str) -> RedisBuilder {
    let url = format!("redis://{user}:pw@127.0.0.1:{}/?namespace={}", server.port(), fixture.namespace);
    RedisStore::builder(&url).unwrap().request_timeout(PATIENT)
}

fn names(error: &Error, command: &str) {
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{command}: {error:?}");
    let text = error.to_string();
    assert_eq!(text.matches('\'').count(), 2, "{command} alone: {text}");
    assert!(text.contains(&format!("'{command}'")), "{command}: {text}");
}

#[tokio::test]
async fn c21_each_right_of_the_manual_is_needed_and_named_where_it_is_missing() {
    let (server, fixture) = start(RedisOptions::default());
    let rule = least_rights("me", "pw", &fixture.namespace);
    let granted = rule.iter().filter_map(|word| word.strip_prefix('+')).chain(["wait"]);
    let probed: BTreeSet<_> = PROBES.iter().map(|(command, _)| *command).collect();
    assert_eq!(probed, granted.collect(), "one probe for each right");
    for (command, needs) in PROBES {
        let refused = Rig::new(&server, command).await.without(needs).await;
        match (needs, refused) {
            (Needs::Connected | Needs::Released, refused) => refused.unwrap(),
            (_, Ok(())) => panic!("{needs:?} works without {command}"),
            (_, Err(error)) => names(&error, command),
        }
    }
}

/// A mutex is not taken for free if its record may not be read.
#[tokio::test]
async fn m1_a_missing_right_to_read_grants_nothing() {
    for command in ["hmget", "get"] {
        let (server, _) = start(RedisOptions::default());
        let rig = Rig::new(&server, command).await;
        let request = ask(&mutex("m"));
        let token = granted(&rig.process, &request).await;
        rig.lose();
        for _ in 0..2 {
            names(&rig.acquire(&ask(&mutex("m"))).await.unwrap_err(), command);
        }
        server.command(&["ACL", "SETUSER", command, &format!("+{command}")]).unwrap();
        waits(&rig.process, &ask(&mutex("m"))).await;
        assert_eq!(granted(&rig.process, &request).await, token);
    }
}

#[tokio::test]
async fn c17_c21_a_call_without_a_time_limit_ends_with_the_right_that_is_missing() {
    let (server, _) = start(RedisOptions::default());
    let rig = Rig::new(&server, "mget").await;
    let store = builder(&server, &rig.fixture, "mget").connect().await.unwrap();
    rig.lose();
    let error = store.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap_err();
    names(&error, "mget");
    assert_eq!((error.operation(), error.name()), (Some("lock"), Some("m")));
}

#[tokio::test]
async fn c21_the_rights_that_a_cluster_needs_more_are_named() {
    let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
    let all = |words: &[&str]| {
        for node in cluster.nodes() {
            assert_eq!(node.command(words).unwrap(), "+OK\r\n");
        }
    };
    let rule = least_rights("me", "pw", "stanchion");
    let rule: Vec<_> = ["ACL"].into_iter().chain(rule.iter().map(String::as_str)).collect();
    all(&rule);
    let url = cluster.url().replace("://", "://me:pw@");
    let builder = || RedisStore::builder(&url).unwrap().request_timeout(PATIENT);
    let error = builder().steps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
    assert!(error.to_string().contains("'cluster|slots'"), "{error}");
    all(&["ACL", "SETUSER", "me", "+cluster|slots"]);
    let process = driven(builder().steps().await.unwrap());
    all(&["ACL", "SETUSER", "me", "-zadd"]);
    let error = process.callers.acquire(&[members(&wait_group("g"), 1)]).await.remove(0).unwrap_err();
    names(&error, "zadd");
}
