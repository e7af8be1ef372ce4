//! `cargo xtask faults`: workers use the networked stores under every fault that the contract calls
//! safe.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use stanchion_campaign::history;
use stanchion_campaign::rounds::{CampaignServer, Deployment, Fault, Outcome as RoundOutcome, Round};
use stanchion_testbed::servers::install::{self, Permission};
use stanchion_testbed::servers::temporary_folder;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Outcome;
use crate::cli::Faults;
use crate::seed;
use crate::worker::Worker;
use crate::workspace::target;

/// Minimum and maximum length of a round.
const MINIMUM_ROUND: Duration = Duration::from_secs(3);
const MAXIMUM_ROUND: Duration = Duration::from_secs(20);
/// Time that a round takes in addition to its faults.
const OVERHEAD: Duration = Duration::from_secs(7);

/// The tier of a full test run: the minimum grants for each kind of object and the minimum faults
/// on each store, and the maximum time.
const ALL: Tier = Tier { grants: 500, strikes: 300, at_most: Duration::from_secs(8 * 60), each_fault: true };
/// The default tier, with a random part of the faults.
const DRAWN: Tier = Tier { grants: 50, strikes: 20, at_most: Duration::from_secs(90), each_fault: false };
/// Length of each round of a tier.
const ROUND: Duration = Duration::from_secs(5);

/// The campaign's requirements as a part of the tests.
#[derive(Clone, Copy, Debug)]
struct Tier {
    grants: usize,
    strikes: u64,
    at_most: Duration,
    /// Whether each fault must run once, however long that takes.
    each_fault: bool,
}

/// The plan of a campaign, and its end.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    deployments: Vec<Deployment>,
    faults: Vec<Fault>,
    round: Duration,
    at_most: Duration,
    /// With a tier, a store is done once the tier's requirements are met. Without, rounds take all
    /// the time.
    tier: Option<Tier>,
}

impl Faults {
    fn deployments(&self) -> Vec<Deployment> {
        if self.store.is_empty() { Deployment::ALL.to_vec() } else { self.store.clone() }
    }

    fn faults(&self) -> Vec<Fault> {
        if self.fault.is_empty() { Fault::ALL.to_vec() } else { self.fault.clone() }
    }

    fn plan(&self, seed: u64) -> Plan {
        Plan {
            seed,
            deployments: self.deployments(),
            faults: self.faults(),
            round: self.round_length(),
            at_most: Duration::from_secs(60 * self.minutes),
            tier: None,
        }
    }

    /// Returns a length with which each fault runs in the given time, and then again.
    fn round_length(&self) -> Duration {
        let faults = self.faults();
        let count = |deployment: &Deployment| faults.iter().filter(|fault| deployment.has(**fault)).count();
        let most = self.deployments().iter().map(count).max().unwrap_or(1).max(1);
        let share = Duration::from_secs(60 * self.minutes) / u32::try_from(most).unwrap_or(1);
        share.saturating_sub(OVERHEAD).clamp(MINIMUM_ROUND, MAXIMUM_ROUND)
    }
}

/// Builds the worker and runs a campaign; or checks a kept history again.
pub(crate) fn run(options: &Faults) -> Outcome {
    if let Some(folder) = &options.check {
        let report = history::check(folder)?;
        println!("{report}");
        return Ok(report.is_clean());
    }
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    let Some(worker) = Worker::build()? else { return Ok(false) };
    let seed = seed::choose(options.seed);
    if options.short {
        return short_tier(&worker, seed, false).map_err(|error| error as Box<dyn std::error::Error>);
    }
    println!(
        "seed {seed}: the same plan by `cargo xtask faults --seed {seed} --minutes {}`",
        options.minutes
    );
    options.plan(seed).run(&worker).map_err(|error| error as Box<dyn std::error::Error>)
}

/// Runs the campaign as a part of the tests: as many faults as fit into the time, in an order drawn
/// from the seed. With `full`, runs each fault, and then again until the tier's requirements are
/// met. The servers must be installed.
pub(crate) fn short_tier(worker: &Worker, seed: u64, full: bool) -> Result<bool, Failed> {
    let tier = if full { ALL } else { DRAWN };
    let mut faults = Fault::ALL.to_vec();
    faults.sort_by_key(|fault| xxh3_64_with_seed(fault.name().as_bytes(), seed));
    let plan = Plan {
        seed,
        deployments: Deployment::ALL.into_iter().filter(|deployment| tier.has(*deployment)).collect(),
        faults,
        round: ROUND,
        at_most: tier.at_most,
        tier: Some(tier),
    };
    plan.run(worker)
}

impl Tier {
    /// Returns whether a deployment is a part of the tier. Its servers and workers share two cores
    /// with the others.
    fn has(self, deployment: Deployment) -> bool {
        self.each_fault || deployment != Deployment::RedisCluster
    }

    fn has_seen_enough(self, deployment: Deployment, outcomes: &[RoundOutcome]) -> bool {
        let grants: usize = outcomes.iter().map(RoundOutcome::grants).sum();
        let strikes: u64 = outcomes.iter().map(|outcome| outcome.strikes).sum();
        grants >= self.grants * deployment.kinds().len() && strikes >= self.strikes
    }
}

impl Plan {
    /// Runs rounds on all stores concurrently until the time is over, each fault at least once.
    /// Prints a line for each round, the sums, and the violations. Keeps the histories of rounds
    /// with violations.
    fn run(&self, worker: &Worker) -> Result<bool, Failed> {
        let folder = target()?.join("faults").join(self.seed.to_string());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        // A worker waits for each of its lines, so a busy disk would look like a slow store.
        let scratch = temporary_folder("faults")?;
        let outcomes = thread::scope(|scope| {
            let threads: Vec<_> = self
                .deployments
                .iter()
                .map(|deployment| {
                    let (scratch, folder) = (scratch.path(), folder.join(deployment.name()));
                    scope.spawn(move || self.rounds(*deployment, worker, scratch, &folder))
                })
                .collect();
            let ended =
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a campaign panicked".into()));
            ended.collect::<Result<Vec<_>, Failed>>()
        });
        drop(scratch);
        let outcomes = outcomes?;
        let mut well = true;
        let mut all = Vec::new();
        for (deployment, outcome) in self.deployments.iter().zip(outcomes) {
            match outcome {
                Ok(outcomes) => {
                    if self.tier.is_some_and(|tier| !tier.has_seen_enough(*deployment, &outcomes)) {
                        println!("{deployment}: not enough was seen within {:?}", self.at_most);
                        well = false;
                    }
                    all.extend(outcomes);
                }
                Err(error) => {
                    println!("a campaign failed: {error}; its histories are in {}", folder.display());
                    well = false;
                }
            }
        }
        print_sums(&all);
        let violations: usize = all.iter().map(|outcome| outcome.report.violations.len()).sum();
        if violations > 0 {
            println!("{violations} violations; the histories are in {}", folder.display());
        }
        Ok(well && violations == 0)
    }

    #[expect(clippy::disallowed_methods, reason = "a stopwatch: no clock of the library is involved")]
    fn rounds(
        &self,
        deployment: Deployment,
        worker: &Worker,
        scratch: &Path,
        folder: &Path,
    ) -> Result<Vec<RoundOutcome>, Failed> {
        let faults: Vec<_> = self.faults.iter().filter(|fault| deployment.has(**fault)).collect();
        if faults.is_empty() {
            println!("{deployment}: none of these faults can strike it");
            return Ok(Vec::new());
        }
        let end = Instant::now() + self.at_most;
        let server = CampaignServer::start(deployment)?;
        let mut outcomes = Vec::new();
        for pass in 0_u64.. {
            for (at, fault) in faults.iter().enumerate() {
                let enough = self.tier.is_some_and(|tier| tier.has_seen_enough(deployment, &outcomes));
                let must = pass == 0 && self.tier.is_none_or(|tier| tier.each_fault);
                let done = pass > 0 && enough || Instant::now() + self.round + OVERHEAD > end;
                if done && !must {
                    return Ok(outcomes);
                }
                let name = format!("{fault}-{pass}");
                let own = scratch.join(deployment.name()).join(&name);
                let number = pass * 1_000 + u64::try_from(at)?;
                let round =
                    Round::new(**fault, self.seed.wrapping_mul(1_000_003).wrapping_add(number), own.clone());
                let outcome = round.length(self.round).run(&server, &|| worker.command());
                let outcome =
                    outcome.or_else(|error| keep(&own, &folder.join(&name)).map(|()| Err(error))?)?;
                println!("{outcome}");
                if !outcome.report.is_clean() {
                    let kept = folder.join(&name);
                    keep(&own, &kept)?;
                    println!("{}: {}", kept.display(), outcome.report);
                }
                fs::remove_dir_all(&own)?;
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Moves the history of a round to the folder of kept histories.
fn keep(history: &Path, kept: &Path) -> io::Result<()> {
    fs::create_dir_all(kept)?;
    for entry in history.read_dir()? {
        let entry = entry?;
        fs::copy(entry.path(), kept.join(entry.file_name()))?;
    }
    Ok(())
}

fn print_sums(outcomes: &[RoundOutcome]) {
    println!(
        "\n{:<18} {:<11} {:>8} {:>8} {:>8} {:>10}",
        "store", "kind", "calls", "grants", "faults", "violations"
    );
    for deployment in Deployment::ALL {
        let own = || outcomes.iter().filter(move |outcome| outcome.deployment == deployment);
        for kind in deployment.kinds() {
            let sum = |of: &dyn Fn(&RoundOutcome) -> usize| own().map(of).sum::<usize>();
            if own().next().is_some() {
                println!(
                    "{deployment:<18} {:<11} {:>8} {:>8} {:>8} {:>10}",
                    format!("{kind:?}"),
                    sum(&|outcome| outcome.report.tally(*kind).calls),
                    sum(&|outcome| outcome.report.tally(*kind).grants),
                    sum(&|outcome| outcome.report.tally(*kind).faults),
                    sum(&|outcome| outcome.report.tally(*kind).violations),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(line: &str) -> Faults {
        let words = ["cargo xtask", "faults"].into_iter().chain(line.split_whitespace());
        match Cli::parse_from(words).command {
            Command::Faults(options) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_campaign_is_of_everything_unless_it_is_narrowed() {
        let all = parsed("");
        assert_eq!((all.deployments().len(), all.faults().len()), (4, 27));
        let one = parsed("--store redis --fault holder-kill");
        assert_eq!((one.deployments(), one.faults()), (vec![Deployment::Redis], vec![Fault::HolderKill]));
    }

    #[test]
    fn each_fault_has_its_turn() {
        assert!(Fault::ALL.into_iter().all(|fault| Deployment::ALL.iter().any(|store| store.has(fault))));
        assert_eq!(parsed("--minutes 1").round_length(), MINIMUM_ROUND);
        assert_eq!(parsed("--minutes 60 --fault store-crash").round_length(), MAXIMUM_ROUND);
        let five = parsed("--minutes 5").round_length();
        assert!(five > MINIMUM_ROUND && five < MAXIMUM_ROUND, "{five:?}");
    }
}
