//! A lock as it is often written by hand: one key, without queue, token and renewal.

use redis::aio::MultiplexedConnection;
use redis::{Client, Script};

use crate::Failure;

const KEY: &str = "by-hand";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) struct ByHand {
    connection: MultiplexedConnection,
    release: Script,
}

impl ByHand {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, release: Script::new(RELEASE) })
    }

    /// Locks and releases once.
    pub(crate) async fn pair(&self) -> Result<(), Failure> {
        let mut connection = self.connection.clone();
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(SECRET).arg("NX").arg("PX").arg(30_000);
        let locked: Option<String> = set.query_async(&mut connection).await?;
        locked.ok_or("the key is not free")?;
        let freed: u32 = self.release.key(KEY).arg(SECRET).invoke_async(&mut connection).await?;
        if freed == 1 { Ok(()) } else { Err("the key was gone".into()) }
    }
}
