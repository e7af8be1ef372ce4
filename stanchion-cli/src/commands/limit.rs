//! `limit`: asks a limiter.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use stanchion::spi::limiter::ExactQuota;
use stanchion::{Decision, Error, Limiter, LimiterOptions, OnMismatch, Quota};

use super::shown::millis;
use crate::exit::{Exit, Failure};
use crate::output::{json, line};
use crate::url::Target;
use crate::values::{self, Rate, rounded};

/// Take tokens of a rate limiter; the exit code says whether they were there
///
/// Exit code: 0 admitted, 1 refused (78 if the limiter is in use with another quota: --set changes
/// that for everybody).
#[derive(Args, Clone, Debug)]
pub(crate) struct Limit {
    /// The name of the limiter
    #[arg(value_parser = values::name)]
    name: String,
    /// The rate, such as 50/s, 100/min or 10/500ms
    #[arg(long, value_name = "N/TIME", value_parser = values::rate, required_unless_present = "reset")]
    per: Option<Rate>,
    /// How many tokens may be taken at once (that of one period if not given)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,
    /// How many tokens to take; 0 only asks
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["set", "reset"])]
    cost: u64,
    /// Take nothing: make this rate that of the limiter, for everybody, until it was idle for an
    /// hour
    #[arg(long, conflicts_with_all = ["reset", "wait"])]
    set: bool,
    /// Take nothing: fill the limiter, and forget its reservations
    #[arg(long, conflicts_with_all = ["per", "burst", "wait"])]
    reset: bool,
    /// Wait for the tokens, at most this long; refused at once if they are not there by then
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    wait: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn limit(options: &Limit, target: &Target) -> Result<Exit, Failure> {
    let Some(per) = options.per else { return reset(options, target).await };
    let quota = per.quota(options.burst);
    let (settings, exact) = (LimiterOptions::new(quota), quota.validate()?);
    exact.check_cost(options.cost)?;
    let store = target.open().await?;
    let limiter = store.limiter(&options.name, settings)?;
    if options.set {
        limiter.set_quota(quota).await?;
        return changed(options, &format!("{:?} admits {exact}", options.name));
    }
    if options.cost == 0 {
        compare(&*limiter, exact).await?;
    }
    let Some(wait) = options.wait else {
        let decision = limiter.allow_n(options.cost).await?;
        return told(options, decision);
    };
    let admitted = limiter.wait_n_for(options.cost, wait).await?;
    if options.json {
        json(&json!({ "admitted": admitted }))?;
    } else {
        line(if admitted { "admitted" } else { "refused" })?;
    }
    Ok(if admitted { Exit::DONE } else { Exit::NO })
}

async fn reset(options: &Limit, target: &Target) -> Result<Exit, Failure> {
    let store = target.open().await?;
    // Its own quota stays: a reset compares none.
    let any = LimiterOptions::new(Quota::per_second(1)).on_mismatch(OnMismatch::Adopt);
    store.limiter(&options.name, any)?.reset().await?;
    changed(options, &format!("{:?} is full", options.name))
}

fn changed(options: &Limit, what: &str) -> Result<Exit, Failure> {
    if options.json {
        json(&json!({ "changed": true }))?
    } else {
        line(what)?
    }
    Ok(Exit::DONE)
}

/// Refuses a quota that is not the store's. The library compares when tokens are taken, and not
/// where they are only asked for.
async fn compare(limiter: &dyn Limiter, given: ExactQuota) -> stanchion::Result<()> {
    let stored = limiter.quota().await?;
    if stored == given { Ok(()) } else { Err(Error::mismatch("quota", given, stored)) }
}

fn told(options: &Limit, decision: Decision) -> Result<Exit, Failure> {
    let Decision { allowed, limit, remaining, retry_after, reset_after, .. } = decision;
    if options.json {
        json(&json!({
            "admitted": allowed,
            "limit": limit,
            "remaining": remaining,
            "retry_after_ms": retry_after.map(millis),
            "reset_after_ms": millis(reset_after),
        }))?;
    } else {
        let again = retry_after.map(|time| format!(", again in {}", rounded(time))).unwrap_or_default();
        let word = if allowed { "admitted" } else { "refused" };
        line(format_args!("{word}: {remaining} of {limit} tokens left{again}"))?;
    }
    Ok(if allowed { Exit::DONE } else { Exit::NO })
}
