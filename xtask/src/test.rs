//! `cargo xtask test`: the servers, every test of the workspace, and the short tier of the campaign of faults.

use std::env;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::Command;

use stanchion_conformance::servers::install::{self, Permission};

use crate::Outcome;
use crate::faults;
use crate::libtest::Report;
use crate::programs::{Program, programs};
use crate::relay;
use crate::stage::Stages;
use crate::workspace::{BUT_BENCHES, FEATURES, cargo};

pub(crate) const TEST: [&str; 2] = ["test", "--locked"];
/// Most tests wait for leases and servers most of the time.
const THREADS: &str = "4";

/// What stands on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    permission: Permission,
    arguments: Vec<String>,
}

impl Options {
    /// Reads `[--no-install] [-- ARGS]`; `None` when it is something else.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let (permission, rest) = match arguments {
            [first, rest @ ..] if first == "--no-install" => (Permission::LookOnly, rest),
            rest => (Permission::Install, rest),
        };
        match rest {
            [] => Some(Self { permission, arguments: Vec::new() }),
            [dashes, rest @ ..] if dashes == "--" => Some(Self { permission, arguments: rest.to_vec() }),
            _ => None,
        }
    }

    /// The arguments that are for `cargo`, and those for the test programs.
    fn split(&self) -> (&[String], &[String]) {
        let end = self.arguments.iter().position(|argument| argument == "--");
        let (ours, theirs) = self.arguments.split_at(end.unwrap_or(self.arguments.len()));
        (ours, theirs.get(1..).unwrap_or_default())
    }

    /// `cargo test` for the whole workspace, or for the packages that the arguments choose.
    fn command(&self) -> Command {
        let (ours, _) = self.split();
        let mut command = cargo(&TEST);
        if env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", THREADS);
        }
        if ours.iter().any(|argument| argument == "-p" || argument.starts_with("--package")) {
            command.arg("--all-features");
        } else {
            command.args(["--workspace", BUT_BENCHES, FEATURES]);
        }
        command.args(ours);
        command
    }
}

/// Provides the servers, builds, tests and reports. The last line counts what passed, failed and was skipped.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut stages = Stages::default();
    stages.run("servers", || provide_servers(options.permission))?;
    let mut built = None;
    stages.run("build", || {
        built = programs(&mut options.command())?;
        Ok(built.is_some())
    })?;
    // A program's name does not tell which package's folder it is from.
    let packages =
        built.iter().flatten().map(|program| (program.file_name().to_owned(), program.package().to_owned()));
    let mut report = Report::new(packages.collect());
    match built {
        Some(programs) if options.arguments.is_empty() => {
            stages.run("tests", || test_all(options, programs, &mut report))?;
            stages.run("faults", faults::short_tier)?;
        }
        Some(_) => {
            stages.run("tests", || test(options, &mut report))?;
        }
        None => {}
    }
    let well = stages.summary();
    report.print();
    Ok(well && report.is_well())
}

fn provide_servers(permission: Permission) -> Outcome {
    let announce = |command: &str| println!("installing what is missing: {command}");
    install::ensure(permission, announce)?;
    Ok(true)
}

/// All programs, those that take longest first, and the examples in the documentation.
fn test_all(options: &Options, mut programs: Vec<Program>, report: &mut Report) -> Outcome {
    programs.sort_by_key(|program| (!program.file_name().starts_with("conformance"), program.clone()));
    let threads = env::var("RUST_TEST_THREADS").unwrap_or_else(|_| THREADS.to_owned());
    let well = relay::run(programs, &threads, report)?;
    let mut command = options.command();
    command.args(["--doc", "--no-fail-fast"]);
    Ok(stream(command, report)? && well && report.is_well())
}

/// What the arguments choose.
fn test(options: &Options, report: &mut Report) -> Outcome {
    let mut command = options.command();
    // A case that is a known gap passes and says so; without `--show-output` nobody would hear it.
    command.args(["--no-fail-fast", "--", "--show-output"]).args(options.split().1);
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let status = stream(command, report)?;
    Ok(status && report.is_well())
}

/// Passes the output on line by line and lets the report read along.
pub(crate) fn stream(mut command: Command, report: &mut Report) -> io::Result<bool> {
    // One pipe for both, since `cargo` names the programs on one stream and they report on the other.
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // It holds our copies of the writing end, without which the pipe would never end.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if report.read(&String::from_utf8_lossy(&line)) {
            io::stdout().write_all(&line)?;
        }
        line.clear();
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use stanchion_conformance::servers::install::Permission;

    use super::Options;

    fn parse(line: &str) -> Option<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_after_the_dashes_go_to_cargo() {
        let options = parse("--no-install -- --test suite -- --nocapture").unwrap();
        assert_eq!(options.permission, Permission::LookOnly);
        assert_eq!(options.arguments, ["--test", "suite", "--", "--nocapture"]);
        let (ours, theirs) = options.split();
        assert_eq!((ours.join(" "), theirs.join(" ")), ("--test suite".to_owned(), "--nocapture".to_owned()));
        let options = parse("-- some_name").unwrap();
        assert_eq!(options.split(), (&["some_name".to_owned()][..], &[][..]));
        assert_eq!(parse("").unwrap().permission, Permission::Install);
        assert_eq!(parse("--no-instal"), None);
        assert_eq!(parse("--test suite"), None);
    }
}
