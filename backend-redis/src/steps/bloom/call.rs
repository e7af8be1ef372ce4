//! Sends requests about filters. The keys of a request depend on the pages that it touches.

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Object, refused};

use crate::error::unexpected;
use crate::keys::stripe_of;
use crate::request::{Call, Request};
use crate::script::Script;
use crate::steps::RedisSteps;
use crate::steps::reply::{Reply, replies};

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
        let replies = self.ask_each(script, &[entry], end).await;
        replies.into_iter().next().ok_or_else(unexpected)??.ours()
    }

    /// Calls a script for filters of one server. The error of the request is the answer to each
    /// entry.
    pub(super) async fn ask_each(
        &self,
        script: &Script,
        entries: &[Entry<'_>],
        end: Instant,
    ) -> Answers<Reply> {
        match self.ask_script(script, entries, end).await {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => refused(entries.len(), &error),
        }
    }

    async fn ask_script(&self, script: &Script, entries: &[Entry<'_>], end: Instant) -> Result<Vec<Reply>> {
        let Some(first) = entries.first() else { return Ok(Vec::new()) };
        let keyspace = &self.context.keyspace;
        let keys_of = |entry: &Entry<'_>| {
            let mut keys = keyspace.filter(entry.object, &entry.pages);
            keys.extend_from_slice(&entry.further);
            keys
        };
        let keys: Vec<String> = entries.iter().flat_map(keys_of).collect();
        let complete = |mut command: Cmd| {
            command.arg(keys.len()).arg(&keys);
            for entry in entries {
                entry.arguments(&mut command);
            }
            command
        };
        let call = Call { script, complete: &complete, quorum: None };
        let stripe = stripe_of(first.object);
        match self.route.send(stripe, Request::Script(&call), end).await {
            Ok(answered) => replies(answered.value, entries.len()),
            Err(error) => {
                let key = keys.first().map_or("", String::as_str);
                Err(self.name_missing_rights(error, script, (stripe, key), end).await)
            }
        }
    }
}
