//! `cargo xtask faults`: workers use the networked stores while everything breaks that the contract calls safe.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use stanchion_campaign::history;
use stanchion_campaign::rounds::{Fault, Outcome as RoundOutcome, Round, Site, Stand};
use stanchion_testbed::servers::install::{self, Permission};

use crate::workspace::root;
use crate::{Outcome, worker};

/// Rounds are no shorter than this, nor longer.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(20);
/// What a round takes beside the time in which faults strike.
const AROUND: Duration = Duration::from_secs(7);

/// The short tier: what it must have seen on each store, grants for each kind of object, and the longest it may take.
const GRANTS: usize = 500;
const STRIKES: u64 = 300;
const AT_MOST: Duration = Duration::from_secs(8 * 60);
/// Its seed, so that each run has the same plan, and how long each of its rounds strikes.
const SEED: u64 = 1;
const ROUND: Duration = Duration::from_secs(5);

/// What stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    seed: Option<u64>,
    minutes: u64,
    stands: Vec<Stand>,
    faults: Vec<Fault>,
}

/// What a campaign does, and when it has done enough.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    stands: Vec<Stand>,
    faults: Vec<Fault>,
    round: Duration,
    at_most: Duration,
    /// What is to be seen on each store; it ends then, after a first turn of each fault. Without, it takes all the time.
    enough: Option<fn(Stand, &[RoundOutcome]) -> bool>,
}

impl Options {
    /// Reads `[--seed S] [--minutes M] [--store NAME]… [--fault NAME]…`; `None` when it is something else.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { seed: None, minutes: 5, stands: Vec::new(), faults: Vec::new() };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--seed" => options.seed = Some(value.parse().ok()?),
                "--minutes" => options.minutes = value.parse().ok().filter(|minutes| *minutes > 0)?,
                "--store" => options.stands.push(Stand::named(value)?),
                "--fault" => options.faults.push(Fault::named(value)?),
                _ => return None,
            }
        }
        if options.stands.is_empty() {
            options.stands = Stand::ALL.to_vec();
        }
        if options.faults.is_empty() {
            options.faults = Fault::ALL.to_vec();
        }
        Some(options)
    }

    fn plan(&self, seed: u64) -> Plan {
        Plan {
            seed,
            stands: self.stands.clone(),
            faults: self.faults.clone(),
            round: self.round_length(),
            at_most: Duration::from_secs(60 * self.minutes),
            enough: None,
        }
    }

    /// So that each fault has its turn in the time, and then again.
    fn round_length(&self) -> Duration {
        let share = Duration::from_secs(60 * self.minutes) / u32::try_from(self.faults.len()).unwrap_or(1);
        share.saturating_sub(AROUND).clamp(SHORT, LONG)
    }
}

/// Builds the worker and runs a campaign.
pub(crate) fn run(options: &Options) -> Outcome {
    if !prepare()? {
        return Ok(false);
    }
    let seed = options.seed.unwrap_or_else(any_seed);
    println!(
        "seed {seed}: the same plan by `cargo xtask faults --seed {seed} --minutes {}`",
        options.minutes
    );
    options.plan(seed).run()
}

/// Reads the history of a round again and says what it shows.
pub(crate) fn check(folder: &str) -> Outcome {
    let report = history::check(folder)?;
    println!("{report}");
    Ok(report.is_clean())
}

/// Builds the worker and runs the short tier.
pub(crate) fn short() -> Outcome {
    Ok(prepare()? && short_tier()?)
}

fn prepare() -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    Ok(worker::build()?)
}

/// The part of the test command: each fault on each store, and then again until enough was granted and broken. The
/// servers and the worker are there.
pub(crate) fn short_tier() -> Outcome {
    let plan = Plan {
        seed: SEED,
        stands: Stand::ALL.to_vec(),
        faults: Fault::ALL.to_vec(),
        round: ROUND,
        at_most: AT_MOST,
        enough: Some(|stand, outcomes| {
            let grants: usize = outcomes.iter().map(RoundOutcome::grants).sum();
            let strikes: u64 = outcomes.iter().map(|outcome| outcome.strikes).sum();
            grants >= GRANTS * stand.kinds().len() && strikes >= STRIKES
        }),
    };
    plan.run()
}

impl Plan {
    /// Runs rounds on all stores at once until the time is over, each fault once at least; prints a line for each round,
    /// the sums, and what was violated. Histories of rounds with violations are kept.
    fn run(&self) -> Outcome {
        let folder = root().join("target").join("faults").join(self.seed.to_string());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let desk = desk();
        let outcomes = thread::scope(|scope| {
            let threads: Vec<_> = self
                .stands
                .iter()
                .map(|stand| {
                    let (desk, folder) = (&desk, folder.join(stand.name()));
                    scope.spawn(move || self.rounds(*stand, desk, &folder))
                })
                .collect();
            let ended =
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a campaign panicked".into()));
            ended.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()
        });
        if desk.exists() {
            fs::remove_dir_all(&desk)?;
        }
        let outcomes = outcomes?;
        let mut well = true;
        let mut all = Vec::new();
        for (stand, outcome) in self.stands.iter().zip(outcomes) {
            match outcome {
                Ok(outcomes) => {
                    if self.enough.is_some_and(|enough| !enough(*stand, &outcomes)) {
                        println!("{stand}: not enough was seen within {:?}", self.at_most);
                        well = false;
                    }
                    all.extend(outcomes);
                }
                Err(error) => {
                    println!("a campaign could not go on: {error}; what it wrote is in {}", folder.display());
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
    fn rounds(&self, stand: Stand, desk: &Path, folder: &Path) -> Result<Vec<RoundOutcome>, Failed> {
        let end = Instant::now() + self.at_most;
        let site = Site::start(stand)?;
        let mut outcomes = Vec::new();
        for pass in 0_u64.. {
            for (at, fault) in self.faults.iter().enumerate() {
                let enough = self.enough.is_some_and(|enough| enough(stand, &outcomes));
                if pass > 0 && (enough || Instant::now() + self.round + AROUND > end) {
                    return Ok(outcomes);
                }
                let name = format!("{fault}-{pass}");
                let own = desk.join(stand.name()).join(&name);
                let number = pass * 1_000 + u64::try_from(at)?;
                let round =
                    Round::new(*fault, self.seed.wrapping_mul(1_000_003).wrapping_add(number), own.clone());
                let outcome = round.length(self.round).run(&site, &worker::command);
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

#[expect(clippy::disallowed_methods, reason = "a seed that nobody chose")]
fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|now| now.as_secs()).unwrap_or_default()
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Where histories are written. In memory where that can be had: a worker waits for each of its lines, and a disk that is
/// busy for a second would be taken for a store that is.
fn desk() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    folder.join(format!("stanchion-faults-{}", process::id()))
}

/// Moves the history of a round to where it is kept.
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
    for stand in Stand::ALL {
        let own = || outcomes.iter().filter(move |outcome| outcome.stand == stand);
        for kind in stand.kinds() {
            let sum = |of: &dyn Fn(&RoundOutcome) -> usize| own().map(of).sum::<usize>();
            if own().next().is_some() {
                println!(
                    "{stand:<18} {:<11} {:>8} {:>8} {:>8} {:>10}",
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
    use super::*;

    fn parsed(line: &str) -> Option<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_campaign_is_of_everything_unless_it_is_narrowed() {
        let all = parsed("").unwrap();
        assert_eq!((all.stands.len(), all.faults.len(), all.seed), (3, 14, None));
        let one = parsed("--seed 7 --minutes 1 --store redis --fault holder-kill").unwrap();
        assert_eq!((one.stands, one.faults), (vec![Stand::Redis], vec![Fault::HolderKill]));
        for wrong in ["--seed", "--minutes 0", "--store oracle", "--fault flood", "redis"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_fault_has_its_turn() {
        assert_eq!(parsed("--minutes 1").unwrap().round_length(), SHORT);
        assert_eq!(parsed("--minutes 60 --fault store-crash").unwrap().round_length(), LONG);
        let five = parsed("--minutes 5").unwrap().round_length();
        assert!(five > Duration::from_secs(10) && five < LONG, "{five:?}");
    }
}
