//! `wait-group`: members that other processes wait for.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use stanchion::{ErrorKind, Outcome, Ticket, Ttl, WaitGroupOptions};

use super::unlock::ticket;
use crate::exit::{Exit, Failure};
use crate::output::{json, line, message};
use crate::url::Target;
use crate::values;

/// Add members to a wait group, finish them, and wait for all
#[derive(Args, Clone, Debug)]
pub(crate) struct WaitGroup {
    /// The name of the group
    #[arg(value_parser = values::name)]
    name: String,
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Add a member, and print its ticket, by which any process can finish it
    Add {
        /// How long the member lives: it counts as expired if it is not finished by then (100ms to
        /// 24h)
        #[arg(long, value_name = "TIME", value_parser = values::member_ttl, default_value = "1h")]
        ttl: Duration,
        /// What `inspect` shows of the member
        #[arg(long, value_name = "TEXT", value_parser = values::label)]
        label: Option<String>,
    },
    /// Finish a member
    Done {
        /// The ticket that `add` printed
        #[arg(value_parser = ticket)]
        ticket: Ticket,
    },
    /// Wait until no member is left
    ///
    /// Exit code: 0 if all members finished, 1 if some expired or were abandoned, 124 if the time
    /// is over.
    Wait {
        /// Wait at most this long; without, as long as it takes
        #[arg(long, value_name = "TIME", value_parser = values::time)]
        wait: Option<Duration>,
    },
    /// Print the number of members
    Count,
}

pub(crate) async fn wait_group(options: &WaitGroup, target: &Target) -> Result<Exit, Failure> {
    let store = target.open().await?;
    let open = |settings| store.wait_group(&options.name, settings);
    match &options.action {
        Action::Add { ttl, label } => {
            let mut settings = WaitGroupOptions::new();
            settings.hold.label = label.as_deref().map(Into::into);
            let lease = Ttl::new(*ttl)?;
            let member = open(settings)?.add().await?;
            let ticket = member.detach(lease).await?.ticket().to_string();
            if options.json { json(&json!({ "ticket": ticket }))? } else { line(ticket)? }
        }
        Action::Done { ticket } => match open(WaitGroupOptions::new())?.done(*ticket).await {
            Err(error) if error.kind() == ErrorKind::Lost => {
                message(format_args!("{:?} has no such member", options.name));
                return Ok(Exit::NO);
            }
            done => done?,
        },
        Action::Wait { wait } => {
            let group = open(WaitGroupOptions::new())?;
            let outcome = match wait {
                None => Some(group.wait().await?),
                Some(limit) => group.wait_for(*limit).await?,
            };
            return told(options, outcome);
        }
        Action::Count => {
            let count = open(WaitGroupOptions::new())?.count().await?;
            if options.json { json(&json!({ "count": count }))? } else { line(count)? }
        }
    }
    Ok(Exit::DONE)
}

fn told(options: &WaitGroup, outcome: Option<Outcome>) -> Result<Exit, Failure> {
    let Some(outcome) = outcome else {
        message(format_args!("the time to wait for {:?} is over", options.name));
        return Ok(Exit::TIME_OVER);
    };
    let Outcome { finished, abandoned, expired, .. } = outcome;
    if options.json {
        json(&json!({ "finished": finished, "abandoned": abandoned, "expired": expired }))?;
    } else {
        line(format_args!("{finished} finished, {abandoned} abandoned, {expired} expired"))?;
    }
    Ok(if outcome.is_success() { Exit::DONE } else { Exit::NO })
}
