//! How long it takes until things go on after one fault, beside the time that the contract allows.
//!
//! Each trial has worker processes of its own on a private server: who holds a mutex, who waits for it, and who counts
//! the waiters, so that nothing begins before all wait in line. Workers write down when they are granted something; all
//! times are of the machine's monotonic clock.
//!
//! ```no_run
//! use std::process::Command;
//! use stanchion_campaign::recovery::{Table, measure};
//! use stanchion_campaign::rounds::{CampaignServer, Deployment};
//!
//! let server = CampaignServer::start(Deployment::Redis)?;
//! let samples = measure(&server, &|| Command::new("target/debug/fault-worker"), 0)?;
//! println!("{}", Table::of(&samples));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod trial_worker;
mod measures;
mod trial_setup;
mod table;
mod trials;

use std::process::Command;

use stanchion_testbed::servers::temporary_folder;

use crate::rounds::{CampaignServer, Deployment};
use trial_setup::TrialSetup;

pub use measures::{Bound, Limit, Measure};
pub use table::Table;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// One time that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// How holds were kept.
    pub deployment: Deployment,
    /// From when until when.
    pub measure: Measure,
    /// The time, in µs; negative where the second moment was the earlier one.
    pub micros: i64,
}

/// Runs each trial once, one after the other, and blocks the thread for some 15 s. `program` gives the command that runs
/// a worker, to which [its arguments](crate::rounds::Work::to_arguments) are added. `run` tells runs on one server apart: faults
/// strike at another moment of a lease in each.
///
/// # Errors
/// What keeps a trial from being carried out: servers, processes, files, and a grant that does not come within 20 s. A
/// time over its bound is no error.
pub fn measure(server: &CampaignServer, program: &dyn Fn() -> Command, run: u32) -> Result<Vec<Sample>, Error> {
    // Workers wait for each line of their histories, and a disk that is busy would be taken for a store that is.
    let folder = temporary_folder("recovery")?;
    let mut samples = Vec::new();
    for (name, trial) in trials::TRIALS {
        let mut setup = TrialSetup::new(server, program, &folder.path().join(name), name, run);
        let measured = trial(&mut setup).map_err(|error| format!("{}, {name}: {error}", server.deployment()))?;
        let sample = |(measure, micros)| Sample { deployment: server.deployment(), measure, micros };
        samples.extend(measured.into_iter().map(sample));
    }
    Ok(samples)
}
