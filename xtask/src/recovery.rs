//! `cargo xtask recovery`: measures how long the store takes to serve calls again after a fault,
//! and compares with the contract.

use stanchion_campaign::recovery::{Sample, Table, measure};
use stanchion_campaign::rounds::{CampaignServer, Deployment};
use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::cli::Recovery;
use crate::worker::Worker;

/// Number of runs with `--quick`.
const QUICK: u32 = 2;
const LEGEND: &str = "\
Leases last 1 s, and 30 s where a wake-up gets lost. D is the deadline of a hold, P the poll floor (1 s at most), ε what
the contract leaves to scheduling (0.5 s). The worst time is the longest, or the shortest where it must not fall below.";

/// Runs all trials repeatedly, one store after the other, and prints a table. Returns `true` if
/// every time is within its bound.
pub(crate) fn run(options: &Recovery) -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    let Some(worker) = Worker::build()? else { return Ok(false) };
    let mut samples = Vec::new();
    let carried_out = trials(options, &worker, &mut samples);
    let table = Table::of(&samples);
    println!("\n{table}\n{LEGEND}");
    carried_out.map(|()| table.is_within())
}

fn trials(
    options: &Recovery,
    worker: &Worker,
    samples: &mut Vec<Sample>,
) -> Result<(), Box<dyn std::error::Error>> {
    let deployments = if options.store.is_empty() { Deployment::ALL.to_vec() } else { options.store.clone() };
    let runs = if options.quick { QUICK } else { options.runs };
    let servers = deployments
        .iter()
        .map(|deployment| CampaignServer::start(*deployment))
        .collect::<Result<Vec<_>, _>>()?;
    for run in 0..runs {
        for server in &servers {
            println!("run {} of {}: {}", run + 1, runs, server.deployment());
            let measured = measure(server, &|| worker.command(), run);
            samples.extend(measured.map_err(|error| error as Box<dyn std::error::Error>)?);
        }
    }
    Ok(())
}
