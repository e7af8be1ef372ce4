//! The fast script of semaphores.

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Renew, Request, Response, contents};

use super::super::Context;
use super::super::call::Step;
use super::super::reply::Reply;
use super::{FastStep, add_records, exchanged, object_of, renewed, ticket_into};
use crate::durability::Writes;
use crate::keys::{digits, stripe_of};
use crate::script::Scripts;

/// Maximum number of entries of one request: each can cost the server the reading of 16 holds.
const MAX_ENTRIES: usize = 200;

/// Releases and acquires.
pub(super) fn exchange(scripts: &Scripts) -> FastStep<'_> {
    let step = Step::whole(&scripts.fast_permits, object_of, encode_exchange);
    FastStep { step, read: read_exchanged, most: MAX_ENTRIES }
}

pub(super) fn renewals(scripts: &Scripts) -> FastStep<'_> {
    let step = Step::whole(&scripts.fast_permits, object_of, encode_renewals).writing(Writes::Renewals);
    FastStep { step, read: renewed, most: MAX_ENTRIES }
}

fn read_exchanged(entry: &Request, reply: &Reply) -> Result<Option<Response>> {
    let (number, limit) = reply.with_limit()?;
    let asked = match entry {
        Request::Acquire(acquire) => acquire.limit,
        _ => 0,
    };
    exchanged(entry, number, limit.unwrap_or(asked))
}

fn encode_exchange(context: &Context, command: &mut Cmd, batch: &[&Request]) {
    let mut stripes = Vec::new();
    for entry in batch {
        let stripe = stripe_of(object_of(entry));
        if matches!(entry, Request::Acquire(_)) && !stripes.contains(&stripe) {
            stripes.push(stripe);
        }
    }
    command.arg(stripes.len() + batch.len());
    for stripe in &stripes {
        command.arg(context.keyspace.mark(*stripe));
    }
    add_records(&context.keyspace, command, batch.iter().map(|entry| object_of(entry)));
    let kind = |entry: &&Request| if matches!(entry, Request::Release(_)) { 'r' } else { 'a' };
    let kinds: String = batch.iter().map(kind).collect();
    command.arg(stripes.len()).arg(micros(context.retention)).arg(kinds);
    let mut ticket = Vec::new();
    for entry in batch {
        match entry {
            Request::Release(release) => {
                command.arg(&digits(release.ticket));
            }
            Request::Acquire(acquire) => {
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
            _ => {}
        }
    }
}

fn encode_renewals(context: &Context, command: &mut Cmd, batch: &[&Request]) {
    command.arg(batch.len());
    add_records(&context.keyspace, command, batch.iter().map(|entry| object_of(entry)));
    command.arg(0).arg(micros(context.retention)).arg("n".repeat(batch.len()));
    for Renew { ticket, lease, .. } in contents(batch) {
        command.arg(&digits(*ticket)).arg(micros(lease.get()));
    }
}
