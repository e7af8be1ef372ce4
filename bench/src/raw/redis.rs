//! Hand-written code on Redis: `SET NX PX` with compare-and-delete, a token in a list, and a script
//! for each decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Script;
use redis::aio::MultiplexedConnection as Connection;
use stanchion_core::Quota;

use crate::Failure;
use crate::decider::Decider;
use crate::lock::Lock;

/// The usual hand-written lock over one connection: no queue, no fencing token, no renewal, and no
/// caller waits.
#[derive(Clone, Debug)]
pub struct BareLock {
    connection: Connection,
    release: Arc<Script>,
    key: String,
}

/// The value with which the lock is held.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

impl BareLock {
    /// Creates a lock for a key on the connection's server.
    #[must_use]
    pub fn new(connection: Connection, key: &str) -> Self {
        let release = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        );
        Self { connection, release: Arc::new(release), key: key.to_owned() }
    }
}

impl Lock for BareLock {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(SECRET).arg("NX").arg("PX").arg(30_000);
        let locked: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        locked.map(drop).ok_or_else(|| "the key is not free".into())
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        let mut connection = self.connection.clone();
        let freed: u32 = self.release.key(&self.key).arg(SECRET).invoke_async(&mut connection).await?;
        if freed == 1 { Ok(()) } else { Err("the key was gone".into()) }
    }
}

/// A hand-written lock with a queue: one token in a list, popped by the holder. A holder that dies
/// keeps it for ever. The pop blocks its connection, so each clone takes the next connection.
#[derive(Debug)]
pub struct TokenQueue {
    connections: Arc<Vec<Connection>>,
    next: Arc<AtomicUsize>,
    mine: usize,
    key: String,
}

impl TokenQueue {
    /// Pushes the token. Each waiter needs a connection of its own, without a timeout.
    ///
    /// # Errors
    /// The errors of the client.
    pub async fn new(connections: Arc<Vec<Connection>>, key: &str) -> Result<Self, Failure> {
        let queue = Self { connections, next: Arc::default(), mine: 0, key: key.to_owned() };
        queue.release(()).await?;
        Ok(queue)
    }

    fn connection(&self) -> Result<Connection, Failure> {
        Ok(self.connections.get(self.mine).ok_or("there is no connection")?.clone())
    }
}

impl Clone for TokenQueue {
    fn clone(&self) -> Self {
        let mine = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let (connections, next) = (Arc::clone(&self.connections), Arc::clone(&self.next));
        Self { connections, next, mine, key: self.key.clone() }
    }
}

impl Lock for TokenQueue {
    type Guard = ();

    async fn lock(&self) -> Result<(), Failure> {
        let mut pop = redis::cmd("BLPOP");
        pop.arg(&self.key).arg(0);
        let popped: Option<(String, String)> = pop.query_async(&mut self.connection()?).await?;
        popped.map(drop).ok_or_else(|| "no token".into())
    }

    async fn release(&self, (): ()) -> Result<(), Failure> {
        let mut push = redis::cmd("RPUSH");
        Ok(push.arg(&self.key).arg("token").exec_async(&mut self.connection()?).await?)
    }
}

/// One script call for each decision, over one connection, with this library's arithmetic.
#[derive(Clone, Debug)]
pub struct BareBucket {
    connection: Connection,
    script: Arc<Script>,
    quota: Quota,
}

impl BareBucket {
    /// Loads the script.
    ///
    /// # Errors
    /// The errors of the client.
    pub async fn new(mut connection: Connection, quota: Quota) -> Result<Self, Failure> {
        let script = Arc::new(Script::new(include_str!("bucket.lua")));
        script.prepare_invoke().load_async(&mut connection).await?;
        Ok(Self { connection, script, quota })
    }
}

impl Decider for BareBucket {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        let quota = &self.quota;
        let period = u64::try_from(quota.period().as_micros())?;
        // Calls the script by its hash alone, as a client with its own script does.
        let mut call = redis::cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(1).arg(format!("bucket:{name}"));
        call.arg(quota.amount()).arg(period).arg(quota.burst_tokens()).arg(1);
        let (allowed, _, _, _): (u8, u64, i64, u64) = call.query_async(&mut self.connection.clone()).await?;
        Ok(allowed == 1)
    }
}
