//! How long it takes until things go on after one fault, beside the time that the contract allows.
//!
//! Each trial has worker processes of its own on a private server: who holds a mutex, who waits for it, and who counts
//! the waiters, so that nothing begins before all wait in line. Workers write down when they are granted something; all
//! times are of the machine's monotonic clock.
//!
//! ```no_run
//! use std::process::Command;
//! use stanchion_campaign::recovery::{Table, measure};
//! use stanchion_campaign::rounds::{Site, Stand};
//!
//! let site = Site::start(Stand::Redis)?;
//! let samples = measure(&site, &|| Command::new("target/debug/fault-worker"), 0)?;
//! println!("{}", Table::of(&samples));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod actor;
mod measures;
mod stage;
mod table;
mod trials;

use std::process::Command;

use stanchion_testbed::servers::temporary_folder;

use crate::rounds::{Site, Stand};
use stage::Stage;

pub use measures::{Bound, Limit, Measure};
pub use table::Table;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// One time that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// How holds were kept.
    pub stand: Stand,
    /// From when until when.
    pub measure: Measure,
    /// The time, in µs; negative where the second moment was the earlier one.
    pub micros: i64,
}

/// Runs each trial once, one after the other, and blocks the thread for some 15 s. `program` gives the command that runs
/// a worker, to which [its arguments](crate::rounds::Work::to_arguments) are added. `run` tells runs on one site apart: faults
/// strike at another moment of a lease in each.
///
/// # Errors
/// What keeps a trial from being carried out: servers, processes, files, and a grant that does not come within 20 s. A
/// time over its bound is no error.
pub fn measure(site: &Site, program: &dyn Fn() -> Command, run: u32) -> Result<Vec<Sample>, Error> {
    // Workers wait for each line of their histories, and a disk that is busy would be taken for a store that is.
    let folder = temporary_folder("recovery")?;
    let mut samples = Vec::new();
    for (name, trial) in trials::TRIALS {
        let mut stage = Stage::new(site, program, &folder.path().join(name), name, run);
        let measured = trial(&mut stage).map_err(|error| format!("{}, {name}: {error}", site.stand()))?;
        let sample = |(measure, micros)| Sample { stand: site.stand(), measure, micros };
        samples.extend(measured.into_iter().map(sample));
    }
    Ok(samples)
}
