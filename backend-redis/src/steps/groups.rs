//! The requests about wait groups, apart from those about their members.

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::{Instant, micros};
use stanchion_core::spi::{Answers, Look, Looked, Split};

use super::RedisSteps;
use super::reply::Reply;
use super::step::Step;

impl RedisSteps {
    pub(super) async fn look(&self, batch: &[&Look], end: Instant) -> Answers<Looked> {
        let arguments = |command: &mut Cmd, entry: &Look| {
            let watch = entry.watch.map(|generation| generation.to_string()).unwrap_or_default();
            command.arg(watch).arg(entry.hint.to_string());
        };
        let read = |reply: Reply| reply.ours()?.looked();
        let step = Step::new(&self.scripts().look, |entry: &Look| &entry.object, arguments);
        self.call_each(&step, batch, end, read).await
    }

    pub(super) async fn split(&self, split: &Split, end: Instant) -> Result<bool> {
        let arguments = |command: &mut Cmd, entry: &Split| {
            command.arg(entry.from.to_string()).arg(micros(entry.lease.get()));
            for ticket in &entry.into {
                command.arg(ticket.to_string());
            }
        };
        let step = Step::new(&self.scripts().split, |entry: &Split| &entry.object, arguments);
        self.call_one(&step, split, end).await?.split()
    }
}
