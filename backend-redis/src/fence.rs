//! The resource side of fencing, for resources in a Redis ([M9]).
//!
//! [M9]: stanchion_core::contract#m9

use redis::aio::ConnectionLike;
use redis::{RedisError, Script, ToRedisArgs, Value};
use stanchion_core::{Error, FencingToken, GrantId, Result};

use crate::error;

/// Guards a key of a Redis, so that only the newest holder of a mutex writes it ([M9]). Any Redis
/// will do, not only the one that keeps the mutex.
///
/// A write with a token smaller than the largest seen is refused, and so is one with the same token
/// from another ticket; the check is atomic with the write. This stops a holder that was paused
/// past its lease, which no lock can do.
///
/// The largest token is kept under a key of its own, the *mark*, which never expires. Marks and
/// data have to survive together: a server that loses the mark alone would let an older holder in.
/// On a cluster both keys need the same hash tag.
///
/// ```no_run
/// use redis::Client;
/// use stanchion_core::MutexGuard;
/// use stanchion_redis::RedisFence;
///
/// # async fn save(guard: &MutexGuard) -> Result<(), Box<dyn std::error::Error>> {
/// let mut connection = Client::open("redis://127.0.0.1/")?.get_connection_manager().await?;
/// let fence = RedisFence::new("{report}:fence"); // a key of your own, that nothing else uses
/// fence.set(&mut connection, guard, "{report}:text", "done").await?;
/// # Ok(())
/// # }
/// ```
///
/// For other writes than `SET`, put [`GUARD`](Self::GUARD) in front of a script of your own and
/// call `fenced(mark, token, ticket)` in it before the first write. The mark is one of its `KEYS`;
/// the token is passed as a decimal number, the ticket as its 32 hexadecimal digits:
///
/// ```no_run
/// # use redis::Script;
/// # use stanchion_core::MutexGuard;
/// # use stanchion_redis::RedisFence;
/// # async fn count(connection: &mut redis::aio::ConnectionManager, guard: &MutexGuard) -> redis::RedisResult<()> {
/// let body = "if not fenced(KEYS[1], ARGV[1], ARGV[2]) then return false end return redis.call('INCR', KEYS[2])";
/// let script = Script::new(&format!("{}\n{body}", RedisFence::GUARD));
/// let mut call = script.key("{report}:fence");
/// call.key("{report}:count").arg(guard.fencing_token().get()).arg(guard.ticket().to_string());
/// let count: Option<u64> = call.invoke_async(connection).await?; // `None`: refused
/// # Ok(())
/// # }
/// ```
///
/// [M9]: stanchion_core::contract#m9
#[derive(Clone, Debug)]
pub struct RedisFence {
    mark: String,
    set: Script,
    hand_over: Script,
}

impl RedisFence {
    /// The Lua function `fenced(mark, token, ticket)`, to put in front of a script. If it returns
    /// `false`, the script must not write.
    pub const GUARD: &'static str = include_str!("lua/fence.lua");

    /// Makes a fence whose mark is kept under this key.
    #[must_use]
    pub fn new(mark: impl Into<String>) -> Self {
        Self {
            mark: mark.into(),
            set: Script::new(concat!(include_str!("lua/fence.lua"), include_str!("lua/fenced_set.lua"))),
            hand_over: Script::new(include_str!("lua/hand_over.lua")),
        }
    }

    /// Sets a key, unless the token is that of an older holder.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen, or the same one from another ticket; then nothing was
    /// written. Otherwise the error of the connection: `Unknown` if it broke, and then the same
    /// call may be made again.
    ///
    /// # Cancel safety
    /// A dropped call may have written.
    pub async fn set(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        by: impl Into<GrantId>,
        key: impl ToRedisArgs,
        value: impl ToRedisArgs,
    ) -> Result<()> {
        let GrantId { token, ticket } = by.into();
        let mut call = self.set.key(&self.mark);
        call.key(key).arg(token.get()).arg(ticket.to_string()).arg(value);
        self.verdict("set", call.invoke_async(connection).await, token)
    }

    /// Lets the new ticket of an attached hold write with the token that the hold kept. Earlier
    /// tickets cannot write with it any more; see
    /// [`Fenced::hand_over`](stanchion_core::Fenced::hand_over).
    ///
    /// # Errors
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    /// A dropped call may have handed over.
    pub async fn hand_over(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        to: impl Into<GrantId>,
    ) -> Result<()> {
        let GrantId { token, ticket } = to.into();
        let mut call = self.hand_over.key(&self.mark);
        call.arg(token.get()).arg(ticket.to_string());
        self.verdict("hand_over", call.invoke_async(connection).await, token)
    }

    fn verdict(
        &self,
        operation: &'static str,
        answer: std::result::Result<Value, RedisError>,
        token: FencingToken,
    ) -> Result<()> {
        verdict(answer, token).map_err(|error| error.context(operation, "redis", &self.mark))
    }
}

/// Reads the answer of a script: 1, or the mark of the holder that keeps this token from writing.
fn verdict(answer: std::result::Result<Value, RedisError>, token: FencingToken) -> Result<()> {
    let mark = match answer.map_err(error::of_request)? {
        Value::Int(1) => return Ok(()),
        Value::BulkString(mark) => String::from_utf8(mark).map_err(|_| error::unexpected())?,
        _ => return Err(error::unexpected()),
    };
    let seen = mark.split(' ').next().and_then(|seen| seen.parse().ok());
    Err(Error::fenced_off(token, seen.and_then(|seen| FencingToken::new(seen).ok())))
}
