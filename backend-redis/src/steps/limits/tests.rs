//! The cases that set the clock, on a server.
//!
//! They run the scripts with two changes: the line that reads the clock of the server is replaced,
//! and keys do not expire, because that would count by the clock of the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::clock_suite;
use stanchion_conformance::steps::ClockHarness;
use stanchion_core::Ticket;
use stanchion_core::spi::{ProcessId, Steps};
use stanchion_testbed::servers;

use crate::connector::{Connector, ConnectorSettings};
use crate::durability::Durability;
use crate::keys::Keyspace;
use crate::pool::Pool;
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
    assert_eq!(text.matches("call('TIME')").count(), 1, "no other line reads it");
    let text = text.replace(read, &format!("local clock = {{ 0, call('GET', '{clock}') }}"));
    Script::new(text.replace("call('PEXPIREAT',", "type(").leak())
}

/// Longer than a busy machine keeps a request, or a login.
const PATIENT: Duration = Duration::from_secs(10);

/// Limiters of a namespace whose clock is a key.
struct Rig {
    steps: Arc<RedisSteps>,
    raw: MultiplexedConnection,
    clock: String,
}

impl Rig {
    async fn new() -> Self {
        let namespace = format!("t{}", Ticket::random());
        let clock = format!("{namespace}:clock");
        let client = redis::Client::open(servers::redis().expect("a redis-server").url()).unwrap();
        let settings = ConnectorSettings { connect_timeout: PATIENT, ..ConnectorSettings::default() };
        let connector = Connector::new(client.get_connection_info().clone()).configured(&settings);
        // By default, the client library gives up after half a second.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(PATIENT * 3))
            .set_connection_timeout(Some(PATIENT * 3));
        let raw = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut scripts = Scripts::new();
        scripts.limit_decide = timed!(&clock, "decide");
        scripts.limit_refund = timed!(&clock, "refund");
        scripts.limit_set_quota = timed!(&clock, "set_quota");
        scripts.limit_reset = timed!(&clock, "reset");
        let context = Context {
            keyspace: Arc::new(Keyspace::new(&namespace).unwrap()),
            scripts: Arc::new(scripts),
            process: ProcessId::random(),
            retention: Duration::from_secs(3_600),
            busy: Busy::new(),
            durability: Durability::default(),
        };
        let pool = Arc::new(Pool::new(Arc::new(connector), PATIENT));
        let steps = Arc::new(RedisSteps::new(Arc::new(context), Route::One(pool)));
        let rig = Self { steps, raw, clock };
        rig.at(0).await;
        rig
    }
}

#[async_trait]
impl ClockHarness for Rig {
    fn steps(&self) -> Arc<dyn Steps> {
        Arc::clone(&self.steps) as Arc<dyn Steps>
    }

    async fn at(&self, now: u64) {
        let mut raw = self.raw.clone();
        let () = redis::cmd("SET").arg(&self.clock).arg(now).query_async(&mut raw).await.unwrap();
    }
}

clock_suite!(Rig::new().await);
