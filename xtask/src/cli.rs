//! The command line: every command and option in one place.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use stanchion_campaign::rounds::{Deployment, Fault};

use crate::workspace::STORES;

/// Commands for contributors.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Provide the servers, build, and run the tests: the default tier, or all of them
    Test(Test),
    /// Measure this library, its peers and the raw limit in turn; full runs make docs/benchmarks.md
    Bench(Bench),
    /// Compare the public interface of each published crate with its listing
    Api(Api),
    /// Check formatting, lints, documentation, public interfaces and the length of files
    Check,
    /// Check that the crates can be published: features, packages, licences, and what `check` says
    /// of their docs
    Release,
    /// Build the program `stanchion` for this machine, and pack it with licences, manual and
    /// completions
    Archive,
    /// Run a part of the conformance suite on a Redis and a Postgres in containers
    Containers,
    /// Print the contract's clauses and their test cases, store by store
    Coverage,
    /// Run workers on the networked stores under every safe fault, and check their histories
    Faults(Faults),
    /// Measure the way of an uncontended call to the client library of Redis, and its allocations
    Path(Path),
    /// Measure how long the store takes to serve calls again after a fault, and compare with the
    /// contract
    Recovery(Recovery),
    /// Run a Redis and a Postgres until Ctrl-C or the end of input
    Servers,
    /// Print the SQL that creates the schema on Postgres, with the rights that a role needs
    PostgresSchema(PostgresSchema),
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Api {
    /// Write the listings anew instead
    #[arg(long)]
    pub(crate) write: bool,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Test {
    /// Run every test, on every deployment, and the campaign with every fault; needed for a release
    #[arg(long)]
    pub(crate) full: bool,
    /// Draw the slices of the default tier and the faults from this number
    #[arg(long, env = SEED_VARIABLE)]
    pub(crate) seed: Option<u64>,
    /// Run this many endless loops beside the tests
    #[arg(long, default_value_t = 0, value_name = "LOOPS")]
    pub(crate) beside: usize,
    /// Run the tests this many times, each with the next seed
    #[arg(long, default_value_t = 1)]
    pub(crate) times: u64,
    /// Fail where a server is missing, rather than install it
    #[arg(long)]
    pub(crate) no_install: bool,
    /// Run the tests of this package only
    #[arg(long, short)]
    pub(crate) package: Vec<String>,
    /// Run the tests whose names contain one of these only
    pub(crate) filters: Vec<String>,
}

/// The environment variable with the seed of all random choices of tests.
pub(crate) const SEED_VARIABLE: &str = "STANCHION_SEED";

#[derive(Args, Clone, Debug)]
pub(crate) struct Bench {
    /// The stores to measure; the default is all
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(STORES))]
    pub(crate) stores: Vec<String>,
    /// Use short slices; their figures are not kept
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run only the measures whose names begin with this
    #[arg(long, value_name = "MEASURE")]
    pub(crate) only: Vec<String>,
    /// Measure only the sides whose names begin with this
    #[arg(long, value_name = "NAME")]
    pub(crate) side: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Faults {
    /// Draw the plan from this number
    #[arg(long, env = SEED_VARIABLE)]
    pub(crate) seed: Option<u64>,
    /// Stop after this time
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) minutes: u64,
    /// Run on this store only
    #[arg(long, value_name = "NAME", value_parser = deployment)]
    pub(crate) store: Vec<Deployment>,
    /// Inject this fault only
    #[arg(long, value_name = "NAME", value_parser = fault)]
    pub(crate) fault: Vec<Fault>,
    /// Run only the part for the default tier of the tests
    #[arg(long, conflicts_with_all = ["minutes", "store", "fault", "check"])]
    pub(crate) short: bool,
    /// Check the kept history of a round again
    #[arg(long, value_name = "FOLDER")]
    pub(crate) check: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Path {
    /// Print each frame, too
    #[arg(long)]
    pub(crate) show: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Recovery {
    /// Run on this store only
    #[arg(long, value_name = "NAME", value_parser = deployment)]
    pub(crate) store: Vec<Deployment>,
    /// Run each trial this many times
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Run each trial twice
    #[arg(long, conflicts_with = "runs")]
    pub(crate) quick: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PostgresSchema {
    /// The name of the schema
    #[arg(long, default_value = "stanchion")]
    pub(crate) schema: String,
    /// The role that the application uses
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// Print only the migrations after this version, for an existing schema
    #[arg(long, default_value_t = 0, value_name = "VERSION")]
    pub(crate) after: i64,
}

fn deployment(name: &str) -> Result<Deployment, String> {
    let names = Deployment::ALL.map(Deployment::name).join(", ");
    Deployment::named(name).ok_or(format!("one of {names}"))
}

fn fault(name: &str) -> Result<Fault, String> {
    let names = Fault::ALL.map(Fault::name).join(", ");
    Fault::named(name).ok_or(format!("one of {names}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(line: &str) -> Option<Command> {
        let words = std::iter::once("cargo xtask").chain(line.split_whitespace());
        Cli::try_parse_from(words).ok().map(|cli| cli.command)
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "tests",
            "test --no-instal",
            "bench mysql",
            "bench --only",
            "faults --minutes 0",
            "faults --store oracle",
            "faults --fault flood",
            "faults --short --store redis",
            "recovery --runs 0",
            "recovery --runs 2 --quick",
            "postgres-schema --after x",
        ] {
            assert!(parsed(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn options_may_be_given_again_and_mixed() {
        let Some(Command::Faults(faults)) = parsed("faults --seed 7 --store redis --fault holder-kill")
        else {
            panic!("it parses")
        };
        assert_eq!((faults.seed, faults.minutes), (Some(7), 5));
        assert_eq!((faults.store, faults.fault), (vec![Deployment::Redis], vec![Fault::HolderKill]));
        let Some(Command::Test(test)) = parsed("test --beside 2 --times 5 -p stanchion-redis queue") else {
            panic!("it parses")
        };
        assert_eq!((test.beside, test.times, test.full), (2, 5, false));
        assert_eq!(
            (test.package, test.filters),
            (vec!["stanchion-redis".to_owned()], vec!["queue".to_owned()])
        );
    }
}
