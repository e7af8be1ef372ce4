//! One run over one store: what it is asked to do, what it has found, and where that goes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::table::Table;

/// How much shorter the slices of a quick run are, and how many rounds it has.
const QUICK: u32 = 4;
const QUICK_ROUNDS: usize = 3;

/// What a run has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The store.
    pub store: String,
    /// Where it ran.
    pub machine: Machine,
    /// Whether it was a quick one.
    pub quick: bool,
    /// What it ran with: the names and versions of the server and of the peers.
    pub versions: Vec<(String, String)>,
    /// Measure by measure.
    pub tables: Vec<Table>,
}

/// A run.
#[derive(Debug)]
pub struct Bench {
    report: Report,
    only: Vec<String>,
    sides: Vec<String>,
}

impl Bench {
    /// Reads `[--quick] [--only MEASURE]… [--side NAME]…` from the command line; cargo's own flags mean nothing here.
    #[must_use]
    pub fn from_arguments(store: &str, versions: Vec<(String, String)>) -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let values = |flag| {
            let pairs = arguments.windows(2).filter(|pair| pair[0] == flag);
            pairs.map(|pair| pair[1].clone()).collect()
        };
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let machine = Machine::this();
        println!("# {store}\n\n{machine}\n");
        Self {
            report: Report { store: store.to_owned(), machine, quick, versions, tables: Vec::new() },
            only: values("--only"),
            sides: values("--side"),
        }
    }

    /// Whether a measure is asked for.
    #[must_use]
    pub fn wants(&self, slug: &str) -> bool {
        let chosen = |only: &String| {
            slug.strip_prefix(only.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(chosen)
    }

    /// How long a slice is that is that long in a full run.
    #[must_use]
    pub fn slice(&self, full: Duration) -> Duration {
        if self.report.quick { full / QUICK } else { full }
    }

    /// How many there are of what is so many in a full run.
    #[must_use]
    pub fn count(&self, full: usize) -> usize {
        if self.report.quick { (full / 10).max(1) } else { full }
    }

    /// Runs a measure, in so many rounds if it is a full run, and prints its table.
    pub fn run(&mut self, measure: Measure<'_>, rounds: usize) {
        if !self.wants(measure.slug()) {
            return;
        }
        let table = measure.with_sides(&self.sides).run(if self.report.quick {
            rounds.min(QUICK_ROUNDS)
        } else {
            rounds
        });
        println!("{table}");
        self.report.tables.push(table);
    }

    /// Writes what was found, for a full run to `bench-results` and else to `target/bench-results`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<ExitCode, Failure> {
        let whole = !self.report.quick && self.only.is_empty() && self.sides.is_empty();
        let folder = if whole { results() } else { root().join("target/bench-results") };
        fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{}.json", self.report.store));
        fs::write(&file, serde_json::to_string_pretty(&self.report)? + "\n")?;
        let verdicts = || self.report.tables.iter().flat_map(|table| &table.verdicts);
        let met = verdicts().filter(|verdict| verdict.met).count();
        println!("{met} of {} targets met; figures in {}", verdicts().count(), shown(&file).display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Where the figures of full runs are kept.
#[must_use]
pub fn results() -> PathBuf {
    root().join("bench-results")
}

/// The workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn shown(file: &Path) -> &Path {
    file.strip_prefix(root()).unwrap_or(file)
}
