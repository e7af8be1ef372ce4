//! A script, and how entries of a batch are put to it.

use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::spi::Object;

use super::Context;
use crate::command::Command;
use crate::durability::Writes;
use crate::script::Script;

/// A script, and how a call of it is made of entries.
#[derive(Debug)]
pub(super) struct Step<'a, T> {
    pub(super) script: &'a Script,
    pub(super) object: fn(&T) -> &Object,
    pub(super) writes: Writes,
    encode: Encode<T>,
}

/// How keys and arguments are added to a call.
#[derive(Debug)]
enum Encode<T> {
    /// All keys of each entry's object, what all scripts are given, and what this adds for each
    /// entry.
    Full(fn(&mut Cmd, &T)),
    /// What this adds for all entries.
    Whole(fn(&Context, &mut Cmd, &[&T])),
}

impl<'a, T> Step<'a, T> {
    pub(super) fn new(script: &'a Script, object: fn(&T) -> &Object, arguments: fn(&mut Cmd, &T)) -> Self {
        Self { script, object, encode: Encode::Full(arguments), writes: Writes::Other }
    }

    pub(super) fn whole(
        script: &'a Script,
        object: fn(&T) -> &Object,
        encode: fn(&Context, &mut Cmd, &[&T]),
    ) -> Self {
        Self { script, object, encode: Encode::Whole(encode), writes: Writes::Other }
    }

    pub(super) fn writing(self, writes: Writes) -> Self {
        Self { writes, ..self }
    }

    /// Makes the call for these entries.
    pub(super) fn command(&self, context: &Context, entries: &[&T]) -> Command<'a> {
        Command::call(self.script, |command| match self.encode {
            Encode::Whole(encode) => encode(context, command, entries),
            Encode::Full(arguments) => {
                let keys_of = |entry: &&T| context.keyspace.object((self.object)(entry));
                let keys: Vec<_> = entries.iter().flat_map(keys_of).collect();
                command.arg(keys.len()).arg(keys);
                command.arg(context.process.to_string()).arg(micros(context.retention));
                entries.iter().for_each(|entry| arguments(command, entry));
            }
        })
    }
}
