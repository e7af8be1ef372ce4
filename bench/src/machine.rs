//! The origin of figures: this machine, and the versions that ran on it.

use std::fmt;
use std::fs;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

use crate::load::clock;

/// Facts about a machine that a reader of figures needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of its processor.
    pub processor: String,
    /// Number of its processors.
    pub cores: usize,
    /// Its memory, in MiB.
    pub memory: u64,
    /// The kernel.
    pub kernel: String,
    /// Its load in the minute before: running processes on average.
    pub load: String,
}

impl Machine {
    /// Returns the facts about this machine.
    #[must_use]
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory =
            memory.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: available_parallelism().map_or(1, usize::from),
            memory: memory / 1024,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load: read("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory, kernel, load } = self;
        write!(formatter, "{cores} × {processor}, {memory} MiB, {kernel}, load average {load} at the start")
    }
}

/// Returns the median time of a flush of 8 KiB, a page of a log, to the disk of `folder`, in µs.
///
/// # Errors
/// If a file there cannot be written.
pub fn flush(folder: &Path) -> io::Result<u128> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::new();
    for number in 0..200_u8 {
        file.rewind()?;
        file.write_all(&[number; 8192])?;
        let start = clock();
        file.sync_data()?;
        times.push(start.elapsed().as_micros());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Returns the versions of crates that this program was built with.
#[must_use]
pub fn versions(crates: &[&str]) -> Vec<(String, String)> {
    let lock = include_str!("../../Cargo.lock");
    let package = |name: &&str| {
        // Of several versions the last one: packages are sorted by version, and the workspace uses
        // the newest.
        let (_, rest) = lock.rsplit_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(((*name).to_owned(), rest.split('"').next()?.to_owned()))
    };
    crates.iter().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let found = versions(&["governor", "no-such-crate"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.starts_with("0.10."), "{found:?}");
    }

    #[test]
    fn this_machine_has_a_processor() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory > 0, "{machine}");
    }
}
