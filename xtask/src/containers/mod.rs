//! `cargo xtask containers`: a part of the conformance suite on servers in containers.

mod daemon;
mod images;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use stanchion_conformance::suite;

use crate::Outcome;
use crate::libtest::Report;
use crate::stage::Stages;
use crate::test::{TEST, programs, stream};
use crate::workspace::{BUT_BENCHES, FEATURES, cargo, root};
use daemon::{Daemon, Found};
use images::Images;

/// Of each kind what it is for, and what depends on the server: its clock and its wake-ups.
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
/// The suites that use the shared servers, each of which is a program of its own.
const SUITES: [&str; 2] = ["--test=conformance", "--test=conformance_session"];
const STORES: [&str; 2] = ["backend-redis", "backend-postgres"];
/// Beside the rest of the workspace: only there is the feature on. What comes with other features than elsewhere is built
/// anew, and need not be fast.
const SERVERS: [&str; 6] = [
    "--locked",
    "--package=stanchion-conformance",
    "--features=containers",
    "--config=profile.dev.package.rustls.opt-level=0",
    "--config=profile.dev.package.rustls-webpki.opt-level=0",
    "--config=profile.dev.package.tokio.opt-level=0",
];

/// Builds what `run` builds, and ends: it takes long, and needs no daemon.
pub(crate) fn build() -> Outcome {
    Ok(programs_of_servers().status()?.success())
}

fn programs_of_servers() -> Command {
    let mut command = servers("build");
    command.args(["--example=containers", "--test=containers"]);
    command
}

/// Finds or starts a daemon, provides images, tries the containers themselves, and runs the cases on them.
///
/// Where no daemon answers and there is no right to start one, the last line says so after `skipped: `.
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
    // The one waits for the network much of the time, the other never.
    let mut building = Running::start(&mut programs_of_servers())?;
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
        let mut test = servers("test");
        own(test.arg("--test=containers"));
        stages.command("containers", &mut test)?;
        let mut report = Report::new(HashMap::new());
        let mut servers = servers("run");
        own(servers.args(["--quiet", "--example=containers"]));
        stages.run("cases", || cases(&mut servers, &mut report))?;
        report.print();
    }
    images.remove(&daemon)?;
    Ok(stages.summary())
}

/// A `cargo` command with the feature on. `cargo xtask check` leaves that out, so the lints are looked at here, where all
/// it depends on is built anyway.
fn servers(command: &str) -> Command {
    let mut command = cargo(&[command]);
    // In a folder of its own, it can be built beside the rest.
    command.args(SERVERS).env("CARGO_TARGET_DIR", root().join("target").join("containers"));
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // As `cargo clippy` hands over `-D warnings`.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

fn skipped(reason: &str) -> Outcome {
    println!(
        "skipped: no servers in containers, since no Docker daemon answers and none can be started here: {reason}"
    );
    Ok(true)
}

/// Runs the cases on the servers of that program.
fn cases(servers: &mut Command, report: &mut Report) -> Outcome {
    let mut test = cargo(&TEST);
    let Some(programs) = programs(test.args(["--workspace", BUT_BENCHES, FEATURES]).args(SUITES))? else {
        return Ok(false);
    };
    let suites: Vec<_> = programs
        .into_iter()
        .filter(|program| {
            STORES.contains(&program.package.as_str()) && program.file_name().starts_with("conformance")
        })
        .collect();
    *report =
        Report::new(suites.iter().map(|program| (program.file_name(), program.package.clone())).collect());
    let mut servers = Running::start(servers.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let urls = servers.urls()?;
    for program in &suites {
        report.read(&format!("     Running {} ({})\n", program.package, program.path));
        println!("\n{} in containers: {}", program.package, program.file_name());
        let mut command = Command::new(&program.path);
        command.arg("--exact").args(CASES).envs(urls.clone()).current_dir(root().join(&program.package));
        stream(command, report)?;
    }
    servers.end()?;
    let expected = CASES.len() * suites.len();
    println!(
        "{} of {expected} cases in {} suites passed on servers in containers",
        report.passed(),
        suites.len()
    );
    Ok(report.is_well() && report.passed() == expected && suites.len() == 3)
}

/// A program that is ended with this one.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// The URLs of the two servers, by the variables that tests take them from.
    fn urls(&mut self) -> Result<HashMap<String, String>, Box<dyn std::error::Error>> {
        let lines = self.0.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).take(2);
        let lines = lines.collect::<io::Result<Vec<_>>>()?;
        let pairs = lines.iter().filter_map(|line| line.split_once('='));
        let urls: HashMap<_, _> = pairs.map(|(name, url)| (name.to_owned(), url.to_owned())).collect();
        if urls.len() == 2 { Ok(urls) } else { Err("the servers in containers did not start".into()) }
    }

    /// By the end of its input.
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
