//! The requests about limiters.

mod batch;
#[cfg(test)]
mod tests;

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::limit_batch::{NameBatch, by_name};
use stanchion_core::spi::{Answers, Decide, Limited, Refund, Reset, SetQuota, gather, refused};

use super::RedisSteps;
use super::reply::Reply;
use super::step::Step;
use crate::script::Scripts;

/// The decisions of a batch, by name.
pub(super) struct Decisions<'a> {
    count: usize,
    batches: Vec<NameBatch<'a>>,
}

impl<'a> Decisions<'a> {
    pub(super) fn of(calls: &[&'a Decide]) -> Self {
        Self { count: calls.len(), batches: by_name(calls) }
    }

    pub(super) fn step(scripts: &Scripts) -> Step<'_, NameBatch<'a>> {
        Step::new(&scripts.limit_decide, |batch: &NameBatch<'a>| batch.object, batch::arguments)
    }

    pub(super) fn batches(&self) -> Vec<&NameBatch<'a>> {
        self.batches.iter().collect()
    }

    /// Reads the reply for each name, and answers each decision.
    pub(super) fn answers(self, replies: Answers<Reply>) -> Answers<Limited> {
        let parts = self.batches.into_iter().zip(replies).map(|(batch, reply)| {
            let decoded = reply.and_then(Reply::ours).and_then(|reply| batch::decode(&batch, &reply));
            let answers = match decoded {
                Ok(limited) => limited.into_iter().map(Ok).collect(),
                Err(error) => refused(batch.calls.len(), &error),
            };
            (batch.calls, answers)
        });
        gather(self.count, parts)
    }
}

impl RedisSteps {
    pub(super) async fn refund(&self, batch: &[&Refund], end: Instant) -> Answers<u64> {
        let arguments = |command: &mut Cmd, refund: &Refund| {
            command.arg(refund.ticket.to_string());
        };
        let read = |reply: Reply| reply.ours()?.number(0);
        let step = Step::new(&self.scripts().limit_refund, |refund: &Refund| &refund.object, arguments);
        self.call_each(&step, batch, end, read).await
    }

    pub(super) async fn set_quota(&self, set: &SetQuota, end: Instant) -> Result<()> {
        let arguments = |command: &mut Cmd, SetQuota { quota, .. }: &SetQuota| {
            command.arg(quota.amount()).arg(quota.period()).arg(quota.burst());
        };
        let step = Step::new(&self.scripts().limit_set_quota, |set: &SetQuota| &set.object, arguments);
        self.call_one(&step, set, end).await.map(drop)
    }

    pub(super) async fn reset(&self, reset: &Reset, end: Instant) -> Result<()> {
        let step = Step::new(&self.scripts().limit_reset, |reset: &Reset| &reset.object, |_, _| {});
        self.call_one(&step, reset, end).await.map(drop)
    }
}
