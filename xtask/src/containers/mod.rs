//! `cargo xtask containers`: a part of the conformance suite on servers in containers.

mod daemon;
mod images;

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use stanchion_conformance::suite;

use crate::Outcome;
use crate::stage::Stages;
use crate::test::programs::{build as build_programs, workspace};
use crate::test::report::{Counts, Report};
use crate::test::side_by_side::{self, Job};
use crate::workspace::cargo;
use daemon::{Daemon, Found};
use images::Images;

/// For each kind: its main purpose, and the parts that depend on the server, its clock and its
/// wake-ups.
const CASES: [&str; 13] = [
    "as_mutex::m1_critical_sections_never_overlap",
    "as_mutex::m2_fencing_token_grows",
    "as_mutex::c8_an_abandoned_hold_is_free_after_its_lease",
    "as_mutex::c14_a_release_wakes_the_next_waiter",
    "semaphore::s1_live_permits_never_exceed_the_limit",
    "semaphore::s2_two_of_two_never_deadlock",
    "semaphore::s3_dead_holders_permits_come_back_once",
    "wait_group::w1_wait_returns_only_at_zero",
    "wait_group::w3_every_waiter_returns_at_zero",
    "wait_group::w4_wait_reports_how_the_members_ended",
    "limiter::l5_concurrent_calls_get_exact_decisions",
    "limiter::l2_retry_after_is_enough",
    "limiter::l6_places_are_in_the_order_of_reservation",
];
/// The suites that use the shared servers, by package.
const SUITES: [(&str, &[&str]); 2] = [
    ("stanchion-redis", &["conformance::server"]),
    ("stanchion-postgres", &["conformance::lease", "conformance::session"]),
];
/// Number of concurrent cases of a program.
const THREADS: usize = 4;
/// The build with the feature `containers`, separate from the rest of the workspace. Dependencies
/// with other features than elsewhere are built again, and need no optimization.
const SERVERS: [&str; 6] = [
    "--locked",
    "--package=stanchion-testbed",
    "--features=containers",
    "--config=profile.dev.package.rustls.opt-level=0",
    "--config=profile.dev.package.rustls-webpki.opt-level=0",
    "--config=profile.dev.package.tokio.opt-level=0",
];

fn programs_of_servers() -> io::Result<Command> {
    let mut command = servers("build")?;
    command.args(["--example=containers", "--test=containers"]);
    Ok(command)
}

/// Finds or starts a daemon, provides images, tries the containers themselves, and runs the cases
/// on them.
///
/// If no daemon answers and there is no right to start one, the last line says so after `skipped:
/// `.
pub(crate) fn run() -> Outcome {
    if let Some(unknown) = CASES.iter().find(|case| suite::find(case).is_none()) {
        return Err(format!("there is no case {unknown}").into());
    }
    let mut stages = Stages::default();
    let mut found = None;
    stages.run("daemon", || {
        found = Some(Daemon::find()?);
        Ok(true)
    })?;
    let daemon = match found {
        Some(Found::Daemon(daemon)) => daemon,
        Some(Found::NoRight(reason)) => return skipped(&reason),
        None => return Ok(false),
    };
    // One of them mostly waits for the network, the other never.
    let mut building = Running::start(&mut programs_of_servers()?)?;
    let mut provided = None;
    stages.run("images", || {
        provided = Some(Images::provide(&daemon)?);
        Ok(true)
    })?;
    let Some(images) = provided else { return Ok(false) };
    if let Some(reason) = images.refusal(&daemon)? {
        return skipped(&reason);
    }
    if stages.run("build", || Ok(building.0.wait()?.success()))? {
        let own = |command: &mut Command| {
            images.with(daemon.with(command));
        };
        let mut test = servers("test")?;
        own(test.arg("--test=containers"));
        stages.command("containers", &mut test)?;
        let mut report = Report::default();
        let mut servers = servers("run")?;
        own(servers.args(["--quiet", "--example=containers"]));
        stages.run("cases", || cases(&mut servers, &mut report))?;
        report.print();
    }
    images.remove(&daemon)?;
    Ok(stages.summary())
}

/// Returns a `cargo` command with the feature on. `cargo xtask check` leaves the feature out, so
/// this command checks its lints: here its dependencies are built anyway.
fn servers(command: &str) -> io::Result<Command> {
    let mut command = cargo(&[command]);
    command.args(SERVERS);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // `cargo clippy` passes `-D warnings` in this form.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    Ok(command)
}

fn skipped(reason: &str) -> Outcome {
    println!(
        "skipped: no servers in containers, since no Docker daemon answers and none can be started here: {reason}"
    );
    Ok(true)
}

/// Runs the cases on the servers of the program `servers`.
fn cases(servers: &mut Command, report: &mut Report) -> Outcome {
    let mut command = workspace("test");
    command.args(["--no-run", "--test=it"]);
    let Some(built) = build_programs(command)? else { return Ok(false) };
    let mut servers = Running::start(servers.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let environment = servers.urls()?;
    let mut jobs = Vec::new();
    for (package, suites) in SUITES {
        let program = built.programs.iter().find(|program| program.package == package);
        let program = program.ok_or(format!("no tests of {package}"))?.clone();
        let tests = suites.iter().flat_map(|suite| CASES.map(|case| format!("{suite}::{case}"))).collect();
        jobs.push(Job { program, tests, threads: THREADS, environment: environment.clone() });
    }
    let expected: usize = jobs.iter().map(|job| job.tests.len()).sum();
    *report = Report::new(side_by_side::run(&jobs, 0), Vec::new(), Counts::default());
    servers.end()?;
    let passed = report.total().passed;
    println!("{passed} of {expected} cases passed on servers in containers");
    Ok(report.is_well() && passed == expected)
}

/// A program that ends with this one.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Reads the URLs of the two servers, with the environment variables for tests.
    fn urls(&mut self) -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
        let lines = self.0.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).take(2);
        let lines = lines.collect::<io::Result<Vec<_>>>()?;
        let pairs = lines.iter().filter_map(|line| line.split_once('='));
        let urls: Vec<_> = pairs.map(|(name, url)| (name.to_owned(), url.to_owned())).collect();
        if urls.len() == 2 { Ok(urls) } else { Err("the servers in containers did not start".into()) }
    }

    /// Ends the program by the end of its input.
    fn end(&mut self) -> io::Result<()> {
        self.0.stdin = None;
        self.0.wait().map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
