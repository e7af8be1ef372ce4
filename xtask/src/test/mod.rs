//! `cargo xtask test`: the servers, the tests of the workspace, and the short tier of the fault
//! campaign.

mod beside;
mod events;
pub(crate) mod programs;
pub(crate) mod report;
pub(crate) mod side_by_side;
mod tiers;

use std::collections::HashSet;
use std::process::Stdio;

use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::cli::Test;
use crate::faults;
use crate::seed;
use crate::stage::Stages;
use crate::worker::Worker;
use beside::Loops;
use programs::{Built, Program, build, of_packages, workspace};
use report::{Counts, Report, counts_of_doc_tests};
use side_by_side::Job;
use tiers::Left;

/// The programs that take longest, with the number of their concurrent tests. They start in this
/// order, before all other programs, and end at about the same time.
const THREADS: [(&str, usize); 7] = [
    ("backend-postgres/it", 6),
    ("backend-redis/it", 3),
    ("backend-memory/it", 2),
    ("stanchion-cli/it", 1),
    ("backend-postgres/stanchion_postgres", 2),
    ("core/it", 2),
    ("campaign/it", 1),
];
/// The number of concurrent tests of each other program.
const USUAL_THREADS: usize = 1;

/// Parts of the names of tests that take at least half a minute, most of it waiting. They start
/// first, in a separate process: at the end of a program the processor would idle.
const LONG: [&str; 2] = ["lost_commands::", "rights::c21_every"];
/// Number of concurrent tests in such a process.
const LONG_THREADS: usize = 2;

/// Provides the servers, builds, tests and reports. The last line has the numbers of passed, failed
/// and skipped tests.
pub(crate) fn run(options: &Test) -> Outcome {
    let mut stages = Stages::default();
    let permission = if options.no_install { Permission::LookOnly } else { Permission::Install };
    stages.run("servers", || {
        install::ensure(permission, |command| println!("installing what is missing: {command}"))?;
        Ok(true)
    })?;
    let mut built = Built::default();
    let builds = stages.run("build", || {
        let outcome = build({
            let mut command = workspace("test");
            command.arg("--no-run");
            command
        })?;
        let well = outcome.is_some();
        built = outcome.unwrap_or_default();
        Ok(well)
    })?;
    if !builds {
        stages.summary();
        return Ok(false);
    }
    let first = seed::choose(options.seed);
    let mut well = true;
    let mut totals = Vec::new();
    for seed in (first..).take(usize::try_from(options.times)?) {
        let (total, is_well) = once(options, &built, seed, &mut stages)?;
        totals.push((seed, total));
        well &= is_well;
    }
    for (seed, Counts { passed, failed, skipped }) in totals.iter().filter(|_| totals.len() > 1) {
        println!("seed {seed}: {passed} passed, {failed} failed, {skipped} skipped");
    }
    Ok(well)
}

/// Runs the built programs once.
fn once(
    options: &Test,
    built: &Built,
    seed: u64,
    stages: &mut Stages,
) -> Result<(Counts, bool), Box<dyn std::error::Error>> {
    let tier = if options.full { "full" } else { "default" };
    println!("\nthe {tier} tier with seed {seed}: the same by `cargo xtask test --seed {seed}`");
    let loops = Loops::start(options.beside)?;
    let (jobs, left) = jobs(options, built, seed)?;
    let whole = options.filters.is_empty() && options.package.is_empty();
    let mut report = Report::default();
    let mut counts = Counts::default();
    if whole {
        stages.run("doc tests", || {
            counts = doc_tests()?;
            Ok(counts.failed == 0)
        })?;
    }
    stages.run("tests", || {
        report = Report::new(side_by_side::run(&jobs, seed), left, counts);
        Ok(report.is_well())
    })?;
    // Not beside other tests: its workers keep the processor busy, and show more the more they can
    // do.
    if let Some(worker) = built.worker.clone().filter(|_| whole).map(Worker) {
        let campaign = || faults::short_tier(&worker, seed, options.full);
        stages.run("faults", || campaign().map_err(|error| error as Box<dyn std::error::Error>))?;
    }
    drop(loops);
    let well = stages.summary();
    report.print();
    Ok((report.total(), well && report.is_well()))
}

/// Returns the jobs of each program, and the tests that are left to `--full` and to other seeds.
fn jobs(
    options: &Test,
    built: &Built,
    seed: u64,
) -> Result<(Vec<Job>, Vec<Left>), Box<dyn std::error::Error>> {
    let mut jobs = Vec::new();
    let mut left = Vec::new();
    for program in of_packages(built.programs.clone(), &options.package)? {
        let mut tests = program.list()?;
        let names: HashSet<_> = tests.iter().collect();
        if names.len() < tests.len() {
            return Err(format!("{} has two tests of one name", program.name()).into());
        }
        if !options.filters.is_empty() {
            tests.retain(|test| options.filters.iter().any(|filter| test.contains(filter)));
        } else if !options.full {
            left.extend(tiers::draw(&program.package, &mut tests, seed));
        }
        let (long, others): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| takes_long(test));
        let threads = threads_of(&program);
        for (tests, threads) in [(long, LONG_THREADS), (others, threads)] {
            if !tests.is_empty() {
                let threads = threads.min(tests.len());
                jobs.push(Job { program: program.clone(), tests, threads, environment: Vec::new() });
            }
        }
    }
    // Jobs of long tests first, then by program: the run does not have to wait at the end for a job
    // that started early.
    jobs.sort_by_key(|job| (!job.tests.iter().all(|test| takes_long(test)), weight(&job.program)));
    Ok((jobs, left))
}

fn takes_long(test: &str) -> bool {
    LONG.iter().any(|part| test.contains(part))
}

/// Returns the program's position in [`THREADS`]; programs that take long come first.
fn weight(program: &Program) -> usize {
    let name = program.name();
    THREADS.iter().position(|(own, _)| *own == name).unwrap_or(THREADS.len())
}

fn threads_of(program: &Program) -> usize {
    THREADS.get(weight(program)).map_or(USUAL_THREADS, |(_, threads)| *threads)
}

/// Runs the doc tests, which only cargo can build.
fn doc_tests() -> Result<Counts, String> {
    let mut command = workspace("test");
    let output = command.arg("--doc").stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut counts = counts_of_doc_tests(&text);
    if !output.status.success() {
        println!("FAILED: doc tests\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
        counts.failed = counts.failed.max(1);
    }
    Ok(counts)
}
