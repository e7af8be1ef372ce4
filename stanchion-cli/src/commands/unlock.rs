//! `unlock`: frees a lock by force.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use stanchion::{Inspection, StoreExt as _, Ticket};

use super::inspect::{self, Kind};
use super::shown;
use crate::exit::{Exit, Failure};
use crate::output::{flush_messages, line, message, printable};
use crate::url::Target;
use crate::values::{self, operator};

/// Free a lock by force
///
/// The holder learns that its hold is lost; a command that runs under the lock by `stanchion run`
/// is ended. Until then, a third of its lease at most, the holder goes on while another may already
/// hold the lock: a resource that matters must check the fencing token.
///
/// With --yes, give the --ticket that `inspect` shows: without it, the hold of a later holder is
/// freed as well.
///
/// Exit code: 0 freed, 1 nothing was freed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Unlock {
    /// The name of the lock
    #[arg(value_parser = values::name)]
    name: String,
    /// A mutex, or a semaphore of which one hold is freed
    #[arg(long, value_enum, default_value_t = Lock::Mutex)]
    kind: Lock,
    /// Free the hold with this ticket, as `inspect` shows it, and no other; needed for a semaphore
    #[arg(long, value_name = "TICKET", value_parser = ticket, required_if_eq("kind", "semaphore"))]
    ticket: Option<Ticket>,
    /// Name of the caller, in the log of this program's library (host, process id and $USER if not
    /// given)
    #[arg(long, value_name = "TEXT", value_parser = values::label)]
    label: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lock {
    Mutex,
    Semaphore,
}

/// Reads a ticket.
pub(super) fn ticket(text: &str) -> Result<Ticket, String> {
    text.parse().map_err(|_| "a ticket is 32 hexadecimal digits".to_owned())
}

pub(crate) async fn unlock(options: &Unlock, target: &Target) -> Result<Exit, Failure> {
    if !options.yes && !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "there is no terminal to ask at: give --yes, and the --ticket that `inspect` shows".to_owned(),
        ));
    }
    let store = target.open().await?;
    let kind = if options.kind == Lock::Mutex { Kind::Mutex } else { Kind::Semaphore };
    let state = store.inspect(kind.of_store(), &options.name).await?;
    let Some(ticket) = chosen(options, &state) else {
        message(format_args!("nothing was freed: {:?} is not held, or not by that ticket", options.name));
        inspect::hint_at_other_kinds(&*store, &options.name, kind).await;
        return Ok(Exit::NO);
    };
    if !options.yes && !agreed(options, &state, ticket)? {
        message("nothing was freed");
        return Ok(Exit::NO);
    }
    let label = options.label.clone().unwrap_or_else(operator);
    if store.force_free(kind.of_store(), &options.name, ticket, &label).await? {
        line(format_args!("freed {:?}{}", options.name, held_by(&state, ticket)))?;
        message("its holder is told within a third of its lease, and may go on until then");
        return Ok(Exit::DONE);
    }
    message(format_args!("{:?} is not held by that holder any more", options.name));
    Ok(Exit::NO)
}

/// Returns the ticket of the hold that is to be freed, if the store knows it; the outer `None` if
/// there is no such hold.
fn chosen(options: &Unlock, state: &Inspection) -> Option<Option<Ticket>> {
    let mut holders = state.holders.iter();
    match options.ticket {
        None => holders.next().map(|holder| holder.ticket),
        Some(ticket) => holders.any(|holder| holder.ticket == Some(ticket)).then_some(Some(ticket)),
    }
}

fn held_by(state: &Inspection, ticket: Option<Ticket>) -> String {
    let holder = state.holders.iter().find(|holder| holder.ticket == ticket);
    holder.map_or_else(String::new, |holder| format!(", held by {}", shown::text(holder)))
}

/// Asks at the terminal.
fn agreed(options: &Unlock, state: &Inspection, ticket: Option<Ticket>) -> Result<bool, Failure> {
    flush_messages();
    let question = format!("Free {:?}{}? [y/N] ", options.name, held_by(state, ticket));
    let asked = io::stderr().write_all(printable(&question).as_bytes());
    let mut answer = String::new();
    asked.and_then(|()| io::stdin().lock().read_line(&mut answer)).map_err(Failure::Output)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
