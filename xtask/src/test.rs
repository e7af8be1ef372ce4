//! `cargo xtask test`: the servers, every test of the workspace, and the short tier of the campaign of faults.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};

use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::faults;
use crate::libtest::Report;
use crate::stage::Stages;
use crate::workspace::{BUT_BENCHES, FEATURES, cargo};

pub(crate) const TEST: [&str; 2] = ["test", "--locked"];
/// Most tests wait for leases and servers most of the time.
const THREADS: &str = "4";
const BUILD: [&str; 2] = ["--no-run", "--message-format=json-render-diagnostics"];

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
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
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
    let mut packages = HashMap::new();
    let built = stages.run("build", || build(options, &mut packages))?;
    let mut report = Report::new(packages);
    if built {
        stages.run("tests", || test(options, &mut report))?;
        if options.arguments.is_empty() {
            stages.run("faults", faults::short_tier)?;
        }
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

/// Builds the test programs, and learns which package's folder each one is from: their names do not tell.
fn build(options: &Options, packages: &mut HashMap<String, String>) -> Outcome {
    let programs = programs(&mut options.command())?;
    let well = programs.is_some();
    packages.extend(programs.into_iter().flatten().map(|program| (program.file_name(), program.package)));
    Ok(well)
}

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: String,
    /// The name of its package's folder.
    pub(crate) package: String,
}

impl Program {
    pub(crate) fn file_name(&self) -> String {
        self.path.rsplit('/').next().unwrap_or(&self.path).to_owned()
    }

    /// From a message of `cargo` about it.
    fn read(message: &str) -> Option<Self> {
        let path = json_text(message, "executable")?.to_owned();
        let package = json_text(message, "manifest_path")?.rsplit('/').nth(1)?.to_owned();
        Some(Self { path, package })
    }
}

/// Builds the test programs of a `cargo test`, without running them; `None` if they do not build.
pub(crate) fn programs(command: &mut Command) -> io::Result<Option<Vec<Program>>> {
    let mut child = command.args(BUILD).stdout(Stdio::piped()).spawn()?;
    let messages = child.stdout.take().map(BufReader::new);
    let messages = messages.into_iter().flat_map(BufRead::lines);
    let programs = messages.filter_map(|message| message.map(|message| Program::read(&message)).transpose());
    let programs = programs.collect::<io::Result<_>>()?;
    Ok(child.wait()?.success().then_some(programs))
}

fn json_text<'a>(message: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("\"{field}\":\""))?;
    rest.split('"').next()
}

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
    use stanchion_testbed::servers::install::Permission;

    use super::{Options, Program};

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

    #[test]
    fn a_test_program_is_known_by_its_package() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/src/backend-redis/Cargo.toml","target":{"name":"suite"},"executable":"/src/target/debug/deps/suite-0a1b","fresh":true}"#;
        let program = Program::read(message).unwrap();
        assert_eq!((program.file_name().as_str(), program.package.as_str()), ("suite-0a1b", "backend-redis"));
        assert_eq!(Program::read(&message.replace("\"/src/target/debug/deps/suite-0a1b\"", "null")), None);
    }
}
