//! What is sent to a server.

use std::borrow::Cow;
use std::slice::from_ref;

use redis::{Arg, Cmd, Value};
use stanchion_core::Result;

use crate::durability::{Acknowledged, Quorum};
use crate::script::Script;

/// In bytes.
const LARGE: usize = 1 << 14;

/// A command, and a wait for those that keep what it wrote.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    command: Cmd,
    /// The script that it calls by its hash.
    script: Option<&'a Script>,
    /// Sends `WAIT` or `WAITAOF` right behind it, on the same connection.
    quorum: Option<Quorum>,
}

impl<'a> Command<'a> {
    /// Makes a call of a script, without keys and arguments: `complete` adds them.
    pub(crate) fn call(script: &'a Script, complete: impl FnOnce(&mut Cmd)) -> Self {
        let mut command = script.by_hash();
        complete(&mut command);
        Self { command, script: Some(script), quorum: None }
    }

    pub(crate) fn kept_by(self, quorum: Option<Quorum>) -> Self {
        Self { quorum, ..self }
    }

    pub(crate) fn waits(&self) -> bool {
        self.quorum.is_some()
    }

    /// Whether it may take long although its connection lives: it waits for others, or it, or its
    /// answer, may be so large that it takes long to pass.
    pub(crate) fn is_slow(&self) -> bool {
        self.waits()
            || self.script.is_some_and(|script| script.is_large)
            || words(&self.command).map(<[u8]>::len).sum::<usize>() > LARGE
    }

    /// Returns the commands that leave together. With `text`, a script is called with its text
    /// instead of its hash. With `asking`, `ASKING` comes first: a node that a slot is being moved
    /// to answers only requests marked so.
    pub(crate) fn parts(&self, asking: bool, text: bool) -> Cow<'_, [Cmd]> {
        let script = self.script.filter(|_| text);
        if !asking && script.is_none() && self.quorum.is_none() {
            return Cow::Borrowed(from_ref(&self.command));
        }
        let mut parts = Vec::with_capacity(3);
        parts.extend(asking.then(|| redis::cmd("ASKING")));
        parts.push(script.map_or_else(|| self.command.clone(), |script| self.with_text(script)));
        parts.extend(self.quorum.map(|quorum| quorum.command()));
        Cow::Owned(parts)
    }

    fn with_text(&self, script: &Script) -> Cmd {
        let mut command = script.by_text();
        command.arg(words(&self.command).skip(Script::START).collect::<Vec<_>>());
        command
    }
}

/// Returns the words of a command. None of ours has a cursor.
fn words(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(word) => Some(word),
        _ => None,
    })
}

impl From<Cmd> for Command<'_> {
    fn from(command: Cmd) -> Self {
        Self { command, script: None, quorum: None }
    }
}

/// The answer to a command that was executed.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) value: Value,
    /// What keeps it, if the command asked for a quorum.
    pub(crate) kept: Option<Result<Acknowledged>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::{Durability, Writes};

    fn texts(command: &Cmd) -> Vec<String> {
        words(command).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn a_script_that_the_server_does_not_know_is_called_with_its_text() {
        let script = Script::new("return 1");
        let durability = Durability { replicas: 1, ..Durability::default() };
        let quorum = durability.quorum(Writes::Grants, std::time::Duration::from_millis(7));
        let command = Command::call(&script, |command| {
            command.arg(1).arg("a key").arg("");
        });
        let by_hash = texts(&command.parts(false, false)[0]);
        assert_eq!((by_hash.len(), &by_hash[2..]), (5, &["1", "a key", ""].map(String::from)[..]));
        let command = command.kept_by(quorum);
        let parts: Vec<_> = command.parts(true, true).iter().map(texts).collect();
        assert_eq!(parts[0], ["ASKING"]);
        assert_eq!(parts[1], ["EVAL", "return 1", "1", "a key", ""]);
        assert_eq!(parts[2], ["WAIT", "1", "7"]);
    }
}
