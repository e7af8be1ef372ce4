//! Requests: commands that are sent together on one connection.

use std::fmt;

use redis::{Cmd, RedisResult, Value};
use stanchion_core::Result;

use crate::durability::{Acknowledged, Quorum};
use crate::script::Script;

/// A script with its keys and arguments.
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// Adds keys and arguments to the start of a command.
    pub(crate) complete: &'a (dyn Fn(Cmd) -> Cmd + Send + Sync),
    /// Sends `WAIT` or `WAITAOF` right behind the script, on the same connection.
    pub(crate) quorum: Option<Quorum>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("quorum", &self.quorum).finish_non_exhaustive()
    }
}

/// A command, or a call of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Command(&'a Cmd),
    Script(&'a Call<'a>),
}

impl Request<'_> {
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Script(call) if call.quorum.is_some())
    }

    /// Returns the commands: a script by its hash, or with its text if `text`. With `asking`,
    /// `ASKING` comes first: a node that a slot is being moved to answers only requests marked so.
    pub(crate) fn commands(&self, asking: bool, text: bool) -> Vec<Cmd> {
        let mut commands = Vec::with_capacity(3);
        commands.extend(asking.then(|| redis::cmd("ASKING")));
        match self {
            Self::Command(command) => commands.push((*command).clone()),
            Self::Script(call) => {
                let start = if text { call.script.by_text() } else { call.script.by_hash() };
                commands.push((call.complete)(start));
                commands.extend(call.quorum.map(|quorum| quorum.command()));
            }
        }
        commands
    }
}

/// The answer to a request that was executed.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) value: Value,
    /// What keeps it, if the request asked for a quorum.
    pub(crate) kept: Option<Result<Acknowledged>>,
}

/// The answers to the commands of a request, in order.
pub(crate) type Answers = std::vec::IntoIter<RedisResult<Value>>;
