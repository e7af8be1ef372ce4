//! `cargo xtask faults`: workers use the networked stores while everything breaks that the contract calls safe.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use stanchion_conformance::campaign::{Fault, Outcome as RoundOutcome, Round, Site, Stand};
use stanchion_conformance::servers::install::{self, Permission};

use crate::workspace::root;
use crate::{Outcome, worker};

/// Rounds are no shorter than this, nor longer.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(20);
/// What a round takes beside the time in which faults strike.
const AROUND: Duration = Duration::from_secs(7);

/// What stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    seed: Option<u64>,
    minutes: u64,
    stands: Vec<Stand>,
    faults: Vec<Fault>,
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

    /// So that each fault has its turn in the time, and then again.
    fn round_length(&self) -> Duration {
        let share = Duration::from_secs(60 * self.minutes) / u32::try_from(self.faults.len()).unwrap_or(1);
        share.saturating_sub(AROUND).clamp(SHORT, LONG)
    }
}

/// Runs rounds on all stores at once until the time is over, each fault once at least; prints a line for each round, the
/// sums, and what was violated. Histories of rounds with violations are kept.
pub(crate) fn run(options: &Options) -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    if !worker::build()? {
        return Ok(false);
    }
    let seed = options.seed.unwrap_or_else(any_seed);
    println!(
        "seed {seed}: the same plan by `cargo xtask faults --seed {seed} --minutes {}`",
        options.minutes
    );
    let folder = root().join("target").join("faults").join(seed.to_string());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = options
            .stands
            .iter()
            .map(|stand| {
                let folder = folder.join(stand.name());
                scope.spawn(move || rounds(options, *stand, seed, &folder))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().map_err(|_| "a campaign panicked".into()));
        ended.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()
    })?;
    let mut well = true;
    let mut all = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(outcomes) => all.extend(outcomes),
            Err(error) => {
                eprintln!("a campaign could not go on: {error}; what it wrote is in {}", folder.display());
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

#[expect(clippy::disallowed_methods, reason = "a seed that nobody chose")]
fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|now| now.as_secs()).unwrap_or_default()
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[expect(clippy::disallowed_methods, reason = "a stopwatch: no clock of the library is involved")]
fn rounds(options: &Options, stand: Stand, seed: u64, folder: &Path) -> Result<Vec<RoundOutcome>, Failed> {
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let length = options.round_length();
    let site = Site::start(stand)?;
    let mut outcomes = Vec::new();
    for pass in 0_u64.. {
        for (at, fault) in options.faults.iter().enumerate() {
            if pass > 0 && Instant::now() + length + AROUND > end {
                return Ok(outcomes);
            }
            let own = folder.join(format!("{fault}-{pass}"));
            let number = pass * 1_000 + u64::try_from(at)?;
            let round = Round::new(*fault, seed.wrapping_mul(1_000_003).wrapping_add(number), own.clone());
            let outcome = round.length(length).run(&site, &worker::command)?;
            println!("{outcome}");
            if outcome.report.is_clean() {
                fs::remove_dir_all(&own)?;
            } else {
                println!("{}: {}", own.display(), outcome.report);
            }
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
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
