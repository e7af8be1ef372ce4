//! The steps of wait groups, apart from the steps of their members.

use async_trait::async_trait;
use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Answers, GroupSteps, Look, Looked, Object, PermitSteps, Split};

use super::RedisSteps;
use super::call::Step;
use super::reply::Reply;

#[async_trait]
impl GroupSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        PermitSteps::lane(self, object)
    }

    async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        let arguments = |command: &mut Cmd, entry: &Look| {
            let watch = entry.watch.map(|generation| generation.to_string()).unwrap_or_default();
            command.arg(watch).arg(entry.hint.to_string());
        };
        let read = |reply: Reply| reply.ours()?.looked();
        let step = Step::new(&self.scripts().look, |entry: &Look| &entry.object, arguments);
        self.call_each(&step, batch, read).await
    }

    async fn split(&self, split: &Split) -> Result<bool> {
        let arguments = |command: &mut Cmd, entry: &Split| {
            command.arg(entry.from.to_string()).arg(micros(entry.lease.get()));
            for ticket in &entry.into {
                command.arg(ticket.to_string());
            }
        };
        let step = Step::new(&self.scripts().split, |entry: &Split| &entry.object, arguments);
        self.call_one(&step.within(Some(split.lease)), split).await?.split()
    }
}
