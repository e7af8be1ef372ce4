//! `inspect`: one name and its holders.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use stanchion::spi::limiter::ExactQuota;
use stanchion::{Decision, Inspection, LimiterOptions, Quota, Store, StoreExt as _};

use super::shown;
use crate::exit::{Exit, Failure};
use crate::output::{json, line, message};
use crate::url::Target;
use crate::values::{self, rounded};

/// Show the holders of a name, their ages, and the number of waiters
///
/// Ages and leases are by the store's clock, the times at which they began by the clock of this
/// machine, in UTC. The ticket names the hold to `unlock --ticket`. The waiters' labels are not
/// known: a store keeps only their order. A waiter that died counts until its lease is over.
#[derive(Args, Clone, Debug)]
pub(crate) struct Inspect {
    /// The name
    #[arg(value_parser = values::name)]
    name: String,
    /// What kind of object it names; kinds do not see each other
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    kind: Kind,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Mutex,
    Semaphore,
    WaitGroup,
    Limiter,
}

impl Kind {
    pub(super) fn of_store(self) -> stanchion::Kind {
        match self {
            Self::Mutex => stanchion::Kind::Mutex,
            Self::Semaphore => stanchion::Kind::Semaphore,
            Self::WaitGroup => stanchion::Kind::WaitGroup,
            Self::Limiter => stanchion::Kind::Limiter,
        }
    }
}

pub(crate) async fn inspect(options: &Inspect, target: &Target) -> Result<Exit, Failure> {
    let store = target.open_to_look().await?;
    if options.kind == Kind::Limiter {
        let state = look_at_limiter(&*store, &options.name).await?;
        if state.is_none() {
            hint_at_other_kinds(&*store, &options.name, options.kind).await;
        }
        return show_limiter(options, state);
    }
    let state = store.inspect(options.kind.of_store(), &options.name).await?;
    if !is_in_use(&state) {
        hint_at_other_kinds(&*store, &options.name, options.kind).await;
    }
    if options.json {
        json(&value(options, &state))?;
        return Ok(Exit::DONE);
    }
    line(heading(options, &state))?;
    for holder in &state.holders {
        line(format_args!("  {}", shown::text(holder)))?;
    }
    if state.waiters > 0 {
        line(format_args!("  {} waiting; the store does not keep their labels", state.waiters))?;
    }
    Ok(Exit::DONE)
}

/// Says on standard error if a name that is not in use as the kind meant is in use as another,
/// since kinds do not see each other, or as none.
pub(super) async fn hint_at_other_kinds(store: &dyn Store, name: &str, meant: Kind) {
    let mut is_used = false;
    for kind in [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter] {
        let in_use = match kind {
            Kind::Limiter => look_at_limiter(store, name).await.is_ok_and(|state| state.is_some()),
            _ => store.inspect(kind.of_store(), name).await.is_ok_and(|state| is_in_use(&state)),
        };
        is_used |= in_use;
        if kind != meant && in_use {
            let option = word(kind).replace(' ', "-");
            message(format_args!("a {} of this name is in use: --kind {option}", word(kind)));
        }
    }
    if !is_used {
        message(
            "nobody uses this name in this namespace (`namespace=` in the URL); `stanchion ls` lists the names that are used",
        );
    }
}

fn is_in_use(state: &Inspection) -> bool {
    !state.holders.is_empty() || state.waiters > 0
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Semaphore => "semaphore",
        Kind::WaitGroup => "wait group",
        Kind::Limiter => "limiter",
    }
}

fn heading(options: &Inspect, state: &Inspection) -> String {
    let (kind, name) = (word(options.kind), &options.name);
    let held: u32 = state.holders.iter().map(|holder| holder.weight).sum();
    match (options.kind, state.limit) {
        (Kind::Mutex, _) if held == 0 => format!("{kind} {name:?}: free"),
        (Kind::Mutex, _) => format!("{kind} {name:?}: held"),
        (Kind::WaitGroup, Some(limit)) => format!("{kind} {name:?}: {held} members, {limit} at most"),
        (Kind::WaitGroup, None) => format!("{kind} {name:?}: {held} members"),
        (_, Some(limit)) => format!("{kind} {name:?}: {held} of {limit} permits held"),
        (_, None) => format!("{kind} {name:?}: {held} permits held"),
    }
}

fn value(options: &Inspect, state: &Inspection) -> Value {
    json!({
        "kind": word(options.kind).replace(' ', "_"),
        "name": options.name,
        "limit": state.limit,
        "waiters": state.waiters,
        "holders": state.holders.iter().map(shown::value).collect::<Vec<_>>(),
    })
}

/// Returns the state of a limiter, and its quota; `None` if none is stored: then the answer is that
/// of the handle's own quota.
async fn look_at_limiter(store: &dyn Store, name: &str) -> stanchion::Result<Option<(Decision, ExactQuota)>> {
    for burst in [1, 2] {
        let own = Quota::per(1, Duration::from_secs(1)).burst(burst);
        let limiter = store.limiter(name, LimiterOptions::new(own))?;
        let stored = limiter.quota().await?;
        if stored != own.validate()? {
            return Ok(Some((limiter.peek().await?, stored)));
        }
    }
    Ok(None)
}

fn show_limiter(options: &Inspect, state: Option<(Decision, ExactQuota)>) -> Result<Exit, Failure> {
    let name = &options.name;
    if options.json {
        let state = state.map(|(decision, quota)| {
            json!({
                "amount": quota.amount(),
                "period_us": quota.period(),
                "limit": decision.limit,
                "remaining": decision.remaining,
                "reset_after_ms": shown::millis(decision.reset_after),
            })
        });
        json(&json!({ "kind": word(options.kind).replace(' ', "_"), "name": name, "state": state }))?;
        return Ok(Exit::DONE);
    }
    line(match state {
        None => format!("limiter {name:?}: not in use"),
        Some((Decision { limit, remaining, reset_after, .. }, quota)) => format!(
            "limiter {name:?}: {remaining} of {limit} tokens left, full in {}; {quota}",
            rounded(reset_after)
        ),
    })?;
    Ok(Exit::DONE)
}
