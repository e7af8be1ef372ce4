//! The fast scripts of mutexes.

use redis::Cmd;
use stanchion_core::spi::{Exchange, Exchanged, Kept, Renew};

use super::super::call::Step;
use super::super::permits::shortest;
use super::super::{Context, RedisSteps};
use super::{FastAnswers, FastPath, add_records, exchanged, milliseconds, ticket_into};
use crate::durability::Writes;
use crate::keys::{digits, stripe_of};

impl RedisSteps {
    /// Releases and locks; `None` for an entry that needs a full script.
    pub(super) async fn exchange_mutexes(&self, batch: &[Exchange]) -> FastAnswers<Exchanged> {
        let step = Step::whole(&self.scripts().fast_path, FastPath::object, encode_exchange);
        let step = step.within(Exchange::longest_lease(batch));
        self.call_fast(&step, batch, |entry, reply| exchanged(entry, reply.sole()?, 1)).await
    }

    /// Renews; `None` for an entry that needs the full script.
    pub(super) async fn renew_mutexes(&self, batch: &[Renew]) -> FastAnswers<Kept> {
        let step = Step::whole(&self.scripts().fast_renew, FastPath::object, encode_renewals);
        let step = step.within(shortest(batch)).writing(Writes::Renewals);
        self.call_fast(&step, batch, |_, reply| Ok((reply.sole()? == 1).then_some(Kept::Yes))).await
    }
}

/// Adds what the fast script is given.
fn encode_exchange(Context { keyspace, .. }: &Context, command: &mut Cmd, batch: &[&Exchange]) {
    let (mut releases, mut acquires, mut stripes) = (Vec::new(), Vec::new(), Vec::new());
    let mut kinds = String::with_capacity(batch.len());
    for entry in batch {
        match entry {
            Exchange::Release(release) => {
                kinds.push('r');
                releases.push(release);
            }
            Exchange::Acquire(acquire) => {
                kinds.push('a');
                let stripe = stripe_of(&acquire.object);
                let place = stripes.iter().position(|known| *known == stripe).unwrap_or_else(|| {
                    stripes.push(stripe);
                    stripes.len() - 1
                });
                acquires.push((acquire, place));
            }
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

fn encode_renewals(Context { keyspace, .. }: &Context, command: &mut Cmd, batch: &[&Renew]) {
    command.arg(batch.len());
    add_records(keyspace, command, batch.iter().map(|entry| &entry.object));
    for entry in batch {
        command.arg(&digits(entry.ticket)).arg(milliseconds(entry.lease));
    }
}
