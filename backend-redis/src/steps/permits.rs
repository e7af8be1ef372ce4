//! The requests about mutexes, semaphores and the members of wait groups.

use redis::Cmd;
use stanchion_core::clock::{Instant, micros};
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, ForceRelease, KeepPlaces, Kept,
    Object, Poll, Polled, Release, Renew, Resize, Usage, inspect_in_parts,
};
use stanchion_core::{Error, ErrorKind, Inspection, Result};

use super::reply::Reply;
use super::step::Step;
use super::{Context, RedisSteps};
use crate::durability::Writes;
use crate::error::unexpected;
use crate::keys::stripe_of;

/// Adds the arguments of an acquire; `queueing` stands for one that may wait.
fn encode_acquire(command: &mut Cmd, entry: &Acquire, queueing: &str) {
    command
        .arg(entry.ticket.to_string())
        .arg(entry.weight)
        .arg(micros(entry.lease.get()))
        .arg(entry.limit)
        .arg(entry.check.letter())
        .arg(if entry.queue { queueing } else { "0" })
        .arg(entry.max_waiters.map(|bound| bound.to_string()).unwrap_or_default())
        .arg(label(entry.label.as_deref()));
}

impl RedisSteps {
    pub(super) async fn acquire_full(&self, batch: &[&Acquire], end: Instant) -> Answers<Acquired> {
        // Where a grant may have to be undone, its place is asked for.
        let arguments: fn(&mut Cmd, &Acquire) = if self.context.durability.waits() {
            |command, entry| encode_acquire(command, entry, "n")
        } else {
            |command, entry| encode_acquire(command, entry, "1")
        };
        let step = Step::new(&self.scripts().acquire, |entry: &Acquire| &entry.object, arguments);
        let replies = self.call(&step.writing(Writes::Grants), batch, end).await;
        self.granted(batch, replies, end).await
    }

    pub(super) async fn release_full(&self, batch: &[&Release], end: Instant) -> Answers<Kept> {
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
        self.call_each(&step, batch, end, |reply| reply.kept()).await
    }

    pub(super) async fn renew_full(&self, batch: &[&Renew], end: Instant) -> Answers<Kept> {
        let arguments = |command: &mut Cmd, entry: &Renew| {
            command.arg(entry.ticket.to_string()).arg(micros(entry.lease.get()));
        };
        let step = Step::new(&self.scripts().renew, |entry: &Renew| &entry.object, arguments);
        let kept = |reply: Reply| reply.confirmed(Reply::kept, |kept| *kept == Kept::Yes);
        self.call_each(&step.writing(Writes::Renewals), batch, end, kept).await
    }

    /// Asks for a part of an inspection, which begins at a position that a server process has
    /// given.
    async fn inspected(
        &self,
        object: &Object,
        (position, process): (&str, &str),
        end: Instant,
    ) -> Result<Reply> {
        type Part<'a> = (&'a Object, &'a str, &'a str);
        let arguments = |command: &mut Cmd, (_, position, process): &Part<'_>| {
            command.arg(*position).arg(*process);
        };
        let step = Step::new(&self.scripts().inspect, |part: &Part<'_>| part.0, arguments);
        self.call_one(&step, &(object, position, process), end).await
    }

    pub(super) async fn cancel(&self, batch: &[&Cancel], end: Instant) -> Answers<()> {
        let arguments = |command: &mut Cmd, entry: &Cancel| {
            command
                .arg(entry.ticket.to_string())
                .arg(entry.tombstone.map_or(0, |lasting| micros(lasting.get())));
        };
        let step = Step::new(&self.scripts().cancel, |entry: &Cancel| &entry.object, arguments);
        self.call_each(&step, batch, end, |_| Ok(())).await
    }

    pub(super) async fn poll(&self, batch: &[&Poll], end: Instant) -> Answers<Polled> {
        let step = Step::new(&self.scripts().poll, |poll: &Poll| &poll.object, |_, _| {});
        self.call_each(&step, batch, end, |reply| reply.polled()).await
    }

    /// One mark for all names of a stripe.
    pub(super) async fn keep_places(&self, batch: &[&KeepPlaces], end: Instant) -> Answers<Option<Polled>> {
        let mut stripes: Vec<(usize, Object)> = Vec::new();
        for KeepPlaces { object } in batch {
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
        let answers = self.call(&step, &stripes.iter().collect::<Vec<_>>(), end).await;
        let marked: Vec<_> = stripes
            .iter()
            .zip(answers)
            .map(|((stripe, _), answer)| (*stripe, answer.and_then(|reply| reply.sole())))
            .collect();
        let answer_of =
            |place: &KeepPlaces| marked.iter().find(|(stripe, _)| *stripe == stripe_of(&place.object));
        let is_silent = |place: &&&KeepPlaces| matches!(answer_of(place), Some((_, Ok(0))));
        let silent: Vec<Poll> =
            batch.iter().filter(is_silent).map(|place| Poll { object: place.object.clone() }).collect();
        let polls: Vec<&Poll> = silent.iter().collect();
        let mut polled = if polls.is_empty() { Vec::new() } else { self.poll(&polls, end).await }.into_iter();
        let answers = batch.iter().map(|place| match answer_of(place) {
            Some((_, Ok(0))) => polled.next().unwrap_or_else(|| Err(unexpected())).map(Some),
            Some((_, Ok(_))) => Ok(None),
            Some((_, Err(error))) => Err(error.replicate()),
            None => Err(unexpected()),
        });
        answers.collect()
    }

    pub(super) async fn attach(&self, attach: &Attach, end: Instant) -> Result<Option<Attached>> {
        let arguments = |command: &mut Cmd, entry: &Attach| {
            command
                .arg(entry.from.to_string())
                .arg(entry.to.to_string())
                .arg(micros(entry.lease.get()))
                .arg(label(entry.label.as_deref()));
        };
        let step = Step::new(&self.scripts().attach, |entry: &Attach| &entry.object, arguments);
        let reply = self.call_one(&step.writing(Writes::Grants), attach, end).await?;
        // It was moved, and nothing moves it back: the engine asks again, and in the end withdraws
        // it.
        let attached = reply.confirmed(Reply::attached, Option::is_some);
        attached.map_err(|error| {
            Error::new(ErrorKind::Unknown, "the hold was moved, and too little keeps that").with_source(error)
        })
    }

    pub(super) async fn inspect(&self, object: &Object, end: Instant) -> Result<Inspection> {
        let ask = async |at: Option<(String, String)>| {
            let (position, process) = at.unwrap_or_else(|| ("0".to_owned(), String::new()));
            self.inspected(object, (&position, &process), end).await?.inspected()
        };
        inspect_in_parts(end, ask).await
    }

    pub(super) async fn usage(&self, object: &Object, end: Instant) -> Result<Usage> {
        self.inspected(object, ("", ""), end).await?.usage()
    }

    pub(super) async fn resize(&self, resize: &Resize, end: Instant) -> Result<()> {
        let arguments = |command: &mut Cmd, resize: &Resize| {
            command.arg(resize.limit);
        };
        let step = Step::new(&self.scripts().resize, |resize: &Resize| &resize.object, arguments);
        self.call_one(&step, resize, end).await.map(drop)
    }

    pub(super) async fn force(
        &self,
        ForceRelease { object, force }: &ForceRelease,
        end: Instant,
    ) -> Result<u32> {
        let mut freed = 0;
        let mut part = (object, *force, "0".to_owned(), String::new());
        loop {
            let is_first = part.3.is_empty();
            let forced = self.force_part(&part, end).await;
            let forced = forced.map_err(|error| if is_first { error } else { Error::partly_forced(error) });
            let (count, rest) = forced?;
            freed += count;
            let Some((next, before)) = rest else { return Ok(freed) };
            (part.2, part.3) = (next, before);
        }
    }

    /// Frees a part of the holds. Returns their number, and where the next part begins.
    pub(super) async fn force_part(
        &self,
        part: &ForcePart<'_>,
        end: Instant,
    ) -> Result<(u32, Option<(String, String)>)> {
        let arguments = |command: &mut Cmd, (_, force, next, before): &ForcePart<'_>| {
            let ticket = match force {
                Force::All => String::new(),
                Force::One(ticket) => ticket.to_string(),
            };
            command.arg(ticket).arg(next).arg(before);
        };
        let step = Step::new(&self.scripts().force, |part: &ForcePart<'_>| part.0, arguments);
        self.call_one(&step, part, end).await?.forced()
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.route.send_command(0, &redis::cmd("PING")).await.map(drop)
    }
}

/// The object, which holds, and what the part before returned: where the next one begins, and what
/// is known of the first one.
pub(super) type ForcePart<'a> = (&'a Object, Force, String, String);

/// Returns a label as it stands at the end of a record. No label differs from an empty one.
pub(super) fn label(label: Option<&str>) -> String {
    label.map(|label| format!(" {label}")).unwrap_or_default()
}
