//! What each script does on objects of very many entries: a call of it looks at a part of them, and
//! the next one goes on (C27).

#[cfg(feature = "bloom")]
mod filters;
mod listing;
mod restart;

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue};
use stanchion_core::spi::{
    Acquire, Attach, Cancel, Decide, Ending, Force, ForceRelease, Inspect, KeepPlaces, LimitAsk, Look,
    Object, ParameterCheck, Poll, ProcessId, Purpose, Refund, Release, Renew, Request, RequestId, Reset,
    Resize, SetQuota, Split, Steps, Total,
};
use stanchion_core::{Kind, Name, Quota, Ticket, Ttl};
use stanchion_testbed::servers::{RedisOptions, RedisServer};

use crate::connector::{Connector, ConnectorSettings};
use crate::durability::Durability;
use crate::keys::Keyspace;
use crate::pool::Pool;
use crate::route::Route;
use crate::script::Scripts;
use crate::steps::{Busy, Context, RedisSteps};

const MANY: u32 = 100_000;
/// Maximum number of commands, and of elements that they return, in one call of a script.
const MOST: u64 = 2_000;
/// Longer than a busy machine keeps a request.
const PATIENT: Duration = Duration::from_secs(30);
const DAY_US: &str = "86400000000";

/// What there is much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// Waiters.
    Waiting,
    /// Waiters whose process is silent.
    Silent,
    /// Waiters larger than the limit that a resize has set; nobody holds.
    Large,
    /// Holds.
    Held,
    /// Holds that have expired.
    Expired,
    /// Tombstones that have expired.
    Buried,
    /// Processes that waited once.
    Processes,
}

struct Rig {
    steps: RedisSteps,
    keyspace: Arc<Keyspace>,
    raw: MultiplexedConnection,
    list: String,
    server: RedisServer,
}

impl Rig {
    async fn new() -> Self {
        Self::on(RedisOptions::default()).await
    }

    async fn on(options: RedisOptions) -> Self {
        let server = RedisServer::start(options).expect("a redis-server");
        let (namespace, list) = ("scans", "scans:done".to_owned());
        let client = redis::Client::open(server.url()).unwrap();
        let settings = ConnectorSettings { connect_timeout: PATIENT, ..ConnectorSettings::default() };
        let connector = Connector::new(client.get_connection_info().clone()).configured(&settings);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(PATIENT))
            .set_connection_timeout(Some(PATIENT));
        let raw = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let keyspace = Arc::new(Keyspace::new(namespace).unwrap());
        let context = Context {
            keyspace: Arc::clone(&keyspace),
            scripts: Arc::new(Scripts::counted(&list)),
            process: ProcessId::random(),
            retention: Duration::from_secs(24 * 60 * 60),
            busy: Busy::new(),
            durability: Durability::default(),
        };
        let route = Route::One(Arc::new(Pool::new(Arc::new(connector), PATIENT)));
        let steps = RedisSteps::new(Arc::new(context), route);
        Self { steps, keyspace, raw, list, server }
    }

    async fn ask<T: FromRedisValue>(&self, command: &str, arguments: &[&str]) -> T {
        let mut raw = self.raw.clone();
        redis::cmd(command).arg(arguments).query_async(&mut raw).await.unwrap()
    }

    async fn run(&self, text: &str, object: &Object, arguments: &[&str]) {
        let (mut raw, keys) = (self.raw.clone(), self.keyspace.object(object));
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(keys.len()).arg(&keys).arg(arguments);
        let () = command.query_async(&mut raw).await.unwrap();
    }

    async fn send(&self, request: Request) -> stanchion_core::Result<()> {
        let end = stanchion_core::clock::now() + PATIENT;
        self.steps.send(&[request], end).await.remove(0).map(drop)
    }

    /// Makes a request, and returns whether no call of a script for it did more than [`MOST`].
    async fn judge(&self, what: &str, request: Request) -> bool {
        let _: u64 = self.ask("DEL", &[&self.list]).await;
        let _: String = self.ask("CONFIG", &["RESETSTAT"]).await;
        let answered = self.send(request).await;
        let done: Vec<String> = self.ask("LRANGE", &[&self.list, "0", "-1"]).await;
        let stats: String = self.ask("INFO", &["commandstats"]).await;
        let time: u64 = ["cmdstat_evalsha:", "cmdstat_eval:"]
            .iter()
            .filter_map(|name| stats.lines().find_map(|line| line.strip_prefix(name)))
            .filter_map(|line| line.split_once("usec=")?.1.split(',').next()?.parse::<u64>().ok())
            .sum();
        let calls: Vec<(&str, u64, u64)> = done
            .iter()
            .map(|line| {
                let parts: Vec<_> = line.split(' ').collect();
                (parts[0], parts[1].parse().unwrap(), parts[2].parse().unwrap())
            })
            .collect();
        let most = |of: fn(&(&str, u64, u64)) -> u64| calls.iter().map(of).max().unwrap_or(0);
        let (commands, elements) = (most(|call| call.1), most(|call| call.2));
        let script = calls.first().map_or("-", |call| call.0);
        let (count, error) =
            (calls.len(), answered.err().map_or(String::new(), |error| format!("  {error}")));
        println!(
            "{what:<34} {script:<14} calls {count:>4}  most: commands {commands:>5}, elements {elements:>5}; \
             server {:>8.1} ms in all{error}",
            Duration::from_micros(time).as_secs_f64() * 1e3,
        );
        commands <= MOST && elements <= MOST
    }
}

fn object(kind: Kind, name: &str) -> Object {
    Object { kind, name: Name::new(name).unwrap() }
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(24 * 60 * 60)).unwrap()
}

fn ask(object: &Object, weight: u32, limit: u32) -> Acquire {
    Acquire {
        object: object.clone(),
        ticket: Ticket::random(),
        weight,
        lease: ttl(),
        limit,
        check: ParameterCheck::Follow,
        queue: true,
        max_waiters: None,
        label: None,
        purpose: Purpose::Guard,
    }
}

/// Makes an object with a holder of all, and much of one thing. Returns the holder.
async fn build(rig: &Rig, scene: Scene, object: &Object) -> Acquire {
    let limit = match scene {
        Scene::Held | Scene::Expired | Scene::Buried => 2 * MANY,
        _ => 2,
    };
    let many = MANY.to_string();
    let held = ask(object, if limit > 2 { 1 } else { 2 }, limit);
    rig.send(held.clone().into()).await.unwrap();
    // Whoever waits makes a record of it.
    let first = ask(object, limit, limit);
    rig.send(first.clone().into()).await.unwrap();
    if limit > 2 {
        rig.send(Cancel { object: object.clone(), ticket: first.ticket, tombstone: None }.into())
            .await
            .unwrap();
    }
    let other = "f".repeat(32);
    match scene {
        Scene::Waiting => {
            rig.run(include_str!("scans/waiters.lua"), object, &[&many, &other, "1", "0"]).await
        }
        Scene::Large => {
            rig.run(include_str!("scans/waiters.lua"), object, &[&many, &other, "2", "0"]).await;
            rig.send(Resize { object: object.clone(), limit: 1 }.into()).await.unwrap();
            rig.send(release(&held).into()).await.unwrap();
        }
        Scene::Silent => {
            rig.run(include_str!("scans/waiters.lua"), object, &[&many, &other, "1", "100000000"]).await;
        }
        Scene::Held => rig.run(include_str!("scans/holds.lua"), object, &[&many, "h", DAY_US]).await,
        Scene::Expired => rig.run(include_str!("scans/holds.lua"), object, &[&many, "h", "-1"]).await,
        Scene::Buried => rig.run(include_str!("scans/holds.lua"), object, &[&many, "x", "-1"]).await,
        Scene::Processes => {
            rig.run(include_str!("scans/waiters.lua"), object, &["10", &other, "1", "5000000"]).await;
            rig.run(include_str!("scans/processes.lua"), object, &[&many]).await;
        }
    }
    held
}

fn release(held: &Acquire) -> Release {
    let (object, ticket) = (held.object.clone(), held.ticket);
    Release { object, ticket, ending: Ending::Finished, tombstone: None, call: None }
}

fn requests(held: &Acquire) -> Vec<(&'static str, Request)> {
    let object = &held.object;
    let of = || object.clone();
    let one: Ticket = format!("{:032x}", 77).parse().unwrap();
    let tried = Acquire { queue: false, ..ask(object, 1, held.limit) };
    let bounded = Acquire { max_waiters: Some(MANY / 2), ..ask(object, 1, held.limit) };
    let claim = Acquire { ticket: one, ..ask(object, 1, held.limit) };
    let attach = Attach { object: of(), from: held.ticket, to: Ticket::random(), lease: ttl(), label: None };
    let split = Split { object: of(), from: held.ticket, lease: ttl(), into: vec![Ticket::random()] };
    let mut all: Vec<(&'static str, Request)> = vec![
        ("acquire", ask(object, 1, held.limit).into()),
        ("acquire, bounded queue", bounded.into()),
        ("try", tried.into()),
        ("claim", claim.into()),
        ("renew", Renew { object: of(), ticket: held.ticket, lease: ttl() }.into()),
        ("release", release(held).into()),
        ("cancel", Cancel { object: of(), ticket: one, tombstone: Some(ttl()) }.into()),
        ("poll", Poll { object: of() }.into()),
        ("keep places", KeepPlaces { object: of() }.into()),
        ("attach", attach.into()),
        ("split", split.into()),
        ("inspect", Inspect { object: of() }.into()),
        ("total", Total { object: of() }.into()),
        ("resize up", Resize { object: of(), limit: 3 * MANY }.into()),
        ("resize down", Resize { object: of(), limit: 1 }.into()),
        ("force one", ForceRelease { object: of(), force: Force::One(held.ticket) }.into()),
        ("force all", ForceRelease { object: of(), force: Force::All }.into()),
    ];
    if object.kind == Kind::WaitGroup {
        all.push(("look", Look { object: of(), watch: Some(0), hint: Ticket::random() }.into()));
    }
    all
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
async fn c27_no_script_looks_at_all_of_very_many() {
    let rig = Rig::new().await;
    let mut over = Vec::new();
    for scene in [
        Scene::Waiting,
        Scene::Silent,
        Scene::Large,
        Scene::Held,
        Scene::Expired,
        Scene::Buried,
        Scene::Processes,
    ] {
        let count = requests(&ask(&object(Kind::WaitGroup, "none"), 1, 1)).len();
        for index in 0..count {
            let kind = if index + 1 == count { Kind::WaitGroup } else { Kind::Semaphore };
            let held = build(&rig, scene, &object(kind, "many")).await;
            let (what, request) = requests(&held).swap_remove(index);
            let what = format!("{scene:?}: {what}");
            if !rig.judge(&what, request).await {
                over.push(what);
            }
            let _: String = rig.ask("FLUSHALL", &[]).await;
        }
    }
    for (what, offset) in
        [("reserved", DAY_US), ("reserved", "-1"), ("refunded", "-1"), ("answered", "-100000000")]
    {
        for index in 0..5 {
            let l = object(Kind::Limiter, "l");
            let quota = Quota::per_second(10).burst(u64::from(MANY)).validate().unwrap();
            let decide = |ask| Decide {
                id: RequestId { sequence: Ticket::random(), number: 1 },
                object: l.clone(),
                quota,
                check: ParameterCheck::Follow,
                ask,
            };
            rig.send(decide(LimitAsk::Take { cost: 1 }).into()).await.unwrap();
            rig.run(include_str!("scans/reservations.lua"), &l, &[&MANY.to_string(), what, offset]).await;
            let reserve = LimitAsk::Reserve { ticket: Ticket::random(), cost: 1, max_wait: 1 << 50 };
            let (step, request): (_, Request) = match index {
                0 => ("take", decide(LimitAsk::Take { cost: 1 }).into()),
                1 => ("reserve", decide(reserve).into()),
                2 => (
                    "refund",
                    Refund { object: l.clone(), ticket: format!("{:032x}", 77).parse().unwrap() }.into(),
                ),
                3 => ("set_quota", SetQuota { object: l.clone(), quota }.into()),
                _ => ("reset", Reset { object: l.clone() }.into()),
            };
            let what = format!("{what} {}: {step}", if offset == DAY_US { "ahead" } else { "over" });
            if !rig.judge(&what, request).await {
                over.push(what);
            }
            let _: String = rig.ask("FLUSHALL", &[]).await;
        }
    }
    assert!(over.is_empty(), "more than {MOST}: {over:#?}");
}
