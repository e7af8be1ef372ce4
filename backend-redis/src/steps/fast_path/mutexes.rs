//! The fast scripts of mutexes.

use redis::{Cmd, RedisWrite};
use stanchion_core::spi::{Acquire, Ask, Release, Renew, Request, contents};

use super::super::Context;
use super::super::step::Step;
use super::{AcquireTicket, FastStep, Letters, Marks, exchanged, milliseconds, object_of, renewed};
use crate::durability::Writes;
use crate::keys::digits;
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
    let marks = Marks::of(batch);
    let releases = batch.iter().filter_map(|request| Release::of(request));
    let acquires = batch.iter().filter_map(|request| Acquire::of(request));
    command.arg(marks.count() + batch.len());
    marks.add_keys(keyspace, command);
    releases.clone().for_each(|release| keyspace.add_record(&release.object, command));
    acquires.clone().for_each(|acquire| keyspace.add_record(&acquire.object, command));
    command.arg(marks.count()).arg(releases.clone().count());
    command.write_arg_fmt(Letters(batch));
    for release in releases {
        command.arg(&digits(release.ticket));
    }
    for acquire in acquires {
        command.arg(marks.place_of(acquire)).arg(milliseconds(acquire.lease));
        command.write_arg_fmt(AcquireTicket(acquire, ""));
    }
}

fn encode_renewals(Context { keyspace, .. }: &Context, command: &mut Cmd, batch: &[&Request]) {
    command.arg(batch.len());
    batch.iter().for_each(|entry| keyspace.add_record(object_of(entry), command));
    for Renew { ticket, lease, .. } in contents(batch) {
        command.arg(&digits(*ticket)).arg(milliseconds(*lease));
    }
}
