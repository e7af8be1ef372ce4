//! Finds the right that a script lacked, if the server does not name it.

use redis::FromRedisValue;
use stanchion_core::Error;
use stanchion_core::clock::Instant;

use super::RedisSteps;
use crate::command::Command;
use crate::error;
use crate::script::Script;

impl RedisSteps {
    /// Adds the missing commands to the refusal of a script (C21). `key` is one of the keys that
    /// the script was called with.
    pub(super) async fn name_missing_rights(
        &self,
        refusal: Error,
        script: &Script,
        (stripe, key): (usize, &str),
        end: Instant,
    ) -> Error {
        if !error::is_unnamed(&refusal) {
            return refusal;
        }
        let needed = script.commands();
        let command = Command::call(&self.scripts().rights, |command| {
            command.arg(1).arg(key).arg(&needed);
        });
        let answer = self.route.send(stripe, &command, end).await.ok();
        let missing = answer.and_then(|answer| Vec::<String>::from_redis_value(answer.value).ok());
        error::naming(refusal, &missing.unwrap_or_default(), needed)
    }
}
