//! The steps of mutexes, semaphores and the members of wait groups.

use async_trait::async_trait;
use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Exchange, Exchanged, Force, Kept, Object,
    PermitSteps, Polled, Release, Renew, Usage, inspect_in_parts,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result, Ttl};

use super::acked_reply::AckedReply;
use super::call::Step;
use super::reply::Reply;
use super::{Context, RedisSteps};
use crate::durability::Writes;
use crate::error::unexpected;
use crate::keys::stripe_of;

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
        let step = Step::new(&self.scripts().acquire, |entry: &Acquire| &entry.object, arguments);
        let step = step.within(lease).writing(Writes::Grants);
        let replies = self.call_with_acks(&step, batch).await;
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
        let step = Step::new(&self.scripts().release, |entry: &Release| &entry.object, arguments);
        self.call_each(&step, batch, |reply| reply.kept()).await
    }

    pub(super) async fn renew_full(&self, batch: &[Renew]) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Renew| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        let step = Step::new(&self.scripts().renew, |entry: &Renew| &entry.object, arguments);
        let step = step.within(shortest(batch)).writing(Writes::Renewals);
        let replies = self.call_with_acks(&step, batch).await;
        let kept = |acked: AckedReply| acked.confirmed(|reply| reply.kept(), |kept| *kept == Kept::Yes);
        replies.into_iter().map(|acked| acked.and_then(kept)).collect()
    }

    /// Asks for a part of an inspection, which begins at a position that a server process has given.
    async fn inspected(&self, object: &Object, position: &str, process: &str) -> Result<Reply> {
        type Part<'a> = (&'a Object, &'a str, &'a str);
        let arguments = |command: &mut Cmd, (_, position, process): &Part<'_>| {
            command.arg(*position).arg(*process);
        };
        let step = Step::new(&self.scripts().inspect, |part: &Part<'_>| part.0, arguments);
        self.call_one(&step, &(object, position, process)).await
    }
}

#[async_trait]
impl PermitSteps for RedisSteps {
    fn lane(&self, object: &Object) -> usize {
        self.lane_of(object)
    }

    /// Two for one server: while it runs the script of one, the answers to the other are on their way. None if grants wait for
    /// replicas or a disk: a release that left with them would be answered as late.
    fn exchange_lane(&self, object: &Object) -> Option<usize> {
        (!self.context.durability.waits()).then(|| self.route.exchange_lane(object))
    }

    async fn exchange(&self, batch: &[Exchange]) -> Answers<Exchanged> {
        self.fast_then_full(batch).await
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        let batch: Vec<_> = batch.iter().cloned().map(Exchange::Acquire).collect();
        let answers = self.fast_then_full(&batch).await;
        answers.into_iter().map(|answer| answer.and_then(Exchanged::acquired)).collect()
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.fast_then_full(batch).await
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        let batch: Vec<_> = batch.iter().cloned().map(Exchange::Release).collect();
        let answers = self.fast_then_full(&batch).await;
        answers.into_iter().map(|answer| answer.and_then(Exchanged::kept)).collect()
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        let arguments = |command: &mut Cmd, entry: &Cancel| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        // No caller waits: a short lease must not cut the time of the others.
        let step = Step::new(&self.scripts().cancel, |entry: &Cancel| &entry.object, arguments);
        self.call_each(&step, batch, |_| Ok(())).await
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let step = Step::new(&self.scripts().poll, |object| object, |_, _| {});
        self.call_each(&step, batch, |reply| reply.polled()).await
    }

    /// One mark for all names of a stripe.
    async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        let mut stripes: Vec<(usize, Object)> = Vec::new();
        for object in batch {
            let stripe = stripe_of(object);
            if stripes.iter().all(|(known, _)| *known != stripe) {
                stripes.push((stripe, object.clone()));
            }
        }
        let encode = |context: &Context, command: &mut Cmd, marked: &[&(usize, Object)]| {
            command.arg(marked.len());
            for (stripe, _) in marked {
                command.arg(context.keyspace.live(*stripe));
            }
            command.arg(context.process.to_string());
        };
        let script = &self.scripts().keep_places;
        let step = Step::whole(script, |(_, object)| object, encode);
        let answers = self.call(&step, &stripes).await;
        let marked: Vec<_> = stripes
            .iter()
            .zip(answers)
            .map(|((stripe, _), answer)| (*stripe, answer.and_then(|reply| reply.sole())))
            .collect();
        let answer_of = |object: &Object| marked.iter().find(|(stripe, _)| *stripe == stripe_of(object));
        let is_silent = |object: &&Object| matches!(answer_of(object), Some((_, Ok(0))));
        let silent: Vec<Object> = batch.iter().filter(is_silent).cloned().collect();
        let mut polled = if silent.is_empty() { Vec::new() } else { self.poll(&silent).await }.into_iter();
        let answers = batch.iter().map(|object| match answer_of(object) {
            Some((_, Ok(0))) => polled.next().unwrap_or_else(|| Err(unexpected())).map(Some),
            Some((_, Ok(_))) => Ok(None),
            Some((_, Err(error))) => Err(error.replicate()),
            None => Err(unexpected()),
        });
        answers.collect()
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        let arguments = |command: &mut Cmd, entry: &Attach| {
            command
                .arg(entry.from.to_string())
                .arg(entry.to.to_string())
                .arg(micros(entry.lease.get()))
                .arg(label(entry.label.as_deref()));
        };
        let step = Step::new(&self.scripts().attach, |entry: &Attach| &entry.object, arguments);
        let step = step.within(Some(attach.lease)).writing(Writes::Grants);
        let replies = self.call_with_acks(&step, std::slice::from_ref(attach)).await;
        let acked = replies.into_iter().next().ok_or_else(unexpected)??;
        // After an error the engine asks again, and in the end withdraws the hold.
        acked.confirmed(|reply| reply.ours()?.attached(), Option::is_some)
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        let ask = async |at: Option<(String, String)>| {
            let (position, process) = at.unwrap_or_else(|| ("0".to_owned(), String::new()));
            self.inspected(object, &position, &process).await?.inspected()
        };
        inspect_in_parts(self.route.timeout(), ask).await
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        self.inspected(object, "", "").await?.usage()
    }

    async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        let arguments = |command: &mut Cmd, entry: &(Object, u32)| {
            command.arg(entry.1);
        };
        let step = Step::new(&self.scripts().resize, |entry: &(Object, u32)| &entry.0, arguments);
        self.call_one(&step, &(object.clone(), limit)).await?;
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
        let step = Step::new(&self.scripts().force, |part: &Part<'_>| part.0, arguments);
        let mut freed = 0;
        let mut part = (object, force, "0".to_owned(), String::new());
        loop {
            let is_first = part.3.is_empty();
            let reply = self.call_one(&step, &part).await.map_err(|error| {
                if is_first {
                    return error;
                }
                Error::new(ErrorKind::Unknown, "a part of the holds was freed").with_source(error)
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

/// Returns the shortest lease. The engine batches renewals whose leases are about as long.
pub(super) fn shortest(batch: &[Renew]) -> Option<Ttl> {
    batch.iter().map(|entry| entry.lease).min()
}

/// Returns a label as it stands at the end of a record. No label differs from an empty one.
pub(super) fn label(label: Option<&str>) -> String {
    label.map(|label| format!(" {label}")).unwrap_or_default()
}
