//! A limiter on a server whose clock the test sets.
//!
//! It takes the scripts with the one line that reads the server's clock replaced, and without the expiry of keys, which
//! counts by the server's; everything else is what users run.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion_conformance::servers;
use stanchion_core::engine::steps::{
    FlightId, LimitAsk, LimitCall, LimitSteps, Limited, Object, ProcessId, QuotaCheck, Refund,
};
use stanchion_core::limit::ExactQuota;
use stanchion_core::{Kind, Name, Ticket};

use crate::access::Access;
use crate::config::Retention;
use crate::keys::Keyspace;
use crate::link::{Endpoint, Link};
use crate::route::Route;
use crate::script::{Script, Scripts};
use crate::steps::{Busy, Context, RedisSteps};

macro_rules! timed {
    ($clock:expr, $step:literal) => {
        timed(
            $clock,
            concat!(
                include_str!("../../lua/common.lua"),
                include_str!("../../lua/limit_shared.lua"),
                include_str!(concat!("../../lua/limit_", $step, ".lua"))
            ),
        )
    };
}

fn timed(clock: &str, text: &'static str) -> Script {
    let read = "local clock = call('TIME')";
    assert_eq!(text.matches(read).count(), 1, "the line that reads the clock");
    assert_eq!(text.matches("call('TIME')").count(), 1, "no other reads it");
    let text = text.replace(read, &format!("local clock = {{ 0, call('GET', '{clock}') }}"));
    Script::new(text.replace("call('PEXPIREAT',", "type(").leak())
}

/// A limiter on a server whose clock is a key.
pub(super) struct Rig {
    pub(super) steps: RedisSteps,
    pub(super) raw: MultiplexedConnection,
    pub(super) clock: String,
    pub(super) object: Object,
    pub(super) flight: FlightId,
}

impl Rig {
    pub(super) async fn new() -> Self {
        let namespace = format!("t{}", Ticket::random());
        let clock = format!("{namespace}:clock");
        let client = redis::Client::open(servers::redis().expect("a redis-server").url()).unwrap();
        let access = Access::new(client.get_connection_info().clone());
        let raw = client.get_multiplexed_async_connection().await.unwrap();
        let mut scripts = Scripts::new();
        scripts.limit_decide = timed!(&clock, "decide");
        scripts.limit_refund = timed!(&clock, "refund");
        scripts.limit_set_quota = timed!(&clock, "set_quota");
        scripts.limit_reset = timed!(&clock, "reset");
        let hour = Duration::from_secs(3_600);
        let context = Context {
            keyspace: Keyspace::new(&namespace).unwrap(),
            scripts,
            process: ProcessId::random(),
            retention: Retention { tokens: hour, state: hour },
            busy: Busy::new(),
            replicas: 0,
        };
        let link = Link::new(Endpoint::Server(access), Duration::from_secs(10));
        let steps = RedisSteps::new(Arc::new(context), Route::One(link));
        let flight = FlightId { lane: Ticket::random(), number: 0 };
        Self { steps, raw, clock, object: object(0), flight }
    }

    /// Another limiter, which has no bucket yet.
    pub(super) fn next(&mut self) {
        let number: u64 = self.object.name.as_str().parse().unwrap();
        self.object = object(number + 1);
    }

    pub(super) async fn at(&mut self, now: u64) {
        let mut set = redis::cmd("SET");
        let () = set.arg(&self.clock).arg(now).query_async(&mut self.raw).await.unwrap();
    }

    pub(super) async fn decide(&mut self, calls: &[(ExactQuota, QuotaCheck, LimitAsk)]) -> Vec<Limited> {
        self.flight.number += 1;
        let call = |&(quota, check, ask)| LimitCall { object: self.object.clone(), quota, check, ask };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let answers: Vec<_> = answers(self.steps.decide(self.flight, &calls).await);
        assert_eq!(answers, self::answers(self.steps.decide(self.flight, &calls).await), "a retry");
        answers
    }

    pub(super) async fn one(&mut self, quota: ExactQuota, ask: LimitAsk) -> Limited {
        self.decide(&[(quota, QuotaCheck::Follow, ask)]).await.remove(0)
    }

    pub(super) async fn refund(&mut self, id: u128) -> u64 {
        let refund = Refund { object: self.object.clone(), ticket: Ticket::from(id) };
        answers(self.steps.refund(&[refund]).await).remove(0)
    }
}

pub(super) fn answers<T>(answers: Vec<stanchion_core::Result<T>>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

fn object(number: u64) -> Object {
    Object { kind: Kind::Limiter, name: Name::new(&number.to_string()).unwrap() }
}
