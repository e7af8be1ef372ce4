//! `cargo xtask recovery`: how long it takes until things go on after a fault, beside what the contract allows.

use stanchion_campaign::recovery::{Sample, Table, measure};
use stanchion_campaign::rounds::{CampaignServer, Deployment};
use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::cli::Recovery;
use crate::worker::Worker;

/// How often each is measured where it is to be quick.
const QUICK: u32 = 2;
const LEGEND: &str = "\
Leases last 1 s, and 30 s where a wake-up gets lost. D is the deadline of a hold, P the poll floor (1 s at most), ε what
the contract leaves to scheduling (0.5 s). The worst time is the longest, or the shortest where it must not fall below.";

/// Runs all trials again and again, the stores in turn, and prints a table; well when every time is within its bound.
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
    let sites = deployments.iter().map(|deployment| CampaignServer::start(*deployment)).collect::<Result<Vec<_>, _>>()?;
    for run in 0..runs {
        for server in &sites {
            println!("run {} of {}: {}", run + 1, runs, server.deployment());
            let measured = measure(server, &|| worker.command(), run);
            samples.extend(measured.map_err(|error| error as Box<dyn std::error::Error>)?);
        }
    }
    Ok(())
}
