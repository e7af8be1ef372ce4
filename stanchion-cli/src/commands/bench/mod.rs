//! `bench`: how fast locks and limiters are on this store, from this machine.

mod measure;
mod times;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use stanchion::Ticket;

use self::measure::{alone, decisions, hand_overs, pings};
use self::times::Times;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::url::Target;
use crate::values;

/// Measure this store from this machine: round trip, lock, hand-over, limiter
///
/// Four measures, one after the other: a round trip; a lock and its release that nobody else wants;
/// the hand-over of a lock from one connected client to another that waits for it; a decision of a
/// limiter. Each makes one request at a time, on a name of its own that nobody else uses, which the
/// store forgets after its retention time. It loads the store as one busy client does.
#[derive(Args, Clone, Debug)]
pub(crate) struct Bench {
    /// How long each measure takes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = length)]
    time: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads the length of a measure.
fn length(text: &str) -> Result<Duration, String> {
    let time = values::time(text)?;
    let is_sensible = (Duration::from_millis(100)..=Duration::from_secs(600)).contains(&time);
    if is_sensible { Ok(time) } else { Err("a measure takes between 100ms and 10m".to_owned()) }
}

pub(crate) async fn bench(options: &Bench, target: &Target) -> Result<Exit, Failure> {
    // A hand-over goes from one client to another, as between two machines.
    let (store, other) = (target.open().await?, target.open().await?);
    let name = format!("stanchion bench {}", Ticket::random());
    let time = options.time;
    let mut report =
        Report { is_json: options.json, store: store.capabilities().store, measures: Vec::new() };
    report.add("round_trip", "round trip", pings(&*store, time).await?)?;
    report.add("lock_and_release", "lock and release", alone(&*store, &name, time).await?)?;
    report.add("hand_over", "hand-over to a waiter", hand_overs([&*store, &*other], &name, time).await?)?;
    report.add("limiter_decision", "limiter decision", decisions(&*store, &name, time).await?)?;
    report.end()?;
    Ok(Exit::DONE)
}

/// The measures, shown as they come.
struct Report {
    is_json: bool,
    store: &'static str,
    measures: Vec<(&'static str, Value)>,
}

impl Report {
    fn add(&mut self, key: &'static str, title: &str, times: Times) -> Result<(), Failure> {
        if self.is_json {
            self.measures.push((key, times.value()));
            return Ok(());
        }
        output::line(format_args!("{title:<22} {times}"))
    }

    fn end(self) -> Result<(), Failure> {
        if !self.is_json {
            return Ok(());
        }
        let mut value = json!({ "store": self.store });
        for (key, measure) in self.measures {
            value[key] = measure;
        }
        output::json(&value)
    }
}
