//! `cargo xtask recovery`: how long it takes until things go on after a fault, beside what the contract allows.

use stanchion_campaign::recovery::{Sample, Table, measure};
use stanchion_campaign::rounds::{Site, Stand};
use stanchion_testbed::servers::install::{self, Permission};

use crate::{Outcome, worker};

const RUNS: u32 = 10;
const QUICK: u32 = 2;
const LEGEND: &str = "\
Leases last 1 s, and 30 s where a wake-up gets lost. D is the deadline of a hold, P the poll floor (1 s at most), ε what
the contract leaves to scheduling (0.5 s). The worst time is the longest, or the shortest where it must not fall below.";

/// What stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    runs: u32,
    stands: Vec<Stand>,
}

impl Options {
    /// Reads `[--store NAME]… [--runs N] [--quick]`; `None` when it is something else.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { runs: RUNS, stands: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--quick" => options.runs = QUICK,
                "--runs" => options.runs = rest.next()?.parse().ok().filter(|runs| *runs > 0)?,
                "--store" => options.stands.push(Stand::named(rest.next()?)?),
                _ => return None,
            }
        }
        if options.stands.is_empty() {
            options.stands = Stand::ALL.to_vec();
        }
        Some(options)
    }
}

/// Runs all trials again and again, the stores in turn, and prints a table; well when every time is within its bound.
pub(crate) fn run(options: &Options) -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    if !worker::build()? {
        return Ok(false);
    }
    let mut samples = Vec::new();
    let carried_out = trials(options, &mut samples);
    let table = Table::of(&samples);
    println!("\n{table}\n{LEGEND}");
    carried_out.map(|()| table.is_within())
}

fn trials(options: &Options, samples: &mut Vec<Sample>) -> Result<(), Box<dyn std::error::Error>> {
    let sites = options.stands.iter().map(|stand| Site::start(*stand)).collect::<Result<Vec<_>, _>>()?;
    for run in 0..options.runs {
        for site in &sites {
            println!("run {} of {}: {}", run + 1, options.runs, site.stand());
            let measured = measure(site, &worker::command, run);
            samples.extend(measured.map_err(|error| error as Box<dyn std::error::Error>)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn ten_runs_on_all_stores_unless_it_is_narrowed() {
        assert_eq!(parsed(""), Some(Options { runs: 10, stands: Stand::ALL.to_vec() }));
        assert_eq!(parsed("--quick"), Some(Options { runs: 2, stands: Stand::ALL.to_vec() }));
        let two = Options { runs: 3, stands: vec![Stand::PostgresSessions, Stand::Redis] };
        assert_eq!(parsed("--store postgres-sessions --runs 3 --store redis"), Some(two));
        for wrong in ["--runs", "--runs 0", "--runs many", "--store oracle", "--store", "redis"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
