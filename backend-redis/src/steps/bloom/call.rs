//! Sends requests about filters. The keys of a request depend on the pages that it touches.

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Object};

use crate::script::Script;
use crate::steps::RedisSteps;
use crate::steps::reply::Reply;
use crate::steps::step::Step;

/// The question to a script about one filter.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) object: &'a Object,
    /// The numbers of the pages that the script may touch.
    pub(super) pages: Vec<u64>,
    /// Further keys, which come after those of the pages.
    pub(super) further: Vec<String>,
    pub(super) arguments: Vec<Vec<u8>>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(object: &'a Object) -> Self {
        Self { object, pages: Vec::new(), further: Vec::new(), arguments: Vec::new() }
    }

    fn arguments(&self, command: &mut Cmd) {
        let pages: Vec<u8> = self.pages.iter().flat_map(|page| packed(*page)).collect();
        command.arg(self.arguments.len() + 2).arg(pages);
        for argument in &self.arguments {
            command.arg(argument);
        }
    }
}

/// Packs a number below 2²⁴ into 3 bytes.
pub(super) fn packed(number: u64) -> [u8; 3] {
    let [.., high, middle, low] = number.to_be_bytes();
    [high, middle, low]
}

impl RedisSteps {
    /// Calls a script for one filter.
    pub(super) async fn ask_one(&self, script: &Script, entry: Entry<'_>, end: Instant) -> Result<Reply> {
        self.call_one(&step(script), &entry, end).await
    }

    /// Calls a script for filters of one server.
    pub(super) async fn ask_each(
        &self,
        script: &Script,
        entries: &[Entry<'_>],
        end: Instant,
    ) -> Answers<Reply> {
        self.call(&step(script), &entries.iter().collect::<Vec<_>>(), end).await
    }
}

fn step<'a, 'b>(script: &'a Script) -> Step<'a, Entry<'b>> {
    Step::whole(
        script,
        |entry| entry.object,
        |context, command, entries| {
            let keys_of = |entry: &&Entry<'_>| {
                let mut keys = context.keyspace.filter(entry.object, &entry.pages);
                keys.extend_from_slice(&entry.further);
                keys
            };
            let keys: Vec<String> = entries.iter().flat_map(keys_of).collect();
            command.arg(keys.len()).arg(keys);
            entries.iter().for_each(|entry| entry.arguments(command));
        },
    )
}
