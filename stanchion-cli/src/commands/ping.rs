//! `ping`: does the store answer?

use clap::Args;
use serde_json::json;
use stanchion::spi::clock;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::url::Target;

/// Ask whether the store answers, and how long it takes
#[derive(Args, Clone, Debug)]
pub(crate) struct Ping {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn ping(options: &Ping, target: &Target) -> Result<Exit, Failure> {
    let store = target.open_to_look().await?;
    let start = clock::now();
    store.ping().await?;
    let micros = clock::micros(start.elapsed());
    if options.json {
        output::json(&json!({ "store": store.capabilities().store, "answered_us": micros }))?;
    } else {
        let (millis, rest) = (micros / 1_000, micros % 1_000 / 10);
        output::line(format_args!("{} answered in {millis}.{rest:02} ms", store.capabilities().store))?;
    }
    Ok(Exit::DONE)
}
