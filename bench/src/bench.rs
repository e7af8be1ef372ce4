//! One run over one store: its arguments, its results and their files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::table::Table;

/// Factor by which the slices of a quick run are shorter, and its number of rounds.
const QUICK: u32 = 4;
const QUICK_ROUNDS: usize = 3;

/// The results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The store.
    pub store: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Names and versions of the server and of the peers.
    pub versions: Vec<(String, String)>,
    /// One table for each measure.
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
    /// Reads `[--quick] [--only MEASURE]… [--side NAME]…` from the command line; cargo's own flags
    /// are ignored.
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

    /// Returns whether a measure is to run.
    #[must_use]
    pub fn wants(&self, slug: &str) -> bool {
        let chosen = |only: &String| {
            slug.strip_prefix(only.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(chosen)
    }

    /// Scales a full run's slice length to this run.
    #[must_use]
    pub fn slice(&self, full: Duration) -> Duration {
        if self.report.quick { full / QUICK } else { full }
    }

    /// Scales a full run's count to this run.
    #[must_use]
    pub fn count(&self, full: usize) -> usize {
        if self.report.quick { (full / 10).max(1) } else { full }
    }

    /// Runs a measure, in `rounds` rounds if this is a full run, and prints its table.
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

    /// Writes the results: of a full run to `docs/bench-results`, of a quick run to
    /// `target/bench-results`.
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

/// Returns the folder of the figures of full runs.
#[must_use]
pub fn results() -> PathBuf {
    root().join("docs/bench-results")
}

/// Returns the root of the workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn shown(file: &Path) -> &Path {
    file.strip_prefix(root()).unwrap_or(file)
}
