//! Commands for contributors: `cargo xtask <command>`.

mod bench;
mod check;
mod containers;
mod coverage;
mod faults;
mod file_lengths;
mod libtest;
mod postgres_schema;
mod recovery;
mod servers;
mod stage;
mod test;
mod worker;
mod workspace;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <command>

  test [--no-install] [-- ARGS]  provide Redis, Postgres and PgBouncer, then run every test; ARGS are added to `cargo test`
  bench [STORE]... [--quick] [--only MEASURE]... [--side NAME]...
                                 this library, its peers and the raw limit in turn; full runs make BENCHMARKS.md
  check                          formatting, lints, documentation and the length of files
  containers                     a part of the conformance suite on a Redis and a Postgres in containers; starts a Docker
                                 daemon where none answers, and makes images where none can be pulled
  containers --build             what that builds, and no more
  coverage                       the contract's clauses and their test cases, store by store
  faults [--seed S] [--minutes M] [--store NAME] [--fault NAME]
                                 workers on the networked stores under every safe fault, and what their histories show;
                                 5 minutes on all stores unless it is narrowed
  faults --short                 the part of it that `test` runs
  faults --check FOLDER          what the kept history of a round shows
  recovery [--store NAME] [--runs N] [--quick]
                                 how long it takes until things go on after a fault, beside what the contract allows;
                                 10 runs on all stores, 2 if it is to be quick
  servers                        run a Redis and a Postgres until Ctrl-C or the end of input
  postgres-schema [--schema NAME] [--role ROLE] [--after VERSION]
                                 print the SQL that makes the schema on Postgres, with the rights that ROLE needs;
                                 only the migrations after VERSION, where there is a schema already
";
const WRONG_USE: u8 = 2;

/// What a command ends with: whether all was well, or what kept it from finding out.
type Outcome = Result<bool, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    };
    let outcome = match (command.as_str(), rest) {
        ("test", rest) => match test::Options::parse(rest) {
            Some(options) => test::run(&options),
            None => return wrong_use(),
        },
        ("bench", rest) => match bench::Options::parse(rest) {
            Some(options) => bench::run(&options),
            None => return wrong_use(),
        },
        ("check", []) => check::run(),
        ("containers", []) => containers::run(),
        ("containers", [flag]) if flag == "--build" => containers::build(),
        ("coverage", []) => coverage::run(),
        ("faults", [flag]) if flag == "--short" => faults::short(),
        ("faults", [flag, folder]) if flag == "--check" => faults::check(folder),
        ("faults", rest) => match faults::Options::parse(rest) {
            Some(options) => faults::run(&options),
            None => return wrong_use(),
        },
        ("recovery", rest) => match recovery::Options::parse(rest) {
            Some(options) => recovery::run(&options),
            None => return wrong_use(),
        },
        ("servers", []) => servers::run(),
        ("postgres-schema", rest) => match postgres_schema::Options::parse(rest) {
            Some(options) => postgres_schema::run(&options),
            None => return wrong_use(),
        },
        ("help" | "--help" | "-h", []) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => return wrong_use(),
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

fn wrong_use() -> ExitCode {
    eprint!("{HELP}");
    ExitCode::from(WRONG_USE)
}
