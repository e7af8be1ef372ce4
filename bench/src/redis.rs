//! The Redis store and what people write by hand beside it: `SET NX PX` with compare-and-delete, and a token in a list.

use redis::Script;
use redis::aio::MultiplexedConnection;

/// The usual lock by hand: no queue, no fencing token, no renewal.
#[derive(Clone, Debug)]
pub struct BareLock {
    connection: MultiplexedConnection,
    release: Script,
}

/// An error of the client's.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

impl BareLock {
    /// Over one connection.
    #[must_use]
    pub fn new(connection: MultiplexedConnection) -> Self {
        let release = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        );
        Self { connection, release }
    }

    /// Locks a key once and releases it.
    ///
    /// # Errors
    /// The client's; also if the key was not free.
    pub async fn pair(&mut self, key: &str, secret: &str) -> Result<(), Failure> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(secret).arg("NX").arg("PX").arg(30_000);
        let locked: Option<String> = set.query_async(&mut self.connection).await?;
        locked.ok_or("the key is not free")?;
        let freed: u32 = self.release.key(key).arg(secret).invoke_async(&mut self.connection).await?;
        if freed == 1 { Ok(()) } else { Err("the key was gone".into()) }
    }
}

/// A lock by hand that queues: one token in a list, popped by whoever holds. A holder that dies keeps it for ever.
#[derive(Clone, Debug)]
pub struct TokenQueue {
    /// Of this caller alone: the pop blocks it.
    connection: MultiplexedConnection,
    key: String,
}

impl TokenQueue {
    /// Over a connection of its own.
    #[must_use]
    pub fn new(connection: MultiplexedConnection, key: &str) -> Self {
        Self { connection, key: key.to_owned() }
    }

    /// Puts the token there.
    ///
    /// # Errors
    /// The client's.
    pub async fn give(&mut self) -> Result<(), Failure> {
        let mut push = redis::cmd("RPUSH");
        Ok(push.arg(&self.key).arg("token").exec_async(&mut self.connection).await?)
    }

    /// Waits for the token.
    ///
    /// # Errors
    /// The client's.
    pub async fn take(&mut self) -> Result<(), Failure> {
        let mut pop = redis::cmd("BLPOP");
        let popped: Option<(String, String)> =
            pop.arg(&self.key).arg(0).query_async(&mut self.connection).await?;
        popped.map(drop).ok_or_else(|| "no token".into())
    }
}
