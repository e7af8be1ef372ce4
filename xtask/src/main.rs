//! Commands for contributors: `cargo xtask <command>`.

mod archive;
mod bench;
mod check;
mod cli;
mod comments;
mod containers;
mod coverage;
mod faults;
mod file_lengths;
mod log_events;
mod path;
mod postgres_schema;
mod published;
mod recovery;
mod seed;
mod servers;
mod stage;
mod test;
mod worker;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// The result of a command: whether all checks passed, or an error that kept it from finding out.
type Outcome = Result<bool, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Api(options) => published::check_api(options.write),
        Command::Check => check::run(),
        Command::Release => published::release::run(),
        Command::Archive => archive::run(),
        Command::Containers => containers::run(),
        Command::Coverage => coverage::run(),
        Command::Faults(options) => faults::run(&options),
        Command::Path(options) => path::run(&options),
        Command::Recovery(options) => recovery::run(&options),
        Command::Servers => servers::run(),
        Command::PostgresSchema(options) => postgres_schema::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let causes = std::iter::successors(error.source(), |&cause| cause.source());
            causes.for_each(|cause| eprintln!("  because: {cause}"));
            ExitCode::FAILURE
        }
    }
}
