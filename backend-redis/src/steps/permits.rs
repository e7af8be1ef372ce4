//! The steps of mutexes, semaphores and the members of wait groups.

use async_trait::async_trait;
use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::steps::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, Kept, Object, PermitSteps, Polled,
    Release, Renew,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result};

use super::RedisSteps;
use super::acked_reply::AckedReply;
use super::reply::Reply;
use crate::error::unexpected;

impl RedisSteps {
    pub(super) async fn acquire_full(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let arguments = |command: &mut Cmd, entry: &Acquire| {
            command
                .arg(entry.ticket.to_string())
                .arg(entry.weight)
                .arg(micros(entry.lease.get()))
                .arg(entry.limit)
                .arg(entry.check.letter())
                .arg(u8::from(entry.queue))
                .arg(entry.max_waiters.map(|bound| bound.to_string()).unwrap_or_default())
                .arg(label(entry.label.as_deref()));
        };
        // Each caller has a time limit of its own: a short one must not cut the time of the others.
        let lease = batch.iter().map(|entry| entry.lease).max();
        let script = &self.scripts().acquire;
        let replies = self.call_with_acks(script, batch, |entry| &entry.object, arguments, lease).await;
        self.granted(batch, replies).await
    }

    pub(super) async fn release_full(&self, batch: &[Release]) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Release| {
            let tombstone = entry.tombstone.map_or(0, |ttl| micros(ttl.get()));
            let ending = match entry.ending {
                Ending::Finished => "finished",
                Ending::Abandoned => "abandoned",
            };
            let call = entry.call.map(|call| call.to_string()).unwrap_or_default();
            command.arg(entry.ticket.to_string()).arg(tombstone).arg(ending).arg(call);
        };
        let read = |reply: Reply| reply.kept();
        self.call_each(&self.scripts().release, batch, |entry| &entry.object, arguments, None, read).await
    }
}

#[async_trait]
impl PermitSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        self.lane_of(object)
    }

    /// A server runs one script at a time, and no script waits.
    fn excludes(&self, _: usize) -> bool {
        false
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.fast_then_full(batch).await
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Renew| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        // The engine batches renewals whose leases are about as long.
        let lease = batch.iter().map(|entry| entry.lease).min();
        let read = |reply: Reply| reply.kept();
        self.call_each(&self.scripts().renew, batch, |entry| &entry.object, arguments, lease, read).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        self.fast_then_full(batch).await
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let arguments = |command: &mut Cmd, entry: &Cancel| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        // No caller waits: a short lease must not cut the time of the others.
        let script = &self.scripts().cancel;
        self.call_each(script, batch, |entry| &entry.object, arguments, None, |_| Ok(())).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let read = |reply: Reply| reply.polled();
        self.call_each(&self.scripts().poll, batch, |object| object, |_, _| {}, None, read).await
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let arguments = |command: &mut Cmd, entry: &Attach| {
            command
                .arg(entry.from.to_string())
                .arg(entry.to.to_string())
                .arg(micros(entry.lease.get()))
                .arg(label(entry.label.as_deref()));
        };
        let (script, batch) = (&self.scripts().attach, std::slice::from_ref(attach));
        let replies =
            self.call_with_acks(script, batch, |entry| &entry.object, arguments, Some(attach.lease)).await;
        let AckedReply { reply, shortfall } = replies.into_iter().next().ok_or_else(unexpected)??;
        match (reply.ours()?.attached()?, shortfall) {
            // The engine asks again, and in the end withdraws the hold.
            (Some(_), Some(shortfall)) => Err(shortfall),
            (attached, _) => Ok(attached),
        }
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let script = &self.scripts().inspect;
        self.call_one(script, object, |object| object, |_, _| {}, None).await?.inspection()
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        let arguments = |command: &mut Cmd, entry: &(Object, u32)| {
            command.arg(entry.1);
        };
        let entry = (object.clone(), limit);
        self.call_one(&self.scripts().resize, &entry, |entry| &entry.0, arguments, None).await?;
        Ok(())
    }

    async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        type Part<'a> = (&'a Object, Force, String, String);
        let arguments = |command: &mut Cmd, (_, force, next, before): &Part<'_>| {
            let ticket = match force {
                Force::All => String::new(),
                Force::One(ticket) => ticket.to_string(),
            };
            command.arg(ticket).arg(next).arg(before);
        };
        let mut freed = 0;
        let mut part = (object, force, "0".to_owned(), String::new());
        loop {
            let reply = self.call_one(&self.scripts().force, &part, |part| part.0, arguments, None).await;
            let is_first = part.3.is_empty();
            let reply = reply.map_err(|error| match error.kind() {
                _ if is_first => error,
                _ => Error::new(ErrorKind::Unknown, "a part of the holds was freed").with_source(error),
            });
            let (count, rest) = reply?.forced()?;
            freed += count;
            let Some((next, before)) = rest else { return Ok(freed) };
            (part.2, part.3) = (next, before);
        }
    }

    async fn ping(&self) -> Result<()> {
        self.route.send_command(0, &redis::cmd("PING")).await.map(drop)
    }
}

/// Returns a label as it stands at the end of a record. No label differs from an empty one.
pub(super) fn label(label: Option<&str>) -> String {
    label.map(|label| format!(" {label}")).unwrap_or_default()
}
