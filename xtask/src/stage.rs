//! The stages of a command, timed.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;

/// The finished stages, with their times and results.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    finished: Vec<(&'static str, Duration, bool)>,
}

impl Stages {
    /// Runs one stage and records its time and result.
    #[expect(
        clippy::disallowed_methods,
        reason = "a stopwatch for humans: no clock of the library is involved"
    )]
    pub(crate) fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Outcome) -> Outcome {
        println!("== {name}");
        let start = Instant::now();
        let outcome = stage();
        self.finished.push((name, start.elapsed(), matches!(outcome, Ok(true))));
        outcome
    }

    /// Runs a program as a stage. It succeeds if its exit status is zero.
    pub(crate) fn command(&mut self, name: &'static str, command: &mut Command) -> Outcome {
        self.run(name, || Ok(command.status()?.success()))
    }

    /// Prints the time of each stage, and returns whether all succeeded.
    pub(crate) fn summary(&self) -> bool {
        println!();
        for (name, time, well) in &self.finished {
            let verdict = if *well { "ok" } else { "FAILED" };
            println!("{name:<16} {:>7.1} s  {verdict}", time.as_secs_f64());
        }
        self.finished.iter().all(|(_, _, well)| *well)
    }
}
