//! The steps of limiters.

mod batch;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::limit_batch::by_name;
use stanchion_core::spi::{Answers, LimitCall, LimitSteps, Limited, Object, Refund, RequestId};

use super::RedisSteps;
use super::call::Step;
use super::reply::Reply;
use crate::error::unexpected;

#[async_trait]
impl LimitSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        self.lane_of(object)
    }

    async fn decide(&self, id: RequestId, calls: &[LimitCall]) -> Answers<Limited> {
        let batches: Vec<_> = by_name(calls).into_iter().map(|batch| (id, batch)).collect();
        let step = Step::new(&self.scripts().limit_decide, |(_, batch)| batch.object, batch::arguments);
        let replies = self.call(&step, &batches).await;
        let mut answers: Vec<Option<Result<Limited>>> = calls.iter().map(|_| None).collect();
        for ((_, batch), reply) in batches.iter().zip(replies) {
            match reply.and_then(Reply::ours).and_then(|reply| batch::decode(batch, &reply)) {
                Ok(limited) => {
                    for (index, limited) in batch.calls.iter().zip(limited) {
                        answers[*index] = Some(Ok(limited));
                    }
                }
                Err(error) => batch.calls.iter().for_each(|i| answers[*i] = Some(Err(error.replicate()))),
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
    }

    async fn refund(&self, batch: &[Refund]) -> Answers<u64> {
        let arguments = |command: &mut Cmd, refund: &Refund| {
            command.arg(refund.ticket.to_string());
        };
        let read = |reply: Reply| reply.ours()?.number(0);
        let step = Step::new(&self.scripts().limit_refund, |refund: &Refund| &refund.object, arguments);
        self.call_each(&step, batch, read).await
    }

    async fn set_quota(&self, object: &Object, quota: ExactQuota) -> Result<()> {
        let arguments = |command: &mut Cmd, entry: &(Object, ExactQuota)| {
            let quota = entry.1;
            command.arg(quota.amount()).arg(quota.period()).arg(quota.burst());
        };
        let step = Step::new(&self.scripts().limit_set_quota, |entry: &(Object, _)| &entry.0, arguments);
        self.call_one(&step, &(object.clone(), quota)).await?;
        Ok(())
    }

    async fn reset(&self, object: &Object) -> Result<()> {
        let step = Step::new(&self.scripts().limit_reset, |object| object, |_, _| {});
        self.call_one(&step, object).await?;
        Ok(())
    }
}
