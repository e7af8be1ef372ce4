//! The fast script of semaphores.

use redis::{Cmd, RedisWrite};
use stanchion_core::Result;
use stanchion_core::clock::micros;
use stanchion_core::spi::{Renew, Request, Response, contents};

use super::super::Context;
use super::super::reply::Reply;
use super::super::step::Step;
use super::{AcquireTicket, FastStep, Letters, Marks, exchanged, object_of, renewed};
use crate::durability::Writes;
use crate::keys::digits;
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
    let marks = Marks::of(batch);
    command.arg(marks.count() + batch.len());
    marks.add_keys(&context.keyspace, command);
    batch.iter().for_each(|entry| context.keyspace.add_record(object_of(entry), command));
    command.arg(marks.count()).arg(micros(context.retention));
    command.write_arg_fmt(Letters(batch));
    for entry in batch {
        match entry {
            Request::Release(release) => {
                command.arg(&digits(release.ticket));
            }
            Request::Acquire(acquire) => {
                command.arg(marks.place_of(acquire));
                command.write_arg_fmt(AcquireTicket(acquire, acquire.check.letter()));
                command.arg(acquire.weight).arg(micros(acquire.lease.get())).arg(acquire.limit);
            }
            _ => {}
        }
    }
}

fn encode_renewals(context: &Context, command: &mut Cmd, batch: &[&Request]) {
    command.arg(batch.len());
    batch.iter().for_each(|entry| context.keyspace.add_record(object_of(entry), command));
    command.arg(0).arg(micros(context.retention));
    command.write_arg_fmt(Letters(batch));
    for Renew { ticket, lease, .. } in contents(batch) {
        command.arg(&digits(*ticket)).arg(micros(lease.get()));
    }
}
