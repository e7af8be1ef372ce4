//! Finds the right, or the command, that a script lacked, if the server does not name it.

use redis::{FromRedisValue, Value};
use stanchion_core::Error;
use stanchion_core::clock::Instant;

use super::RedisSteps;
use crate::command::Command;
use crate::error;
use crate::script::Script;

impl RedisSteps {
    /// Adds the missing rights or commands to the refusal of a script (C21). `key` is one of the
    /// keys that the script was called with.
    pub(super) async fn name_missing(
        &self,
        refusal: Error,
        script: &Script,
        (stripe, key): (usize, &str),
        end: Instant,
    ) -> Error {
        let needed = script.commands();
        if error::lacks_unnamed(&refusal) {
            let mut command = redis::cmd("COMMAND");
            command.arg("INFO").arg(&needed);
            let answer = self.route.send(stripe, &command.into(), end).await.ok();
            let known = answer.and_then(|answer| Vec::<Value>::from_redis_value(answer.value).ok());
            let all = needed.iter().zip(known.unwrap_or_default());
            let missing: Vec<_> =
                all.filter(|(_, known)| *known == Value::Nil).map(|(name, _)| *name).collect();
            return error::lacking(refusal, &missing, needed);
        }
        if !error::is_unnamed(&refusal) {
            return refusal;
        }
        let command = Command::call(&self.scripts().rights, |command| {
            command.arg(1).arg(key).arg(&needed);
        });
        let answer = self.route.send(stripe, &command, end).await.ok();
        let missing = answer.and_then(|answer| Vec::<String>::from_redis_value(answer.value).ok());
        error::naming(refusal, &missing.unwrap_or_default(), needed)
    }
}
