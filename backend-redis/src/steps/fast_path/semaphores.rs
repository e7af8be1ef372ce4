//! The fast script of semaphores.

use futures_util::future::join_all;
use redis::Cmd;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Exchange, Exchanged, Kept, Renew};

use super::super::call::Step;
use super::super::permits::shortest;
use super::super::reply::Reply;
use super::super::{Context, RedisSteps};
use super::{FastAnswers, FastPath, add_records, exchanged, ticket_into};
use crate::durability::Writes;
use crate::keys::{digits, stripe_of};

/// Maximum number of entries of one request: each can cost the server the reading of 16 holds.
const MAX_ENTRIES: usize = 200;

impl RedisSteps {
    /// Releases and acquires; `None` for an entry that needs a full script.
    pub(super) async fn exchange_permits(&self, batch: &[Exchange]) -> FastAnswers<Exchanged> {
        let parts = batch.chunks(MAX_ENTRIES).map(async |part| {
            let step = Step::whole(&self.scripts().fast_permits, FastPath::object, encode_exchange);
            let step = step.within(Exchange::longest_lease(part));
            let read = |entry: &Exchange, reply: &Reply| {
                let (number, limit) = reply.with_limit()?;
                let asked = match entry {
                    Exchange::Acquire(acquire) => acquire.limit,
                    Exchange::Release(_) => 0,
                };
                exchanged(entry, number, limit.unwrap_or(asked))
            };
            self.call_fast(&step, part, read).await
        });
        join_all(parts).await.into_iter().flatten().collect()
    }

    /// Renews; `None` for an entry that needs the full script.
    pub(super) async fn renew_permits(&self, batch: &[Renew]) -> FastAnswers<Kept> {
        let parts = batch.chunks(MAX_ENTRIES).map(async |part| {
            let step = Step::whole(&self.scripts().fast_permits, FastPath::object, encode_renewals);
            let step = step.within(shortest(part)).writing(Writes::Renewals);
            self.call_fast(&step, part, |_, reply| Ok((reply.sole()? == 1).then_some(Kept::Yes))).await
        });
        join_all(parts).await.into_iter().flatten().collect()
    }
}

fn encode_exchange(context: &Context, command: &mut Cmd, batch: &[&Exchange]) {
    let mut stripes = Vec::new();
    for entry in batch {
        let stripe = stripe_of(entry.object());
        if matches!(entry, Exchange::Acquire(_)) && !stripes.contains(&stripe) {
            stripes.push(stripe);
        }
    }
    command.arg(stripes.len() + batch.len());
    for stripe in &stripes {
        command.arg(context.keyspace.mark(*stripe));
    }
    add_records(&context.keyspace, command, batch.iter().map(|entry| entry.object()));
    let kind = |entry: &&Exchange| if matches!(entry, Exchange::Release(_)) { 'r' } else { 'a' };
    let kinds: String = batch.iter().map(kind).collect();
    command.arg(stripes.len()).arg(micros(context.retention)).arg(kinds);
    let mut ticket = Vec::new();
    for entry in batch {
        match entry {
            Exchange::Release(release) => {
                command.arg(&digits(release.ticket));
            }
            Exchange::Acquire(acquire) => {
                let stripe = stripe_of(&acquire.object);
                let mark = stripes.iter().position(|known| *known == stripe).unwrap_or_default();
                ticket_into(&mut ticket, acquire, acquire.check.letter());
                command
                    .arg(mark + 1)
                    .arg(&ticket)
                    .arg(acquire.weight)
                    .arg(micros(acquire.lease.get()))
                    .arg(acquire.limit);
            }
        }
    }
}

fn encode_renewals(context: &Context, command: &mut Cmd, batch: &[&Renew]) {
    command.arg(batch.len());
    add_records(&context.keyspace, command, batch.iter().map(|entry| &entry.object));
    command.arg(0).arg(micros(context.retention)).arg("n".repeat(batch.len()));
    for entry in batch {
        command.arg(&digits(entry.ticket)).arg(micros(entry.lease.get()));
    }
}
