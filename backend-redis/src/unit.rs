//! What leaves together, as one unit, on one connection.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use stanchion_core::Result;

use crate::script::Script;

/// How long replicas may take to acknowledge what was written, and how many have to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum {
    pub(crate) replicas: u32,
    pub(crate) milliseconds: u64,
}

impl Quorum {
    /// At least 1 ms: a time of nothing would be waited without end.
    pub(crate) fn within(replicas: u32, time: Duration) -> Self {
        Self { replicas, milliseconds: u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1) }
    }
}

/// A script with its keys and arguments.
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// Adds keys and arguments to the start of a command.
    pub(crate) complete: &'a (dyn Fn(Cmd) -> Cmd + Send + Sync),
    /// Ask on the same connection, right behind, how many replicas have it.
    pub(crate) quorum: Option<Quorum>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("quorum", &self.quorum).finish_non_exhaustive()
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit<'a> {
    Command(&'a Cmd),
    Script(&'a Call<'a>),
}

impl Unit<'_> {
    /// The commands; a script by its hash, unless its text has to be brought along. `asking` says to a node that is
    /// getting a slot that it is asked nevertheless.
    pub(crate) fn commands(&self, asking: bool, text: bool) -> Vec<Cmd> {
        let mut commands = Vec::with_capacity(3);
        commands.extend(asking.then(|| redis::cmd("ASKING")));
        match self {
            Self::Command(command) => commands.push((*command).clone()),
            Self::Script(call) => {
                let start = if text { call.script.by_text() } else { call.script.by_hash() };
                commands.push((call.complete)(start));
                commands.extend(call.quorum.map(|quorum| {
                    let mut wait = redis::cmd("WAIT");
                    wait.arg(quorum.replicas).arg(quorum.milliseconds);
                    wait
                }));
            }
        }
        commands
    }
}

/// The answer to a unit.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) value: Value,
    /// How many replicas have acknowledged it, if that was asked.
    pub(crate) acknowledged: Option<Result<u32>>,
}

/// The answers to the commands of a unit, without that to `ASKING`.
pub(crate) type Answers = std::vec::IntoIter<RedisResult<Value>>;
