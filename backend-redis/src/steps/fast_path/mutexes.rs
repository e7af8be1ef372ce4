//! The fast scripts of mutexes.

use redis::Cmd;
use stanchion_core::spi::{Renew, Request, contents};

use super::super::Context;
use super::super::call::Step;
use super::{FastStep, add_records, exchanged, milliseconds, object_of, renewed, ticket_into};
use crate::durability::Writes;
use crate::keys::{digits, stripe_of};
use crate::script::Scripts;

/// Releases and locks.
pub(super) fn exchange(scripts: &Scripts) -> FastStep<'_> {
    let step = Step::whole(&scripts.fast_path, object_of, encode_exchange);
    FastStep { step, read: |entry, reply| exchanged(entry, reply.sole()?, 1), most: usize::MAX }
}

pub(super) fn renewals(scripts: &Scripts) -> FastStep<'_> {
    let step = Step::whole(&scripts.fast_renew, object_of, encode_renewals).writing(Writes::Renewals);
    FastStep { step, read: renewed, most: usize::MAX }
}

/// Adds what the fast script is given.
fn encode_exchange(Context { keyspace, .. }: &Context, command: &mut Cmd, batch: &[&Request]) {
    let (mut releases, mut acquires, mut stripes) = (Vec::new(), Vec::new(), Vec::new());
    let mut kinds = String::with_capacity(batch.len());
    for entry in batch {
        match entry {
            Request::Release(release) => {
                kinds.push('r');
                releases.push(release);
            }
            Request::Acquire(acquire) => {
                kinds.push('a');
                let stripe = stripe_of(&acquire.object);
                let place = stripes.iter().position(|known| *known == stripe).unwrap_or_else(|| {
                    stripes.push(stripe);
                    stripes.len() - 1
                });
                acquires.push((acquire, place));
            }
            _ => {}
        }
    }
    command.arg(stripes.len() + releases.len() + acquires.len());
    for stripe in &stripes {
        command.arg(keyspace.mark(*stripe));
    }
    let released = releases.iter().map(|release| &release.object);
    add_records(keyspace, command, released.chain(acquires.iter().map(|(acquire, _)| &acquire.object)));
    command.arg(stripes.len()).arg(releases.len()).arg(kinds);
    for release in releases {
        command.arg(&digits(release.ticket));
    }
    let mut ticket = Vec::new();
    for (acquire, place) in acquires {
        ticket_into(&mut ticket, acquire, "");
        command.arg(place + 1).arg(milliseconds(acquire.lease)).arg(&ticket);
    }
}

fn encode_renewals(Context { keyspace, .. }: &Context, command: &mut Cmd, batch: &[&Request]) {
    command.arg(batch.len());
    add_records(keyspace, command, batch.iter().map(|entry| object_of(entry)));
    for Renew { ticket, lease, .. } in contents(batch) {
        command.arg(&digits(*ticket)).arg(milliseconds(*lease));
    }
}
